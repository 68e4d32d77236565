"""Temporal patterns over situations: the periods in which conditions hold, and how they lie."""
