"""States of runs and the path under search, compiled."""
