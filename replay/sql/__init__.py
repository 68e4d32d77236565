"""Statements beyond our language: taken apart, and run by DuckDB around our answers."""
