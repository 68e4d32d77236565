"""Mappings whose conditions look across rows, compiled."""
