"""Secondary indexes: keys, runs, fences and lookups. The names are in ``__init__.pyi``."""

from chronicle.door import offer

offer(__name__)
