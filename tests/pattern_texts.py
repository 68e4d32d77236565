"""Random row patterns, conditions and measures as SQL text, from a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

QUANTIFIERS = (
    *("*", "+", "?", "*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "{1,3}", "{,}"),
    *("*?", "+?", "??", "{,2}?", "{1,3}?", "{1,}?", "{2,3}?", "{3}"),
)
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Chooser:
    """Choices of a seeded generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def some(self, options: Sequence[T], low: int, high: int) -> list[T]:
        return self.random.sample(options, min(self.between(low, high), len(options)))


# ---------------------------------------------------------------------------------------------
# Patterns


def any_pattern(choose: Chooser, symbols: Sequence[str], leaves: int, *, exclusion: bool) -> str:
    """Return a pattern of any shape with at most so many symbols."""
    if leaves <= 1:
        text = choose.pick(symbols)
        if choose.chance(0.3):
            text += choose.pick(QUANTIFIERS)
        elif choose.chance(0.02):
            text = "()"
        return text
    first = choose.between(1, leaves - 1)

    def part(n: int) -> str:
        return any_pattern(choose, symbols, n, exclusion=exclusion)

    shape = choose.random.random()
    if shape < 0.55:
        return f"({part(first)} {part(leaves - first)})"
    if shape < 0.7:
        return f"({part(first)} | {part(leaves - first)})"
    if shape < 0.85:
        return f"({part(leaves)}){choose.pick(QUANTIFIERS)}"
    if shape < 0.92:
        return _permutation(choose, symbols, leaves)
    if exclusion:
        return f"{{- {part(first)} -}} {part(leaves - first)}"
    return f"({part(first)} {part(leaves - first)})"


def _permutation(choose: Chooser, symbols: Sequence[str], leaves: int) -> str:
    elements = [
        choose.pick(symbols) + (choose.pick(QUANTIFIERS) if choose.chance(0.2) else "")
        for _ in range(min(leaves, 4))
    ]
    return f"PERMUTE({', '.join(elements)})"


def gapped_pattern(choose: Chooser, symbols: Sequence[str], parts_max: int = 4) -> str:
    """Return a sequence with gaps, the thesis' shape: what replay intervals are made for."""
    gaps = ("", "", "Z*", "Z*?", "Z?", "Z{,3}")
    n_parts = choose.between(2, parts_max)
    parts = [f"{choose.pick(symbols)} {choose.pick(gaps)}" for _ in range(n_parts)]
    return " ".join(parts)


def with_edges(choose: Chooser, pattern: str) -> str:
    """Anchor a pattern now and then."""
    if choose.chance(0.08):
        pattern = f"^ {pattern}"
    if choose.chance(0.08):
        pattern = f"{pattern} $"
    if choose.chance(0.02):
        pattern = f"({pattern}) (^ | $ | A)"
    return pattern


def anchored(choose: Chooser, pattern: str) -> str:
    """Put ``^`` and ``$`` anywhere into a pattern of words: at its ends, inside, under anything."""
    words = pattern.split()
    words.insert(choose.between(0, len(words)), choose.pick("^$"))
    first = pattern.split(maxsplit=1)[0]
    begins = (
        f"^ {pattern}",
        f"^ {pattern}",
        f"(^ | {first}) {pattern}",
        f"(^ {pattern} | {first})",
    )
    ends = (f"{pattern} $", f"{pattern} $", f"{pattern} ($ | {first})", f"({first} | {pattern} $)")
    under = (
        f"(^ {pattern})+",
        f"({first} $)?? {pattern}",
        f"(^ {first})? {pattern}",
        f"^ {pattern} $",
    )
    return choose.pick((*begins, *begins, *ends, *ends, *under, " ".join(words), " ".join(words)))


def negated_in_gap(choose: Chooser, symbols: Sequence[str]) -> str:
    """Return a pattern of SQL semantics with ``!X`` beside a repetition."""
    one, other = choose.pick(symbols), choose.pick(symbols)
    gap = choose.pick(("Z*", "Z*", "Z*?", "Z+", "Z+?"))
    middle = choose.pick((f"{gap} !X", f"!X {gap}"))
    text = f"{one} {middle} {other}"
    return choose.pick((text, text, f"({text})+", f"({text}) | {choose.pick(symbols)}"))


def negated(choose: Chooser, symbols: Sequence[str], *, window: bool) -> str:
    """Return a pattern of a strategy that skips, with ``!X`` between symbols or at an end."""
    one, other, third = (choose.pick(symbols) for _ in range(3))
    forms = [
        f"{one} !X {other}",
        f"{one} !X {other} {third}",
        f"{one} {other}+ !X {third}",
        f"({one} !X {other})+",
        f"{one} (!X {other} | {third})",
        f"{one} (!X {other} | {other} {third})",
        f"{one} ({other} | !X {other}) {third}?",
        f"{one} !X {other}* {third}",
        f"{one} {other}* !X {third}",
        f"{one} !X {other} !Y {third}",
        f"{one} !X !Y {other}",
        f"{one} (!X {other} | !Y {third})",
        f"({one} !X {other} !Y {third})+",
    ]
    if window:
        forms += [f"{one} {other} !X", f"!X {one} {other}", f"{one}+ !X", f"!X {one} !X {other} !X"]
        forms += [f"!X {one} {other} !Y", f"{one} (!X | {other})", f"{one} !X {other}?"]
        forms += [f"(!X | {one}) {other} {third}"]
    return choose.pick(forms)


def symbols_in(pattern: str) -> list[str]:
    """Return the symbols of a pattern in order of first appearance, negated ones left out."""
    text = pattern.replace("PERMUTE", "")
    found: dict[str, None] = {}
    for at, letter in enumerate(text):
        if letter.isalpha() and text[at - 1 : at] != "!":
            found[letter] = None
    return list(found)


# ---------------------------------------------------------------------------------------------
# Conditions


@dataclass(frozen=True)
class Names:
    """What expressions of a query may name."""

    symbols: tuple[str, ...]
    """Of the pattern, in order of appearance."""
    subset: str | None
    """SUBSET U, if there is one."""
    timestamps: bool

    def lasting(self, steps: int) -> str:
        """Return a length of time as the time column's type has it."""
        return f"INTERVAL '{steps}' SECOND" if self.timestamps else str(steps)


def easy(choose: Chooser, symbol: str) -> str:
    """Return a condition on the current event that most events satisfy, or a fair share."""
    own = choose.pick(("", f"{symbol}."))
    return choose.pick(
        (
            f"{own}a {choose.pick(('>', '>=', '<>'))} {choose.between(0, 2)}",
            f"{own}a {choose.pick(('<', '<=', '<>'))} {choose.between(3, 5)}",
            f"{own}x {choose.pick(('>', '>=', '<>'))} {choose.pick(('-1.5', '0.0', '0.5'))}",
            f"{own}x {choose.pick(('<', '<='))} {choose.pick(('1', '2.5'))}",
            f"{own}s IN ('a', '{choose.pick(('b', 'z', ''))}')",
            f"{choose.between(0, 2)} <= {own}a",
            f"{own}a BETWEEN {choose.between(0, 2)} AND {choose.between(3, 5)}",
            f"{own}f",
            f"NOT {own}f",
            f"{own}s LIKE 'a%'",
            f"{own}x IS NULL",
            f"{own}a IS NOT NULL",
            f"{own}a % 2 = {choose.between(0, 1)}",
            "COALESCE(a, 9) > 2",
            "CASE WHEN a > 2 THEN f ELSE x > 0 END",
            "10 / a > 2",
            "ABS(a - 2) <= 1",
            "LENGTH(s) < 2",
            "d >= DATE '2024-02-29'",
            "b > -2",
            "b + b IS NULL OR b < 5",
            f"{own}s || 'x' < 'b'",
        )
    )


def neighbours(choose: Chooser, symbol: str) -> str:
    """Return a condition on physical neighbours."""
    return choose.pick(
        (
            "a >= PREV(a)",
            f"{symbol}.x > PREV({symbol}.x)",
            "NEXT(a) <= a",
            "PREV(s, 2) IS NULL",
            "NEXT(x) IS NULL OR NEXT(x) > 0",
            f"PREV({symbol}.a + 1) < 5",
            "NEXT(a, 2) <> a",
            "PREV(a, 0) = a",
            "t - PREV(t) IS NOT NULL",
        )
    )


def across(choose: Chooser, symbol: str, names: Names) -> str:
    """Return a condition on rows mapped before."""
    other = choose.pick((*names.symbols, *([names.subset] * 2 if names.subset else [])))
    s, o = symbol, other
    return choose.pick(
        (
            f"{s}.a {choose.pick(COMPARISONS)} {o}.a",
            f"{s}.x >= {o}.x",
            f"{s}.s <> {o}.s",
            f"{s}.a + {o}.a > 3",
            f"({o}.x IS NULL OR {s}.x <> {o}.x)",
            f"({o}.a IS NULL OR {s}.a > {o}.a)",
            f"{s}.a >= FIRST({s}.a)",
            f"{s}.a >= FIRST({o}.a)",
            "a <> FIRST(a)",
            "a >= FIRST(a) OR x > 0",
            f"{s}.t - {o}.t <= {names.lasting(2)}",
            f"LAST({o}.a, 1) IS NULL",
            f"COALESCE(LAST({o}.a, 1), 0) <= a",
            f"FIRST({o}.a, 1) = a OR FIRST({o}.a, 1) IS NULL",
            "LAST(a, 1) < a",
            "FIRST(x, 1) IS NULL OR FIRST(x, 1) <> x",
            f"PREV(FIRST({o}.a), 1) IS NULL",
            f"COALESCE(PREV(LAST({o}.a, 1), 1), 1) < 4",
            f"NEXT({o}.a) >= a",
            f"ABS({s}.a - {o}.a) <= 2",
            f"COALESCE({o}.a, 1) <= a",
            f"LAST({o}.a + {o}.x) < 6",
            f"a BETWEEN {o}.a - 1 AND {o}.a + 3",
            f"a IN (FIRST({o}.a), LAST({o}.a), 2)",
            f"CASE WHEN {o}.f THEN a > 1 WHEN LAST({o}.f, 1) THEN TRUE ELSE x > 0 END",
            f"NULLIF({s}.a, {o}.a) IS NOT NULL",
            f"GREATEST({o}.a, {s}.a) < 5",
            f"{s}.d - {o}.d <= 1",
            f"{s}.a * 2 - {o}.a % 3 > 0",
            f"{o}.f OR {s}.f",
            f"{s}.b - {o}.b IS NULL OR {s}.b <> {o}.b",
            f"NEXT(FIRST({o}.a), 1) <> 3",
            f"PREV(LAST({o}.s, 1)) <> 'z'",
            "PREV(LAST(a, 1), 1) <= 4 OR LAST(a, 2) IS NULL",
            f"ROUND({s}.x - {o}.x) <= 1",
            f"{s}.s {choose.pick(COMPARISONS)} {o}.s",
            f"{s}.s >= FIRST({o}.s) OR {o}.s < 'b'",
            f"s BETWEEN LAST({o}.s, 1) AND 'z' OR LAST({o}.s, 1) IS NULL",
            f"GREATEST({s}.s, {o}.s) < 'z'",
            f"COALESCE({o}.s, 'ab') <= {s}.s || 'x'",
        )
    )


def aggregating(choose: Chooser, symbol: str, names: Names) -> str:
    """Return a condition with an aggregate over the rows mapped so far."""
    other = choose.pick((*names.symbols, *([names.subset] if names.subset else [])))
    return choose.pick(
        (
            f"COUNT({symbol}.*) <= {choose.between(1, 3)}",
            f"COUNT(*) < {choose.between(3, 5)}",
            f"COUNT({other}.a) <> 2",
            f"SUM({symbol}.a) <= 7",
            f"SUM({other}.a) >= a OR COUNT({other}.*) = 0",
            f"AVG({other}.x) IS NULL OR AVG({other}.x) < 2",
            "AVG(a) >= 1",
            f"MIN({other}.x) <= x",
            f"MAX({symbol}.a) - MIN({symbol}.a) <= 3",
            f"SUM({symbol}.a * 2 - 1) < 12",
            "COALESCE(STDDEV_POP(x), 0.0) < 1.37",
            f"SUM({symbol}.b) IS NOT NULL",
            f"SUM({other}.b) + 1 > 0 OR COUNT({other}.*) < 2",
            f"COUNT({symbol}.*) + COUNT({other}.x) * 2 < {choose.between(4, 9)}",
            f"AVG({symbol}.x) >= COALESCE(FIRST({other}.x), 0.0)",
            f"MAX({other}.a) - a <= 2 OR MIN({other}.a) IS NULL",
            f"COUNT(*) % 2 = {choose.between(0, 1)} OR a > 1",
            f"COUNT({symbol}.*) FILTER (WHERE {symbol}.a > 1) < 2",
            f"SUM(CASE WHEN {symbol}.f THEN 1 ELSE 0 END) < 3",
            f"MAX(ABS({other}.a - 2)) < 3",
            "SUM(a) <= 3 * COUNT(*)",
            f"MIN({symbol}.t) = {symbol}.t OR COUNT({symbol}.*) <= 3",
            f"COUNT(DISTINCT {choose.pick((symbol, other))}.{choose.pick('axsdf')}) <= 2",
            f"COUNT(DISTINCT {choose.pick('axs')}) {choose.pick(('< 3', '= COUNT(*)', '<> 2'))}",
            f"SUM(DISTINCT {other}.a) < 8 OR COUNT({other}.*) < 2",
            f"COALESCE(AVG(DISTINCT {other}.x), 1.0) >= 0.7",
            f"MIN({other}.s) <= {symbol}.s OR MIN({other}.s) IS NULL",
            f"MAX(s) {choose.pick(('<', '<>', '>='))} 'b'",
            f"MAX({symbol}.s) {choose.pick(('<', '<>', '>='))} FIRST({other}.s)",
            f"COUNT(CASE WHEN CLASSIFIER() = '{other}' THEN a END) <= 1",
            f"MIN(CLASSIFIER()) {choose.pick(('=', '<', '<>'))} '{symbol}'",
            f"MAX(CLASSIFIER({other})) = '{names.symbols[0]}' OR COUNT({other}.*) < 2",
            "COUNT(DISTINCT CLASSIFIER()) <= 2",
            "SUM(CASE CLASSIFIER() WHEN 'A' THEN a ELSE 1 END) < 9",
        )
    )


def special(choose: Chooser, names: Names) -> str:
    """Return a condition with CLASSIFIER."""
    first = names.symbols[0]
    if names.subset and choose.chance(0.6):
        return f"CLASSIFIER({names.subset}) {choose.pick(('=', '<>'))} '{first}'"
    if choose.chance(0.6):
        return choose.pick(
            (
                f"FIRST(CLASSIFIER()) = '{first}'",
                f"LAST(CLASSIFIER(), 1) <> '{names.symbols[-1]}'",
                f"CLASSIFIER({first}) IS NOT NULL",
                "CLASSIFIER() = FIRST(CLASSIFIER())",
                f"PREV(CLASSIFIER()) {choose.pick(('=', '<>'))} '{first}'",
                f"PREV(CLASSIFIER(), 2) IS NULL OR PREV(CLASSIFIER()) = '{names.symbols[-1]}'",
                f"NEXT(FIRST(CLASSIFIER({first})), 1) = '{names.symbols[-1]}' OR a > 2",
                f"COALESCE(PREV(LAST(CLASSIFIER(), 1), 1), 'Q') <> '{first}'",
                f"PREV(CLASSIFIER({first})) < CLASSIFIER() OR NEXT(CLASSIFIER()) IS NOT NULL",
            )
        )
    return f"CLASSIFIER() <> '{names.symbols[-1]}'"


def condition(choose: Chooser, symbol: str, names: Names, depth: int = 2) -> str:
    """Return a condition of a symbol."""
    if depth and choose.chance(0.25):
        left = condition(choose, symbol, names, depth - 1)
        if choose.chance(0.15):
            return f"NOT ({left})"
        right = condition(choose, symbol, names, depth - 1)
        return f"({left}) {choose.pick(('AND', 'AND', 'OR'))} ({right})"
    kind = choose.random.random()
    if kind < 0.5:
        return easy(choose, symbol)
    if kind < 0.6:
        return neighbours(choose, symbol)
    if kind < 0.82:
        return across(choose, symbol, names)
    if kind < 0.98:
        return aggregating(choose, symbol, names)
    return special(choose, names)


def negated_condition(choose: Chooser, symbol: str, names: Names, *, leads: bool) -> str:
    """Return a condition of a symbol that is only negated; a third of the events satisfy it.

    Where the symbol ``leads`` the pattern, it can read no other.
    """
    forms = [
        f"a = {choose.between(0, 5)}",
        f"{symbol}.a > {choose.between(2, 4)}",
        f"{symbol}.s IN ('z', 'b')",
        "x <= 0.5",
        f"{symbol}.a < PREV({symbol}.a)",
        f"{symbol}.x IS NULL",
        "NOT f",
    ]
    if not leads:
        first = names.symbols[0]
        forms += [f"{symbol}.a > {first}.a", f"a = {first}.a", f"a = FIRST({first}.a)"]
        forms += ["a = FIRST(a)"]
    return choose.pick(forms)


# ---------------------------------------------------------------------------------------------
# Measures


def measures(choose: Chooser, names: Names, *, all_rows: bool) -> list[str]:
    """Return a few measures, without their names."""
    forms = [_measure(choose, names, all_rows=all_rows) for _ in range(choose.between(1, 5))]
    return forms if choose.chance(0.5) else [*forms, "MATCH_NUMBER()"]


def _measure(choose: Chooser, names: Names, *, all_rows: bool) -> str:
    named = (*names.symbols, *([names.subset] * 2 if names.subset else []))
    column = choose.pick(("a", "a", "x", "s", "t", "f", "d", "b"))
    symbol = choose.pick(named)
    scoped = choose.pick((column, f"{symbol}.{column}", f"{symbol}.{column}"))
    kind = choose.random.random()
    if kind < 0.15:
        return scoped
    if kind < 0.5:
        return _navigated(choose, scoped, symbol, all_rows=all_rows)
    if kind < 0.8:
        return _aggregated(choose, symbol, all_rows=all_rows)
    return choose.pick(
        (
            "CLASSIFIER()",
            "CLASSIFIER()",
            f"CLASSIFIER({symbol})",
            "FIRST(CLASSIFIER(), 1)",
            "PREV(CLASSIFIER())",
            f"LAST(CLASSIFIER({symbol}), 1)",
            "MATCH_NUMBER()",
            "LAST(t) - FIRST(t)",
            f"COALESCE({symbol}.a, -1)",
            f"{symbol}.a + COUNT({symbol}.*)",
            "UPPER(CLASSIFIER())",
            "1",
            f"CASE WHEN COUNT({symbol}.*) > 1 THEN LAST({symbol}.a) ELSE -1 END",
            f"LAST({symbol}.x) - FIRST(x)",
            f"LAST({symbol}.d) - FIRST(d)",
            f"SUM({symbol}.a) / COUNT(*)",
            f"{symbol}.s || CLASSIFIER()",
            f"MATCH_NUMBER() * 10 + COUNT({symbol}.*)",
            "NEXT(CLASSIFIER())",
            f"NEXT({semantics_of(choose, all_rows=all_rows)}LAST(CLASSIFIER({symbol}), 1), 2)",
            "PREV(FIRST(CLASSIFIER(), 1), 1)",
            f"NEXT(LAST({symbol}.a + {symbol}.x), 1)",
            f"{symbol}.a > LAST(a, 1)",
        )
    )


def semantics_of(choose: Chooser, *, all_rows: bool) -> str:
    """Return RUNNING or FINAL, or neither; both say the same with ONE ROW PER MATCH."""
    if not all_rows and choose.chance(0.8):
        return ""
    return choose.pick(("", "RUNNING ", "FINAL "))


def _navigated(choose: Chooser, scoped: str, symbol: str, *, all_rows: bool) -> str:
    mode = semantics_of(choose, all_rows=all_rows)
    logical = choose.pick(("FIRST", "LAST"))
    offset = choose.pick(("", "", ", 1", ", 2", ", 0"))
    return choose.pick(
        (
            f"{mode}{logical}({scoped}{offset})",
            f"{mode}{logical}({scoped}{offset})",
            f"{mode}{logical}({symbol}.a * 2{offset})",
            f"{choose.pick(('PREV', 'NEXT'))}({scoped})",
            f"{choose.pick(('PREV', 'NEXT'))}({mode}{logical}({scoped}{offset}))",
            f"{choose.pick(('PREV', 'NEXT'))}({mode}{logical}({scoped}{offset}), 2)",
        )
    )


def _aggregated(choose: Chooser, symbol: str, *, all_rows: bool) -> str:
    mode = semantics_of(choose, all_rows=all_rows)
    scope = choose.pick(("", f"{symbol}.", f"{symbol}."))
    return mode + choose.pick(
        (
            f"COUNT({scope}*)",
            f"COUNT({scope}*)",
            f"COUNT({scope}x)",
            f"COUNT(DISTINCT {scope}s)",
            f"SUM({scope}a)",
            f"SUM({scope}x)",
            f"AVG({scope}a)",
            f"AVG({scope}x)",
            f"MIN({scope}x)",
            f"MAX({scope}a)",
            f"MIN({scope}s)",
            f"MAX({scope}t)",
            f"SUM({scope}a * 2 - 1)",
            f"MAX(ABS({scope}a - 2))",
            f"STDDEV_SAMP({scope}a)",
            f"VAR_POP({scope}a)",
            f"SUM({scope}b)",
            f"AVG({scope}a * 0.5)",
            f"MAX({scope}d)",
            f"SUM(DISTINCT {scope}a)",
            f"COUNT(DISTINCT {scope}x)",
            f"MIN(CASE WHEN {scope}f THEN {scope}a ELSE 9 END)",
            f"STDDEV_POP({scope}x)",
            f"SUM({scope}a * MATCH_NUMBER())",
            f"COUNT({scope}*) FILTER (WHERE {scope}f)",
            f"SUM({scope}x) FILTER (WHERE {scope}a > 1 OR {scope}s IS NULL)",
            f"MIN({scope}s) FILTER (WHERE CLASSIFIER({symbol if scope else ''}) <> 'B')"
            if scope != ""
            else "MIN(s) FILTER (WHERE CLASSIFIER() <> 'B')",
            f"STRING_AGG({scope}s, '-')",
            f"LISTAGG(DISTINCT {scope}s, '') FILTER (WHERE {scope}a < 4)",
        )
    )
