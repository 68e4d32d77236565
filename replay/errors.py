"""Errors of queries: text that cannot be read, names that do not bind, plans that do not apply."""

from __future__ import annotations

from collections.abc import Iterable

from chronicle.errors import ChronicleError, did_you_mean, nearest
from chronicle.foreign_text import split_lines

_LISTED_MAX = 40
"""Names that a message lists; of more, such as the columns of a wide stream, some."""

_SOME = 10
"""Names of many that a message gives as examples."""

_NEAREST_MAX = 3
_NEAREST_CUTOFF = 0.4
"""Likeness from which on a name is one of the nearest; what may be meant is more alike."""

_EXCERPT_MAX = 120
"""Characters of a query's line that a message shows; of a longer one those around the caret."""


class QueryError(ChronicleError):
    """A query cannot be used as written.

    Attributes
    ----------
    line, column
        Where, both from 1; 0 if the place is not known.
    excerpt
        The line of the query, or of a long one a part, with a caret under the place; or empty.
    """

    def __init__(
        self, message: str, *, text: str | None = None, line: int = 0, column: int = 0
    ) -> None:
        self.message = message
        super().__init__(self._placed(text, line, column))

    def _placed(self, text: str | None, line: int, column: int) -> str:
        """Take a place, and return the message with it."""
        self.line = line
        self.column = column
        self.excerpt = _excerpt(text, line, column)
        place = f"line {line}, column {column}: " if line else ""
        return f"{place}{self.message}" + (f"\n{self.excerpt}" if self.excerpt else "")

    def move_to(self, text: str | None, line: int, column: int) -> None:
        """Say that the error is elsewhere: in a text that the other one is a part of."""
        self.args = (self._placed(text, line, column),)


class PatternSyntaxError(QueryError):
    """The text is not a query."""


class NotSupportedError(QueryError):
    """The query is legal, and Chronicle cannot answer it yet; it never runs as something else."""


class BindError(QueryError):
    """Names or types of the query do not fit the stream."""


class UnknownNameError(BindError, LookupError):
    """A name that is not there.

    The message names what may be meant, else all there is; where ``listed`` says in which list
    that can be read, only the nearest names.

    Attributes
    ----------
    name, candidates
        What was asked for, and what there is.
    """

    def __init__(
        self,
        what: str,
        name: str,
        *,
        candidates: Iterable[str],
        listed: str = "",
        text: str | None = None,
        line: int = 0,
        column: int = 0,
    ) -> None:
        self.name = name
        self.candidates = tuple(candidates)
        hint = did_you_mean(name, self.candidates)
        if not hint:
            near = f"{_nearest(name, self.candidates)}; {listed}"
            hint = near if listed else _listed(self.candidates)
        super().__init__(f"no {what} '{name}'{hint}", text=text, line=line, column=column)


def _nearest(name: str, candidates: tuple[str, ...]) -> str:
    near = nearest(name, candidates, n=_NEAREST_MAX, cutoff=_NEAREST_CUTOFF)
    return f" (nearest: {', '.join(near)})" if near else ""


def _listed(candidates: tuple[str, ...]) -> str:
    if len(candidates) <= _LISTED_MAX:
        return f" (there are: {', '.join(candidates)})"
    return f" (there are {len(candidates)}, such as {', '.join(candidates[:_SOME])})"


class StepLimitError(QueryError):
    """Matching from one start row took more steps than the stated limit."""


class SkipError(QueryError):
    """AFTER MATCH SKIP names a row that a match does not have, or where the search would hang.

    It counts only if LIMIT asks for more than the match it is about and those before it.

    Attributes
    ----------
    first_seq
        ``seq`` of the first row of that match.
    """

    def __init__(self, message: str, *, first_seq: int) -> None:
        self.first_seq = first_seq
        super().__init__(message)


class LimitExceededError(ChronicleError):
    """A query went beyond a limit it was given; it has no answer, and a shortened one least of all.

    Attributes
    ----------
    limit
        ``timeout``, ``max_rows`` or ``memory``.
    """

    def __init__(self, limit: str, what: str) -> None:
        self.limit = limit
        super().__init__(f"{what}; narrow the query or raise the limit")


class PlanError(ChronicleError):
    """The plan that was named cannot answer the query."""


def _excerpt(text: str | None, line: int, column: int) -> str:
    """Return the line in question with a caret below the column."""
    if text is None or line < 1:
        return ""
    lines = split_lines(text) or [""]
    source = lines[min(line, len(lines)) - 1].replace("\t", " ")
    caret = column - 1
    if len(source) > _EXCERPT_MAX:
        begin = min(max(0, caret - _EXCERPT_MAX // 2), max(0, len(source) - _EXCERPT_MAX))
        end = begin + _EXCERPT_MAX
        before, after = "…" if begin else "", "…" if end < len(source) else ""
        source = f"{before}{source[begin:end]}{after}"
        caret += len(before) - begin
    return f"  {source}\n  {' ' * caret}^"
