"""Aggregates of windows that need every value."""
