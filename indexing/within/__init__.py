"""Lookups that are asked about some rows of a stream only."""
