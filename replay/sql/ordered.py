"""Queries of DuckDB whose rows go into a pattern, sorted as their rows stand in the streams.

Window functions, joins and threads leave rows in an order of their own, and a pattern takes rows of
one time in the order in which they come. So relations have a further column that numbers their
rows; it is passed on by subqueries of FROM, left out of stars, and sorted by at the end. Rows that
are made of several, by GROUP BY, DISTINCT or UNION, have no such place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replay.language.tokens import NAME, QUOTED, Token, written
from replay.sql.constructs import END_FROM, begins_sources
from replay.sql.scope import Scope, find

NUMBERED = "_numbered"
"""How the name of a relation ends that has `ROW` besides its columns."""
ROW = "_row"
"""How the name of the column ends that numbers the rows of a relation."""

_ALL_ROWS = "SELECT * FROM "
_MADE_OF_SEVERAL = frozenset(
    ("EXCEPT", "GROUP", "HAVING", "INTERSECT", "PIVOT", "TABLESAMPLE", "UNION", "UNPIVOT")
)
_CUTS = frozenset(("FETCH", "LIMIT", "OFFSET"))


@dataclass(frozen=True, slots=True)
class Ordering:
    """How a query is written so that its rows come as those of the streams do."""

    replaced: Mapping[int, tuple[int, str]]
    """By its first place, what stands for some tokens and where it goes on."""
    end: str
    """What stands behind the query."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A source of FROM whose rows are numbered."""

    alias: str
    rows: tuple[str, ...]
    """The columns that number them."""


class _NoOrderError(Exception):
    """Rows of this query have no place in a stream, or it cannot be passed on."""


@dataclass(slots=True)
class Orderer:
    """Writes queries with the numbers of their rows.

    ``replaced`` are sources that have a relation already; ``is_star`` tells whether a token stands
    for all columns, ``behind_alias`` the place behind the alias of a source.
    """

    tokens: Sequence[Token]
    closing: Mapping[int, int]
    replaced: Mapping[int, tuple[int, str]]
    is_star: Callable[[int], bool]
    behind_alias: Callable[[int], int]
    _new: dict[int, tuple[int, str]] = field(default_factory=dict, init=False)

    def ordering(self, first: int, stop: int, scope: Scope) -> Ordering | None:
        """Return how a query is sorted; None if its rows are not those of the streams."""
        self._new = {}
        try:
            end = self._query(first, stop, scope, is_inside=False)[1]
        except _NoOrderError:
            return None
        return Ordering(self._new, end)

    def _query(
        self, first: int, stop: int, scope: Scope, *, is_inside: bool
    ) -> tuple[tuple[str, ...], str]:
        """Return the columns that number the rows of a query, and what ends the query.

        ``is_inside``: of a subquery, which passes the numbers on.
        """
        made = self.replaced.get(first)
        if made is not None and made[1].startswith(_ALL_ROWS):
            relation = made[1].removeprefix(_ALL_ROWS)
            self._new[first] = (made[0], f"{made[1]}{NUMBERED}")
            return (f"{relation}{ROW}",), f"ORDER BY {relation}{ROW}"
        if self.tokens[first].key != "SELECT" or self.tokens[first + 1].key == "DISTINCT":
            raise _NoOrderError
        level = list(self._level(first, stop))
        if any(self.tokens[i].key in _MADE_OF_SEVERAL for i in level):
            raise _NoOrderError
        begin = next((i for i in level if begins_sources(self.tokens, i)), stop)
        end = next((i for i in level if i > begin and self.tokens[i].key in END_FROM), stop)
        sources = self._sources(begin + 1, end, scope)
        rows = tuple(row for source in sources for row in source.rows)
        self._leave_out_of_stars(first, begin, sources)
        if is_inside:
            self._new[begin] = (begin + 1, f", {', '.join(rows)} FROM")
        return rows, self._sorted(level, stop, rows)

    def _sorted(self, level: Sequence[int], stop: int, rows: Sequence[str]) -> str:
        """Sort by the numbers, last of all; return what stands behind the query for it."""
        order = next((i for i in level if self.tokens[i].key == "ORDER"), None)
        if order is not None and self.tokens[order + 2].key == "ALL":
            raise _NoOrderError
        words = f"{'ORDER BY' if order is None else ','} {', '.join(rows)}"
        cut = next((i for i in level if self.tokens[i].key in _CUTS and i > level[0] + 1), stop)
        if cut == stop:
            return words
        self._new[cut] = (cut + 1, f"{words} {self.tokens[cut].text}")
        return ""

    def _level(self, first: int, stop: int) -> Iterator[int]:
        """Yield the places of tokens outside of all parentheses."""
        i = first
        while i < stop:
            yield i
            i = self.closing[i] + 1 if i in self.closing else i + 1

    def _sources(self, first: int, stop: int, scope: Scope) -> list[_Source]:
        """Return the sources of FROM whose rows are numbered; the first one must be."""
        found: list[_Source] = []
        i, is_seen = first, True
        while i < stop:
            if self.tokens[i].key == "LATERAL":
                i += 1
            before = dict(self._new)
            try:
                source = self._source(i, scope) if is_seen else None
            except _NoOrderError:
                self._new, source = before, None
            if source is not None:
                found.append(source)
            elif not found:
                raise _NoOrderError
            following = (i for i in self._level(i, stop) if self.tokens[i].key in ("JOIN", ","))
            i = next(following, stop)
            is_seen = not {"SEMI", "ANTI"} & {token.key for token in self.tokens[i - 2 : i]}
            i += 1
        if not found:
            raise _NoOrderError
        return found

    def _source(self, i: int, scope: Scope) -> _Source | None:
        """Return a source whose rows are numbered; None where they cannot be."""
        token, made = self.tokens[i], self.replaced.get(i)
        if made is not None:
            stop, text = made
            relation, _, own = text.partition(" AS ")
            self._new[i] = (stop, f"{relation}{NUMBERED}{f' AS {own}' if own else ''}")
            return _Source(self._alias(stop) or own.strip('"').lower(), (f"{relation}{ROW}",))
        if token.key == "(":
            stop = self.closing[i]
            rows, _ = self._query(i + 1, stop, scope, is_inside=True)
            return _Source(self._alias(stop + 1), rows)
        known = find(scope, token.text) if token.kind in (NAME, QUOTED) else None
        if known is None or known.is_recursive or self.tokens[known.first + 2].key != "(":
            return None
        if (
            sum(self._names(n, known.name) for n in range(len(self.tokens) - 1)) != 2
        ):  # with its own
            raise _NoOrderError
        before = scope[: scope.index(known)]
        rows, _ = self._query(known.first + 3, known.stop - 1, before, is_inside=True)
        return _Source(self._alias(i + 1) or token.text.lower(), rows)

    def _names(self, i: int, name: str) -> bool:
        """Tell whether a token is a name by itself, neither of a column nor before one."""
        token, beside = self.tokens[i], (self.tokens[i - 1].key, self.tokens[i + 1].key)
        is_name = token.kind in (NAME, QUOTED) and "." not in beside
        return is_name and token.text.lower() == name.lower()

    def _alias(self, i: int) -> str:
        """Return the alias that begins at a place, in lower case; none: ''."""
        if self.behind_alias(i) == i:
            return ""
        return self.tokens[i + 1 if self.tokens[i].key == "AS" else i].text.lower()

    def _leave_out_of_stars(self, first: int, stop: int, sources: Sequence[_Source]) -> None:
        """Leave the numbers out of what stands for all columns in a list of SELECT."""
        aliases = {source.alias for source in sources}
        level = set(self._level(first, stop))
        for i in range(first + 1, stop):
            token, before, after = self.tokens[i], self.tokens[i - 1], self.tokens[i + 1]
            if token.key == "COLUMNS":
                raise _NoOrderError
            is_name = token.kind in (NAME, QUOTED) and "." not in (before.key, after.key)
            if is_name and before.key != "AS" and token.text.lower() in aliases:
                raise _NoOrderError  # a row as a value
            if token.key != "*" or not self.is_star(i):
                continue
            if i not in level:
                raise _NoOrderError
            of = self.tokens[i - 2].text.lower() if before.key == "." else None
            rows = [row for one in sources if of in (None, one.alias) for row in one.rows]
            if not rows:
                continue
            named, out = ", ".join(rows), self.tokens[i + 2]
            if after.key != "EXCLUDE":
                self._new[i] = (i + 1, f"* EXCLUDE ({named})")
            elif out.key == "(":
                self._new[i + 2] = (i + 3, f"({named},")
            else:
                self._new[i + 2] = (i + 3, f"({named}, {written(out)})")
