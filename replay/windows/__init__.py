"""Planning of windowed aggregation: by the tree, or by replay."""
