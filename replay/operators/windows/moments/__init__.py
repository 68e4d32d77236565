"""Sums and second moments of windows, as pairs of doubles."""
