"""Bits of symbols by row: which rows satisfy which symbol's condition."""
