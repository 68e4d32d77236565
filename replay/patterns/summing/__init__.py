"""Sums over every match: the operator that drives the machine of `trends`, row by row."""
