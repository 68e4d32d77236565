"""Windowed aggregation: panes of events, merged to windows, finished to rows of an answer."""
