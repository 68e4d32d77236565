"""Event store: time-ordered streams as Delta tables, with a TAB+-tree beside each.

``import chronicle`` is the one import that a user needs: queries, indexes and all errors are
offered here too, though the rooms above have them. The names are in ``__init__.pyi``.
"""

from chronicle.door import offer

offer(__name__)
