"""Expressions of the language's one list of functions, its operators, and vicious values.

Two evaluators are compared at each step of an expression: where what goes into it is the same in
both, and what comes out is not, the difference stands in the table of docs/sql.md, or is a fault.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import pyarrow as pa

import replay
from chronicle.errors import ChronicleError
from replay.language.functions import FUNCTIONS, Argument, Function

A = Argument

_FAR = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)]
_TIMES = [
    *[dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), *_FAR, None],
    *[dt.datetime(2024, 2, 29, 12, 34, 56, 789_012), dt.datetime(2023, 12, 31, 23, 0)],
    *[dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 10, 27, 2, 30)],
    *[dt.datetime(1900, 1, 1), dt.datetime(2037, 12, 31, 23), dt.datetime(2040, 7, 1)],
]
_WHOLE = [0, 1, -1, 2, 7, -7, 10, 53, 1_000_003, 2**53 + 1, 2**63 - 1, -(2**63), None]
_DOUBLES = [
    *[0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e-320, 1e15, 123456.789, 2.0**53, 1e308, -1e308],
    *[9.3e18, float("nan"), float("inf"), float("-inf"), None],
]
_TEXTS = [
    *["", " ", "a", "abc", "ABC", "aXbXc", "  pad ", "a,b,,c", "%_", "a\\b", "\t a \n", "x\x00y"],
    *[
        "ß",
        "İ",
        "\u017f",
        "é",
        "e\u0301",
        "日本語",
        "👍🏽",
        "ﬀ",
        "Σς",
        "1",
        "-7",
        "1.5",
        "1e3",
        " 12 ",
    ],
    *["true", "2024-02-29", "2024-02-29 12:34:56.789", "nan", None],
]

COLUMNS: Mapping[str, tuple[str, Sequence[object], pa.DataType]] = {
    "i": ("I", _WHOLE, pa.int64()),
    "j": ("I", _WHOLE, pa.int64()),
    "n": ("I", [-3, -2, -1, 0, 1, 2, 3, 6, None], pa.int64()),
    "x": ("X", _DOUBLES, pa.float64()),
    "y": ("X", _DOUBLES, pa.float64()),
    "k": ("S", _TEXTS, pa.string()),
    "m": ("S", _TEXTS, pa.string()),
    "w": ("W", _TIMES, pa.timestamp("us")),
    "u": ("W", _TIMES, pa.timestamp("us")),
    "z": ("Z", _TIMES, pa.timestamp("us", "UTC")),
    "d": ("D", [None if t is None else t.date() for t in _TIMES], pa.date32()),
    "e": ("D", [None if t is None else t.date() for t in _TIMES], pa.date32()),
    "b": ("B", [True, False, None], pa.bool_()),
    "c": ("B", [True, False, None], pa.bool_()),
}
"""By name, the kind of a column, its values and its type."""

_RESULTS = {"INTEGER": "I", "DOUBLE": "X", "STRING": "S", "BOOLEAN": "B", "TIMESTAMP": "W"}
_FREE = {A.NUMBER: "IX", A.MAGNITUDE: "IX", A.MOMENT: "WDZ", A.TIME: "WDZ", A.ANY: "IXSWDB"}
_FIXED = {A.DOUBLE: "X", A.INTEGER: "I", A.STRING: "S", A.CONDITION: "B"}
_UNITS = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"]
_WORDS = {A.PATTERN: ["'^a.*c$'"], A.DIGITS: ["2", "-1", "0"], A.UNIT: [f"'{u}'" for u in _UNITS]}

_REFUSED_WORDS = """
    btrim day_of_month day_of_week day_of_year distance dow doy from_unixtime iff iif nvl
    regexp_like to_unixtime truncate week_of_year year_of_week yow
"""
_MAKE_LONG_TEXTS = frozenset(("lpad", "repeat", "rpad"))
"""Their number is a small one here (N): they would fill the memory."""
REFUSED_WITH_A_REMEDY = frozenset(_REFUSED_WORDS.split())
"""Functions that DuckDB's part refuses, naming its own."""


@dataclass(frozen=True)
class Step:
    """A function or an operator of values of some kinds."""

    name: str
    form: str
    takes: str
    gives: str


@dataclass(frozen=True)
class Node:
    """A step of values, or a column."""

    text: str
    kind: str
    step: Step | None = None
    of: tuple[Node, ...] = ()

    @cached_property
    def tried(self) -> str:
        """Return it for DuckDB, where a fault of a row is NULL in TRY alone."""
        if self.step is None:
            return self.text
        return f"TRY({self.step.form.format(*(inner.tried for inner in self.of))})"

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes, those within first."""
        for inner in self.of:
            yield from inner.nodes()
        yield self


def _steps_of(name: str, function: Function) -> Iterator[Step]:
    """Yield the calls of a function, of each number of arguments and each kind of values."""
    free = next((_FREE[a] for a in function.arguments if a in _FREE), "-")
    numbers = {len(function.arguments), function.least, len(function.arguments) + function.variadic}
    for n, kind in ((n, kind) for n in sorted(numbers) for kind in free):
        taken = [function.arguments[min(i, len(function.arguments) - 1)] for i in range(n)]
        gives = kind if function.result is None else _RESULTS.get(function.result.value, "Z")
        if name == "timezone":
            gives = "W" if kind == "Z" else "Z"
        elif name == "date_part":
            gives = "I"
        forms: list[tuple[str, ...]] = [()]
        for a in taken:
            words = ["'Europe/Berlin'", "'UTC'"] if name == "timezone" else _WORDS.get(a, ["{}"])
            forms = [(*form, word) for form in forms for word in (words if a in _WORDS else ["{}"])]
        takes = "".join(_FIXED.get(a, kind) for a in taken if a not in _WORDS)
        if name in _MAKE_LONG_TEXTS:
            takes = takes.replace("I", "N")
        for form in forms:
            words = (name, *(word.strip("'") for word in form))
            if kind != "D" or not set(_UNITS[:3]).intersection(words):
                yield Step(name, f"{name}({', '.join(form)})", takes, gives)


_KINDS_CAST = {"I": "XSBI", "X": "IS", "S": "IXBWD", "W": "DS", "Z": "S", "D": "WS", "B": "SI"}
_CAST_TO = {
    "I": "BIGINT",
    "X": "DOUBLE",
    "S": "VARCHAR",
    "B": "BOOLEAN",
    "W": "TIMESTAMP",
    "D": "DATE",
}
_COMPARE = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


def _operators() -> Iterator[Step]:
    for sign in "+-*/%":
        for takes in ("II", "XX", "IX", "XI"):
            # Nothing takes a quotient of whole numbers: it is a DOUBLE of DuckDB.
            gives = "X" if takes != "II" else "Q" if sign == "/" else "I"
            yield Step(sign, f"({{}} {sign} {{}})", takes, gives)
    for sign in _COMPARE:
        for takes in ("II", "XX", "IX", "SS", "WW", "DD", "WD", "ZZ", "BB"):
            yield Step(sign, f"({{}} {sign} {{}})", takes, "B")
    for kind in "IXSWDB":
        yield Step("IS NULL", "({} IS NULL)", kind, "B")
        yield Step("CASE", "CASE WHEN {} THEN {} ELSE {} END", f"B{kind}{kind}", kind)
        if kind != "B":
            yield Step("BETWEEN", "({} BETWEEN {} AND {})", kind * 3, "B")
            yield Step("IN", "({} NOT IN ({}, {}))", kind * 3, "B")
    yield from (Step(word, f"({{}} {word} {{}})", "BB", "B") for word in ("AND", "OR"))
    yield from (Step("IS", f"({{}} IS NOT {v})", "B", "B") for v in ("TRUE", "FALSE", "UNKNOWN"))
    yield from (Step("NOT", "(NOT {})", "B", "B"), Step("||", "({} || {})", "SS", "S"))
    yield from (Step("-1", "(-{})", kind, kind) for kind in "IX")
    for pattern in ("'a%'", "'%\\%%' ESCAPE '\\'", "'_'"):
        yield from (Step(w, f"({{}} {w} {pattern})", "S", "B") for w in ("LIKE", "NOT LIKE"))
    yield Step("lpad", "lpad({}, 3, '')", "S", "S")
    yield Step("ILIKE", "({} ILIKE 'A_C')", "S", "B")
    for kind, duration in (("W", "1 HOUR"), ("Z", "36.5 HOURS"), ("D", "2 DAYS")):
        yield from (
            Step(s, f"({{}} {s} {duration})", kind, kind if kind != "D" else "W") for s in "+-"
        )
    yield Step("-", "({} - {})", "WW", "V")
    for part in (*_UNITS, "dow", "doy", "isodow", "isoyear", "epoch"):
        for kind in "WZ" if part in _UNITS[:3] else "WZD":
            yield Step(
                "EXTRACT", f"EXTRACT({part} FROM {{}})", kind, "X" if part == "epoch" else "I"
            )
    for zone in ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"):
        yield Step("timezone", f"({{}} AT TIME ZONE '{zone}')", "W", "Z")
        yield Step("timezone", f"({{}} AT TIME ZONE '{zone}')", "Z", "W")
    for word in ("CAST", "TRY_CAST"):
        for kind, others in _KINDS_CAST.items():
            yield from (Step("CAST", f"{word}({{}} AS {_CAST_TO[o]})", kind, o) for o in others)
        yield Step("CAST", f"{word}({{}} AS VARCHAR(3))", "S", "S")
        yield Step("CAST", f"{word}({{}} AS VARCHAR(3))", "D", "S")


STEPS = (
    *(
        s
        for name, f in FUNCTIONS.items()
        if name not in REFUSED_WITH_A_REMEDY
        for s in _steps_of(name, f)
    ),
    *_operators(),
)
_GIVING = {kind: [s for s in STEPS if s.gives == kind] for kind in "IXSWZDB"}
_OF_KIND = {kind: [n for n, (k, *_) in COLUMNS.items() if k == kind] for kind in "IXSWZDB"}
_OF_KIND["N"] = ["n"]


def node_of(step: Step, of: Sequence[Node]) -> Node:
    """Return a step of values."""
    return Node(step.form.format(*(node.text for node in of)), step.gives, step, tuple(of))


def single(step: Step, dice: random.Random) -> Node:
    """Return a step of columns."""
    return node_of(step, [Node(dice.choice(_OF_KIND[kind]), kind) for kind in step.takes])


def nested(kind: str, depth: int, dice: random.Random) -> Node:
    """Return an expression at most so deep."""
    if depth == 0 or kind == "N" or dice.random() < 0.2:
        return Node(dice.choice(_OF_KIND[kind]), kind)
    step = dice.choice(_GIVING[kind])
    return node_of(step, [nested(k, depth - 1, dice) for k in step.takes])


def table(n_rows: int, dice: random.Random) -> pa.Table:
    """Return rows with all values of each column, in another order in each."""
    columns = {"t": pa.array(range(n_rows))}
    for name, (_, values, kind) in COLUMNS.items():
        rounds = range(n_rows // len(values) + 1)
        rows = [value for _ in rounds for value in dice.sample(values, len(values))]
        columns[name] = pa.array(rows[:n_rows], kind)
    return pa.table(columns)


# --- differences ----------------------------------------------------------------------------------

Test = Callable[[str, Sequence[Any], Any, Any], bool]

_COMPARISONS = frozenset(
    (*_COMPARE, "BETWEEN", "IN", "CASE", "greatest", "least", "nullif", "sign")
)
_TEXT_PARTS = frozenset(("left", "right", "substr", "substring"))
_LAST_PLACE = 2**31
_END_OF_ZONES = int(dt.datetime(2038, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**6
_DAY = 86_400_000_000
_TIME_TYPES = {"W": "TIMESTAMP", "Z": "TIMESTAMP WITH TIME ZONE", "D": "DATE"}
_YEAR_1 = int(dt.datetime(1, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**6
_YEAR_10000 = (int(dt.datetime(9999, 12, 31, tzinfo=dt.UTC).timestamp()) + 86_400) * 10**6
_ENDLESS = -1
"""Stands for DuckDB's infinite times: none of the cases has this one."""
_YEAR_2 = int(dt.datetime(2, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**6


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _at_odds_in_a_zone(_: str, of: Sequence[Any], ours: Any, ducks: Any) -> bool:
    """Tell whether a time is beyond 2037, next to year 1, or of clocks that were changed."""
    if not _YEAR_2 < of[0] < _END_OF_ZONES:
        return True
    return None not in (ours, ducks) and abs(ours - ducks) <= 3_600_000_000


FAR_YEARS = "a time outside of the years"

LISTED: Mapping[str, tuple[frozenset[str], Test]] = {
    "NaN": (_COMPARISONS, lambda _, of, *__: any(map(_is_nan, of))),
    "`7 / 2`": (frozenset("/"), lambda _, of, *__: all(isinstance(v, int) for v in of)),
    "`CONCAT`": (frozenset(("concat", "greatest", "least")), lambda _, of, *__: None in of),
    "`substr(": (
        _TEXT_PARTS,
        lambda _, of, *__: any(isinstance(v, int) and not 0 < v < _LAST_PLACE for v in of),
    ),
    "`split_part(": (frozenset(("split_part",)), lambda _, of, *__: of[1] == "" or of[2] == 0),
    "`reverse`": (frozenset(("reverse",)), lambda _, of, *__: len(of[0]) > 1),
    "`EXTRACT(DOW": (frozenset(("EXTRACT",)), lambda form, *_: "(dow " in form),
    "a text as a number": (frozenset(("CAST",)), lambda _, of, *__: isinstance(of[0], str)),
    "halves": (
        frozenset(("CAST",)),
        lambda form, of, *_: "BIGINT" in form and isinstance(of[0], float) and of[0] % 1 == 0.5,
    ),
    "a DOUBLE as a text": (
        frozenset(("CAST",)),
        lambda form, of, *_: "VARCHAR" in form and isinstance(of[0], float),
    ),
    "`sign(": (frozenset(("sign",)), lambda _, of, *__: _is_nan(of[0]) or of[0] == 0.0),
    "`power(": (frozenset(("power", "pow")), lambda _, __, ours, d: ours is None and _is_nan(d)),
    "`-2^63 % -1`": (frozenset("%") | {"mod"}, lambda _, of, *__: list(of) == [-(2**63), -1]),
    "`lpad(": (
        frozenset(("lpad", "rpad")),
        lambda form, of, *_: "''" in form or "" in of,
    ),
    FAR_YEARS: (frozenset(), lambda *_: False),  # of any step, see `_row_of`
    "`date_diff`": (frozenset(("date_diff",)), lambda *_: True),
    "`AT TIME ZONE`": (frozenset(("timezone",)), _at_odds_in_a_zone),
}
"""By how a row of the table of docs/sql.md begins: of which steps it is, and of which values."""


def _are_one(ours: Any, ducks: Any) -> bool:
    """Tell whether two values are the same to the bit."""
    if isinstance(ours, float) and isinstance(ducks, float):
        return struct.pack("d", ours) == struct.pack("d", ducks) or (
            math.isnan(ours) and math.isnan(ducks)
        )
    return type(ours) is type(ducks) and bool(ours == ducks)


def _are_near(ours: Any, ducks: Any) -> bool:
    """Tell whether two values are DOUBLEs of which libraries give other last digits."""
    if not isinstance(ours, float) or not isinstance(ducks, float):
        return False
    is_near = math.isclose(ours, ducks, rel_tol=1e-13, abs_tol=0.0)
    return is_near and math.copysign(1, ours) == math.copysign(1, ducks)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return values that Python has all of: times as numbers."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date(kind):
        return [None if day is None else day * _DAY for day in column.cast(pa.int32()).to_pylist()]
    return column.to_pylist()


def _in_numbers(node: Node) -> str:
    """Return a node for DuckDB, times as numbers, since not all are times of an answer."""
    if node.kind not in _TIME_TYPES:
        return node.tried
    return f"CASE WHEN isinf({node.tried}) THEN {_ENDLESS} ELSE TRY(epoch_us({node.tried})) END"


def _row_of(step: Step, of: Sequence[Any], ours: Any, ducks: Any) -> str | None:
    """Return the row of the table that a difference belongs to; None if there is none."""
    times = [v for kind, v in zip(step.takes, of, strict=True) if kind in _TIME_TYPES]
    if any(time is not None and not _YEAR_1 <= time < _YEAR_10000 for time in times):
        return FAR_YEARS
    rows = (row for row, (steps, _) in LISTED.items() if step.name in steps)
    return next((row for row in rows if LISTED[row][1](step.form, of, ours, ducks)), None)


def differences(
    source: pa.Table, expressions: Sequence[Node], seen: dict[str, int], refused: dict[str, str]
) -> Iterator[str]:
    """Yield each step that parts evaluators over equal values, and is not listed.

    ``seen`` counts the rows of the table that were met; ``refused`` takes expressions that one of
    them refuses, with why.
    """
    nodes = list(dict.fromkeys(node for one in expressions for node in one.nodes()))
    names = dict(zip(nodes, (f"v{n}" for n in count()), strict=False))
    listed = ", ".join(f"{node.text} AS {name}" for node, name in names.items())
    tried = ", ".join(f"{_in_numbers(node)} AS {name}" for node, name in names.items())
    times = [node for node in nodes if node.kind in _TIME_TYPES]
    types = ", ".join(f"typeof({node.tried})" for node in times)
    try:
        ours = replay.query({"s": source}, f"SELECT {listed} FROM s").table
        ducks = replay.query({"s": source}, f"SELECT {tried}, [{types}] AS types FROM s").table
    except ChronicleError as error:
        if len(expressions) == 1:
            refused[expressions[0].text] = str(error)
            return
        half = len(expressions) // 2
        yield from differences(source, expressions[:half], seen, refused)
        yield from differences(source, expressions[half:], seen, refused)
        return
    for node, kind in zip(times, ducks["types"][0].as_py(), strict=True):
        if kind != _TIME_TYPES[node.kind]:
            yield f"{node.text} is of DuckDB a {kind}"
    columns = {node: (_values(ours[name]), _values(ducks[name])) for node, name in names.items()}
    are_one = {
        node: [_are_one(*pair) for pair in zip(*both, strict=True)]
        for node, both in columns.items()
    }
    for node, row in ((node, row) for node in nodes for row in range(source.num_rows)):
        ours_here, ducks_here = (side[row] for side in columns[node])
        if node.step is None or are_one[node][row] or _are_near(ours_here, ducks_here):
            continue
        if all(are_one[one][row] for one in node.of):
            of = [columns[one][0][row] for one in node.of]
            why = _row_of(node.step, of, ours_here, ducks_here)
            if why is None:
                yield f"{node.step.form} of {of!r}: {ours_here!r}, and of DuckDB {ducks_here!r}"
            else:
                seen[why] = seen.get(why, 0) + 1
