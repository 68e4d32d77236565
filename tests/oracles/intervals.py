"""Naive planning: words, matches and candidates one by one, intervals by their definition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise, product
from typing import Any

from replay.language.bound import (
    Alternate,
    AnchorKind,
    BoundPatternQuery,
    Concat,
    Edge,
    Exclusion,
    Expression,
    Negation,
    Pattern,
    Repeat,
    Semantics,
    Symbol,
)
from tests.oracles import scalar

Row = Mapping[str, Any]

NEGATED = -1
"""Stands in a word where the pattern has a negation; maps no row."""

SKIPPING = (Semantics.SKIP_TILL_NEXT, Semantics.SKIP_TILL_ANY)


# --- words of the pattern's language -----------------------------------------------------------


def words(pattern: Pattern, length_max: int) -> set[tuple[int, ...]]:
    """Return every word (tuple of symbols and `NEGATED`) of at most ``length_max`` of them."""
    match pattern:
        case Symbol(index):
            return {(index,)} if length_max >= 1 else set()
        case Negation():
            return {(NEGATED,)} if length_max >= 1 else set()
        case Edge():
            return {()}
        case Exclusion(body):
            return words(body, length_max)
        case Concat(parts):
            found = {()}
            for part in parts:
                found = _then(found, words(part, length_max), length_max)
            return found
        case Alternate(branches):
            return set().union(*(words(branch, length_max) for branch in branches))
        case Repeat(body, low, high):
            once = words(body, length_max)
            found = {()}
            for _ in range(low):
                found = _then(found, once, length_max)
            grown, n = found, low
            while high is None or n < high:
                larger = grown | _then(grown, once, length_max)
                if larger == grown:
                    break
                grown, n = larger, n + 1
            return grown
    raise AssertionError(pattern)


def _then(left: set, right: set, length_max: int) -> set:
    return {a + b for a in left for b in right if len(a) + len(b) <= length_max}


# --- conditions --------------------------------------------------------------------------------


def evaluate(expression: Expression, row: Row, mapped: Sequence[tuple[int, Row]] = ()) -> Any:
    """Return the value at a row, given the (symbol, row) mapped so far."""

    def lookup(attribute: Any) -> Any:
        assert attribute.offset == 0
        if attribute.anchor.kind is AnchorKind.CURRENT:
            return row[attribute.name]
        assert attribute.anchor.kind is AnchorKind.LAST
        rows = [r for symbol, r in mapped if symbol in attribute.anchor.symbols]
        return rows[-1][attribute.name] if rows else None

    return scalar.evaluate(expression, lookup)


# --- matches -----------------------------------------------------------------------------------


def matches(
    query: BoundPatternQuery, rows: Sequence[Row], length_max: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return every mapping as (word, row numbers), whatever the preferment; none is empty.

    Negations forbid nothing here: a mapping counts if a replay that saw no row beside it could
    take it for a match. SKIP TILL NEXT is answered as ANY, which has all its matches.
    """
    keys = {tuple(row[name] for name in query.partition_by) for row in rows}
    found = []
    for key in keys:
        members = [
            i for i, row in enumerate(rows) if tuple(row[n] for n in query.partition_by) == key
        ]
        for word in words(query.pattern, length_max):
            symbols = tuple(symbol for symbol in word if symbol != NEGATED)
            found += [
                (word, at)
                for at in _placed(len(symbols), members, query.semantics)
                if symbols and _satisfies(query, rows, symbols, at)
            ]
    return found


def _placed(n: int, members: Sequence[int], semantics: Semantics) -> Iterable[tuple[int, ...]]:
    if semantics in SKIPPING:
        return combinations(members, n)
    return (tuple(members[start : start + n]) for start in range(len(members) - n + 1))


def deciding_rows(
    query: BoundPatternQuery, rows: Sequence[Row], word: Sequence[int], at: Sequence[int]
) -> tuple[int, int]:
    """Return the first and last row that must be seen to tell whether a mapping is a match.

    A negation at its start (end) looks back (on) as far as the window reaches.
    """
    first, last = at[0], at[-1]
    if query.semantics is Semantics.SQL or query.within is None:
        return first, last
    if word[0] == NEGATED:
        earliest = rows[last][query.time] - query.within
        first = min(i for i, row in enumerate(rows) if i == first or row[query.time] >= earliest)
    if word[-1] == NEGATED:
        latest = rows[at[0]][query.time] + query.within
        last = max(i for i, row in enumerate(rows) if i == last or row[query.time] <= latest)
    return first, last


def _satisfies(
    query: BoundPatternQuery, rows: Sequence[Row], word: Sequence[int], at: Sequence[int]
) -> bool:
    took = rows[at[-1]][query.time] - rows[at[0]][query.time]
    if query.within is not None and took > query.within:
        return False
    mapped: list[tuple[int, Row]] = []
    for symbol, index in zip(word, at, strict=True):
        define = query.defines[symbol]
        if define is not None and evaluate(define, rows[index], mapped) is not True:
            return False
        mapped.append((symbol, rows[index]))
    return True


# --- intervals ---------------------------------------------------------------------------------


def covered_blocks(
    *,
    gap_before: Sequence[bool],
    trailing_gap: bool,
    found: Mapping[int, Iterable[int]],
    times: Sequence[int],
    blocks: Sequence[tuple[int, int]],
    within: int | None,
    rows_max: int | None,
    keys: Sequence[Any] | None = None,
    fills: Mapping[int, Iterable[int]] | None = None,
) -> list[bool]:
    """Return which blocks (half-open ranges of ``seq``) some candidate's interval has a part in.

    Every combination of one occurrence (``seq``) for each position in ``found`` is tried, and
    Interval(c, w) is taken by its definition. With ``keys``, of each event, those of a candidate
    are equal. ``fills`` names the events that may stand in the gap before a position.
    """
    n = len(gap_before)
    covered = [False] * len(blocks)
    positions = sorted(found)
    for candidate in product(*(found[position] for position in positions)):
        at = dict(zip(positions, candidate, strict=True))
        if not _is_candidate(at, gap_before, n, len(times)):
            continue
        if keys is not None and len({keys[seq] for seq in candidate}) > 1:
            continue
        if not _is_filled(at, gap_before, fills or {}):
            continue
        first, last = positions[0], positions[-1]
        n_behind = n - 1 - last
        t_start = _latest_time(at[first] - first, at[first], times, blocks)
        t_end = _earliest_time(at[last] + n_behind, at[last], times, blocks)
        if within is not None and t_end - t_start > within:
            continue
        if rows_max is not None and at[last] + n_behind - (at[first] - first) + 1 > rows_max:
            continue
        starts_fixed = not any(gap_before[: first + 1])
        ends_fixed = not any(gap_before[last + 1 :]) and not trailing_gap
        for block, (low, high) in enumerate(blocks):
            t_low, t_high = times[low], times[high - 1]
            begins = ends = True
            if starts_fixed:
                begins = at[first] - first < high
            else:
                if within is not None:
                    begins &= t_end - within <= t_high
                if rows_max is not None:
                    begins &= at[last] + n_behind - rows_max + 1 < high
            if ends_fixed:
                ends = at[last] + n_behind >= low
            else:
                if within is not None:
                    ends &= t_start + within >= t_low
                if rows_max is not None:
                    ends &= at[first] - first + rows_max - 1 >= low
            covered[block] |= begins and ends
    return covered


def _latest_time(
    row: int, known: int, times: Sequence[int], blocks: Sequence[tuple[int, int]]
) -> int:
    """Return the greatest time a row before a known one can have, as block summaries tell it."""
    if row == known:
        return times[known]
    block, gap = _block_of(row, times, blocks)
    bounds = [times[block[-1]] - gap * (block[-1] - row)]
    if known in block:
        bounds.append(times[known] - gap * (known - row))
    return min(bounds)


def _earliest_time(
    row: int, known: int, times: Sequence[int], blocks: Sequence[tuple[int, int]]
) -> int:
    """Return the least time a row behind a known one can have, as block summaries tell it."""
    if row == known:
        return times[known]
    block, gap = _block_of(row, times, blocks)
    bounds = [times[block[0]] + gap * (row - block[0])]
    if known in block:
        bounds.append(times[known] + gap * (row - known))
    return max(bounds)


def _block_of(
    row: int, times: Sequence[int], blocks: Sequence[tuple[int, int]]
) -> tuple[range, int]:
    """Return the rows of a row's block and the least time between two neighbours of it."""
    (block,) = (range(a, b) for a, b in blocks if a <= row < b)
    return block, min((times[i + 1] - times[i] for i in block[:-1]), default=0)


def _is_filled(
    at: Mapping[int, int], gap_before: Sequence[bool], fills: Mapping[int, Iterable[int]]
) -> bool:
    """Return whether the rows of each gap with a known fill, between known blocks, may be there."""
    starts = [0, *(p for p in range(1, len(gap_before)) if gap_before[p])]
    stops = [*starts[1:], len(gap_before)]
    begins = {}
    for first, stop in zip(starts, stops, strict=True):
        known = [at[p] - (p - first) for p in range(first, stop) if p in at]
        if known:
            begins[first] = known[0], known[0] + stop - first
    for (before, after), stop in zip(pairwise(starts), stops[:-1], strict=True):
        if before in begins and after in begins and after in fills:
            assert stop == after
            rows = range(begins[before][1], begins[after][0])
            if not set(rows) <= set(fills[after]):
                return False
    return True


def _is_candidate(at: Mapping[int, int], gap_before: Sequence[bool], n: int, n_events: int) -> bool:
    """Return whether (C3) holds, and there are rows for the positions not looked up."""
    for a, b in pairwise(sorted(at)):
        distance = at[b] - at[a]
        if any(gap_before[a + 1 : b + 1]):
            if distance < b - a:
                return False
        elif distance != b - a:
            return False
    first, last = min(at), max(at)
    return at[first] >= first and at[last] + (n - 1 - last) < n_events
