"""The tree engine of windowed aggregation: entries of the TAB+-tree merged to windows."""
