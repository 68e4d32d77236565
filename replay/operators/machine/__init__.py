"""The machine that runs pattern programs from one start row."""
