"""Queries over history: languages, planning, operators. The names are in ``__init__.pyi``."""

from chronicle.door import offer

offer(__name__)
