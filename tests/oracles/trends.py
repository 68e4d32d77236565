"""What the channels of runs hold, by their definition: from matches that were made one by one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from replay.language.bound import Aggregate, DataType, SymbolSet
from replay.patterns.trends.algebra import MATCHES, Channel, Held, Number, Part, Reading, Summing
from tests.oracles.answer import Found
from tests.oracles.outer import value_of
from tests.oracles.row_aggregates import aggregate, is_nan
from tests.oracles.view import Row


def read(
    summing: Summing, part: Aggregate, reading: Reading, matches: Sequence[Found], time: str
) -> Any:
    """Return an aggregate of the outer query as its reading says."""

    def number(wanted: Number) -> Any:
        if wanted == MATCHES:
            return len(matches)
        assert wanted.channel is not None
        values = _values(summing.channels[wanted.channel], matches, time)
        return _part(wanted.part, values)

    over = None if reading.over is None else number(reading.over)
    if over == 0:
        return None
    found = number(reading.number)
    if not reading.is_ratio:
        is_double = part.function == "sum" and part.type is DataType.DOUBLE
        return float(found) if is_double else found
    if part.type is DataType.INTERVAL:
        return int(Fraction(found) / over)
    return found / over if isinstance(found, float) else float(Fraction(found) / over)


def _part(part: Part, values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    if part is Part.COUNT:
        return len(known)
    if part is Part.SUM:
        odd = [value for value in known if is_nan(value) or abs(value) == float("inf")]
        return sum(odd) if odd else sum((Fraction(value) for value in known), Fraction())
    there = [value for value in known if not is_nan(value)]
    best = min if part is Part.LEAST else max
    found = best(there) if there else None
    return found + 0.0 if isinstance(found, float) else found  # no least of 0.0 and -0.0


def _values(channel: Channel, matches: Sequence[Found], time: str) -> list[Any]:
    """Return all values of a channel: of every row, or one of each match."""
    if channel.held is Held.ROWS:
        return [value for match in matches for value in _at_rows(channel, match)]
    return [_of_match(channel, match, time) for match in matches]


def _of_match(channel: Channel, match: Found, time: str) -> Any:
    if channel.held is Held.GAP:
        later, earlier = _rows(match, channel.symbols), _rows(match, channel.since)
        return later[-1][time] - earlier[0][time]
    values = _at_rows(channel, match)
    known = [value for value in values if value is not None]
    held = channel.held
    match held:
        case Held.COUNT:
            return len(known)
        case Held.FIRST:
            return values[0] if values else None
        case Held.LAST:
            return values[-1] if values else None
        case Held.LEAST | Held.GREATEST:
            return _part(Part.LEAST if held is Held.LEAST else Part.GREATEST, known)
    assert channel.value is not None
    what = Aggregate("sum", channel.value, channel.symbols, channel.value.type)
    return aggregate(what, known)


def _at_rows(channel: Channel, match: Found) -> list[Any]:
    rows = _rows(match, channel.symbols)
    return [1 if channel.value is None else value_of(channel.value, [row]) for row in rows]


def _rows(match: Found, symbols: SymbolSet) -> list[Row]:
    mapped = (x for x in match.mapping if symbols is None or x.symbol in symbols)
    return [match.rows[x.at] for x in mapped]
