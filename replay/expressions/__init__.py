"""Expressions: what a condition implies for single attributes."""
