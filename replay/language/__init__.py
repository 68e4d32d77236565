"""Languages: text to syntax tree to bound query."""

from replay.language.binder import bind, bind_query, is_bound_alone
from replay.language.query_parser import parse_query

__all__ = ["bind", "bind_query", "is_bound_alone", "parse_query"]
