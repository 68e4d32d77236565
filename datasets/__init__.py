"""Data sets: the bundled crimes stream, the thesis' generators, and the tour that uses them.

Nothing is re-exported; take the modules by name, ``from datasets import crimes``.
"""
