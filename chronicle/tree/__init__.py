"""Summaries of blocks, and the TAB+-tree over them: files, arithmetic, aggregates."""
