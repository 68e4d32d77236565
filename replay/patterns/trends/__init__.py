"""Aggregates over every match of a strategy, without making a match."""
