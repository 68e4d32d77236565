"""Durations: ``INTERVAL '30' MINUTE``, ``INTERVAL '1 02:03:04' DAY TO SECOND``, ``30 MINUTES``."""

from __future__ import annotations

from chronicle.errors import did_you_mean
from replay.expressions.literals import UNIT_SPANS, UNIT_US
from replay.language import syntax
from replay.language.cursor import Cursor, describe
from replay.language.syntax import CALENDAR_UNITS, Expression
from replay.language.tokens import NAME, NUMBER, STRING, Token

UNITS = {name: unit for unit in (*UNIT_US, *CALENDAR_UNITS) for name in (unit, unit + "S")}


def parse_interval(cursor: Cursor, token: Token) -> Expression | None:
    """Parse INTERVAL and what follows; None where it is a name."""
    if cursor.peek().kind not in (STRING, NUMBER):
        return None
    cursor.advance()
    amount = cursor.advance()
    words = amount.text.split()
    if len(words) >= 2 and words[1][:1].isalpha():
        return _sum_of_units(cursor, token, amount, words)
    unit = _unit(cursor, cursor.token, cursor.token.key)
    cursor.advance()
    if cursor.accept("TO"):
        end = _unit(cursor, cursor.token, cursor.token.key)
        unit = f"{unit} TO {end}"
        if unit not in UNIT_SPANS:
            known = ", ".join(UNIT_SPANS)
            raise cursor.error(f"there is no duration in {unit}; there is {known}")
        cursor.advance()
    return syntax.Duration(amount.text.strip(), unit, at=token.at)


def _sum_of_units(cursor: Cursor, token: Token, amount: Token, words: list[str]) -> Expression:
    """Return ``INTERVAL '1 day 2 hours'`` as a sum."""
    parts = [
        syntax.Duration(number, _unit(cursor, amount, unit.upper()), at=token.at)
        for number, unit in zip(words[::2], [*words[1::2], ""], strict=False)
    ]
    total: Expression = parts[0]
    for part in parts[1:]:
        total = syntax.Binary("+", total, part, at=token.at)
    return total


def _unit(cursor: Cursor, token: Token, name: str) -> str:
    if name not in UNITS:
        raise cursor.error(
            f"expected a unit such as MINUTE, found {describe(token)}; "
            "a duration is written INTERVAL '30' MINUTE or 30 MINUTES",
            token.at,
        )
    return UNITS[name]


def refuse_unknown_unit(cursor: Cursor, *, if_near: bool = False) -> None:
    """Refuse a name behind a number, where a unit of time would stand.

    With ``if_near`` only one that is much like a unit is refused, since others may follow; months
    do not measure what stands there.
    """
    unit, before = cursor.token, cursor.tokens[cursor.index - 1]
    if unit.kind != NAME or before.kind != NUMBER:
        return
    if if_near and unit.key == "WHERE":  # the one clause whose name is like a unit: WEEK
        return
    units = {name: of for name, of in UNITS.items() if not if_near or of in UNIT_US}
    hint = did_you_mean(unit.key, units)
    if hint or not if_near:
        known = ", ".join(dict.fromkeys(units.values()))
        raise cursor.error(f"no unit of time '{unit.text}' (there are: {known}){hint}")
