"""Counts of matches that are never built, compiled."""
