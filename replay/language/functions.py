"""The functions of the expression language, as a table.

``greatest`` and ``least`` are NULL as soon as one argument is NULL or NaN (as in Oracle and
Trino); the binder writes them, and ``mod``, with other operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from replay.language.bound import DataType


class Argument(Enum):
    """What a function takes at one place."""

    NUMBER = "INTEGER or DOUBLE, as it is; several of them take one type"
    DOUBLE = "a number, made a DOUBLE"
    STRING = "a text"
    DIGITS = "a constant whole number"
    ANY = "any value; several of them take one type"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language."""

    name: str
    arguments: tuple[Argument, ...]
    result: DataType | None
    """None: the (common) type of the arguments."""
    least: int
    """Fewest arguments."""
    variadic: bool = False
    """The last argument may be repeated."""


def _function(
    name: str,
    *arguments: Argument,
    result: DataType | None = None,
    least: int | None = None,
    variadic: bool = False,
) -> Function:
    least = len(arguments) if least is None else least
    return Function(name, arguments, result, least, variadic)


_ALL = (
    _function("abs", Argument.NUMBER),
    _function("floor", Argument.NUMBER),
    _function("ceil", Argument.NUMBER),
    _function("round", Argument.NUMBER, Argument.DIGITS, least=1),
    _function("sqrt", Argument.DOUBLE, result=DataType.DOUBLE),
    _function("ln", Argument.DOUBLE, result=DataType.DOUBLE),
    _function("exp", Argument.DOUBLE, result=DataType.DOUBLE),
    _function("power", Argument.DOUBLE, Argument.DOUBLE, result=DataType.DOUBLE),
    _function("mod", Argument.NUMBER, Argument.NUMBER),
    _function("lower", Argument.STRING, result=DataType.STRING),
    _function("upper", Argument.STRING, result=DataType.STRING),
    _function("length", Argument.STRING, result=DataType.INTEGER),
    _function("coalesce", Argument.ANY, variadic=True),
    _function("nullif", Argument.ANY, Argument.ANY),
    _function("greatest", Argument.ANY, variadic=True),
    _function("least", Argument.ANY, variadic=True),
)

FUNCTIONS: dict[str, Function] = {function.name: function for function in _ALL}
FUNCTIONS["ceiling"] = FUNCTIONS["ceil"]
FUNCTIONS["pow"] = FUNCTIONS["power"]
FUNCTIONS["char_length"] = FUNCTIONS["character_length"] = FUNCTIONS["length"]

_AGGREGATE_WORDS = """
    ANY_VALUE APPROX_COUNT_DISTINCT ARRAY_AGG AVG BOOL_AND BOOL_OR COUNT COUNT_IF EVERY LISTAGG
    MAX MAX_BY MEDIAN MIN MIN_BY MODE STDDEV STDDEV_POP STDDEV_SAMP STRING_AGG SUM VARIANCE VAR_POP
    VAR_SAMP
"""
AGGREGATES = frozenset(_AGGREGATE_WORDS.split())
"""Aggregates people know from SQL; none is in the language yet."""

_NOT_YET_WORDS = """
    ACOS ASCII ASIN ATAN ATAN2 BTRIM CBRT CHR CONCAT CONCAT_WS COS COT CURRENT_DATE CURRENT_TIME
    CURRENT_TIMESTAMP DATEADD DATEDIFF DATE_ADD DATE_DIFF DATE_FORMAT DATE_PART DATE_SUB
    DATE_TRUNC DAY DAYOFWEEK DAYOFYEAR DEGREES ENDS_WITH EPOCH EXTRACT FORMAT FROM_UNIXTIME
    HAVERSINE HOUR IF IFNULL IIF INITCAP INSTR ISNAN LEFT LOCALTIMESTAMP LOG LOG10 LOG2 LPAD
    LTRIM MD5 MINUTE MONTH NOW NVL OVERLAY PI POSITION QUARTER RADIANS RANDOM REGEXP_LIKE
    REGEXP_MATCHES REGEXP_REPLACE REPEAT REPLACE REVERSE RIGHT RPAD RTRIM SECOND SIGN SIN
    SPLIT_PART STARTS_WITH STRFTIME STRPOS SUBSTR SUBSTRING TAN TO_CHAR TO_DATE TO_TIMESTAMP
    TRIM TRUNC TRUNCATE TRY_CAST UNIX_TIMESTAMP WEEK YEAR
"""
NOT_YET = frozenset(_NOT_YET_WORDS.split())
"""Functions people know from SQL that are not in the language yet."""
