"""Upkeep of streams: compact, vacuum, check, repair."""
