"""A SELECT over windows of ours that DuckDB must run a part of, split in two.

Rows of windows exist only aggregated, windows without events among them. So Chronicle answers the
groups with their keys and aggregates, and DuckDB runs over these rows what is left: window
functions, QUALIFY, ORDER BY ALL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from replay.language.bound import WINDOW_END, WINDOW_START
from replay.language.functions import AGGREGATES
from replay.language.tokens import NAME, QUOTED, Token, quoted
from replay.sql.constructs import (
    AGGREGATES_OF_WINDOWS,
    END_FROM,
    begins_query,
    begins_sources,
    is_window_call,
)

Span = tuple[int, int]

_KNOWN = AGGREGATES_OF_WINDOWS | {name.lower() for name in AGGREGATES} | {"list"}


@dataclass(frozen=True, slots=True)
class Windows:
    """A SELECT over windows, split.

    Attributes
    ----------
    source
        From FROM to behind GROUP BY.
    keys
        Columns of GROUP BY.
    aggregates
        Calls around it.
    name
        What the source is called.
    all_at
        Where ALL stands, of GROUP BY ALL.
    having
        Where HAVING stands.
    """

    source: Span
    keys: tuple[str, ...]
    aggregates: tuple[Span, ...]
    name: str | None
    all_at: int | None
    having: int | None


def split_windows(
    tokens: Sequence[Token], closing: Mapping[int, int], first: int, stop: int
) -> Windows | None:
    """Return how a SELECT is split; None if its one source is no window, or its keys no columns."""
    level = list(_level(closing, first, stop))
    begin = next((i for i in level if begins_sources(tokens, i)), stop)
    opens = begin + 3 if tokens[min(begin + 1, stop)].key == "TABLE" else begin + 1
    if tokens[first].key != "SELECT" or opens >= stop or not is_window_call(tokens, opens):
        return None
    ends = [i for i in level if i > begin and tokens[i].key in END_FROM]
    group = next((i for i in ends if tokens[i].key == "GROUP"), None)
    if group is None or any(tokens[i].key in ("JOIN", ",") for i in level if begin < i < group):
        return None
    end = next((i for i in ends if i > group), stop)
    items = list(_items(tokens, level, group + 2, end))
    outside = [*range(first + 1, begin), *range(end, stop)]
    all_at = group + 2 if [tokens[a].key for a, _ in items] == ["ALL"] else None
    queries = [i for i in outside if begins_query(tokens, i)]
    inner = {i for a in queries for i in range(a, closing[a])}
    spans = tuple(_aggregates(tokens, closing, [i for i in outside if i not in inner]))
    if any(not _is_ours(tokens, span) for span in spans):
        return None
    if all_at is not None:
        inside = {i for a, b in spans for i in range(a, b)}
        listed = _items(tokens, level, first + 1, begin)
        items = [(a, b) for a, b in listed if not inside & set(range(a, b))]
        items = [(a, b) for a, b in items if all(t.key != "OVER" for t in tokens[a:b])]
    keys = [_column(tokens, a, b) for a, b in items]
    if not keys or None in keys:
        return None
    borders = [tokens[i].text for i in outside if tokens[i].text in (WINDOW_START, WINDOW_END)]
    named = tuple(dict.fromkeys([*filter(None, keys), *borders]))
    having = end if tokens[end].key == "HAVING" else None
    return Windows((begin, end), named, spans, _name(tokens, closing, opens), all_at, having)


def _level(closing: Mapping[int, int], first: int, stop: int) -> Iterator[int]:
    """Yield the places of tokens outside of all parentheses."""
    i = first
    while i < stop:
        yield i
        i = closing[i] + 1 if i in closing else i + 1


def _name(tokens: Sequence[Token], closing: Mapping[int, int], opens: int) -> str | None:
    """Return the alias of windows, or what their stream is called."""
    i = closing[opens + 1] + 1
    i += tokens[i].key == ")"
    i += tokens[i].key == "AS"
    if tokens[i].kind not in (NAME, QUOTED) or tokens[i].key in END_FROM:
        i = next(j for j in range(opens, len(tokens)) if tokens[j].key == "TABLE") + 1
    return tokens[i].text if tokens[i].kind in (NAME, QUOTED) else None


def _items(tokens: Sequence[Token], level: Sequence[int], first: int, stop: int) -> Iterator[Span]:
    """Yield what stands between commas."""
    commas = [i for i in level if first <= i < stop and tokens[i].key == ","]
    for comma in [*commas, stop]:
        yield first, comma
        first = comma + 1


def _column(tokens: Sequence[Token], first: int, stop: int) -> str | None:
    """Return the column that is named, with or without its source; None if it is something else."""
    words = tokens[first:stop]
    is_qualified = len(words) == 3 and words[1].key == "."
    if (len(words) == 1 or is_qualified) and words[-1].kind in (NAME, QUOTED):
        return words[-1].text
    return None


def _aggregates(
    tokens: Sequence[Token], closing: Mapping[int, int], places: Sequence[int]
) -> Iterator[Span]:
    """Yield the calls of aggregates that are no window functions."""
    behind = 0
    for i in places:
        is_call = tokens[i].kind == NAME and tokens[i + 1].key == "("
        if i < behind or not is_call or tokens[i].text.lower() not in _KNOWN:
            continue
        end = closing[i + 1] + 1
        while tokens[end].key in ("FILTER", "WITHIN"):
            end = closing[end + (1 if tokens[end].key == "FILTER" else 2)] + 1
        if tokens[end].key != "OVER":
            yield i, end
            behind = end


def _is_ours(tokens: Sequence[Token], span: Span) -> bool:
    """Tell whether our windows have an aggregate, as far as its words show."""
    words = tokens[slice(*span)]
    return words[0].text.lower() in AGGREGATES_OF_WINDOWS and all(t.key != "FILTER" for t in words)


def written_name(span: Sequence[Token]) -> str:
    """Return the name of a column that is a call, as it is called where it has no other."""
    return quoted(span[0].text.upper() + "".join(token.text for token in span[1:]))
