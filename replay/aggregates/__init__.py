"""Exact arithmetic of any width, for sums that must not depend on their order."""
