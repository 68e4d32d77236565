"""Joins of two streams, event by event: windowed (thesis Def. 2.12-2.13) and ASOF."""
