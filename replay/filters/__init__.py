"""Filters: what every event contains that passes."""
