"""Engines: a plan and a source of events in, matches out."""
