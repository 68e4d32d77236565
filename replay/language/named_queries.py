"""``WITH name AS (query)``: names that stand for subqueries, and how large a query may grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replay.language.syntax import PatternQuery, SelectQuery

DEPTH_MAX = 30
"""Levels of subqueries inside each other."""
READS_MAX = 200
"""Streams a query may read, each as often as it is named: names of WITH are written out."""


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query that WITH gives a name."""

    query: SelectQuery | PatternQuery
    n_reads: int
    """Streams it reads, written out."""
    n_levels: int
    """Levels of subqueries it is, itself one."""


class NamedQueries:
    """The queries a place can name, and what the text so far is written out to."""

    def __init__(self) -> None:
        self.known: dict[str, NamedQuery] = {}
        self.n_reads = 0
        self._depth = 0
        self._deepest = 0

    @property
    def is_too_large(self) -> bool:
        """Whether the query reads more streams, or nests deeper, than it may."""
        return self.n_reads > READS_MAX or self._deepest > DEPTH_MAX

    def read(self, named: NamedQuery | None = None) -> None:
        """Count a stream, or all that a named query reads."""
        self.n_reads += 1 if named is None else named.n_reads
        if named is not None:
            self._deepest = max(self._deepest, self._depth + named.n_levels)

    @contextmanager
    def subquery(self) -> Iterator[None]:
        """Count a level of subqueries more."""
        self._depth += 1
        self._deepest = max(self._deepest, self._depth)
        yield
        self._depth -= 1

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget afterwards what was named inside."""
        outside = dict(self.known)
        yield
        self.known = outside

    def define(self, name: str, parse: Callable[[], SelectQuery | PatternQuery]) -> None:
        """Parse a query and give it a name; it counts where it is named."""
        n_reads, deepest = self.n_reads, self._deepest
        self._deepest = self._depth
        query = parse()
        n_levels = self._deepest - self._depth + 1
        self.known[name] = NamedQuery(query, self.n_reads - n_reads, n_levels)
        self.n_reads, self._deepest = n_reads, deepest
