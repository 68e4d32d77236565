"""The functions of the expression language, as a table.

A NULL argument gives NULL, but in ``coalesce``, ``ifnull``, ``nullif``, ``if`` and ``concat_ws``,
which leaves NULL texts out. A fault (a domain error, an overflow, a text that writes no number)
gives NULL too, and is counted. Where engines differ:

=================== =============================================================================
function            here
=================== =============================================================================
``greatest least``  NULL as soon as an argument is NULL or NaN (Oracle, Trino; PostgreSQL skips
                    NULLs)
``round``           half away from zero (all), of DOUBLE too (PostgreSQL: half to even)
``ln log power``    outside their domain NULL, as are ``sqrt asin acos`` and ``sin cos tan`` of an
                    infinity (Trino: NaN or infinite; PostgreSQL: an error)
``log(b, x)``       base first (Trino, PostgreSQL); of one argument there is none (10 or e?)
``concat``, ``||``  NULL where one is NULL (Trino, the standard; PostgreSQL's ``concat`` skips
                    NULLs)
``substring``       places before the first count, with nothing there (PostgreSQL, the standard;
                    Trino, Oracle: a negative start counts from the end)
``left right``      of a negative count, all but so many (PostgreSQL)
``trim``            takes blanks away unless told what (PostgreSQL; Trino: all white space); several
                    characters are a set (PostgreSQL, Trino)
``replace``         an empty text is nowhere (PostgreSQL; Trino: between all characters)
``lpad rpad``       cut a text that is too long; an empty fill is allowed (PostgreSQL)
``split_part``      nothing ('') beyond the last part, -1 is the last (PostgreSQL; Trino: NULL)
``regexp_like``     finds a part of the text; the syntax is that of RE2; the pattern is a constant
``lower upper``     letter by letter, so the length stays: 'ß' becomes 'ẞ' (elsewhere also 'SS')
``day_of_week``     1 (Monday) to 7 (Sunday), also in EXTRACT(DOW …) (Trino; PostgreSQL: 0 to 6 from
                    Sunday)
``second``          whole seconds of the minute (Trino; PostgreSQL: with a fraction)
``week``            by ISO 8601, of the year ``year_of_week`` (all)
``date_trunc``      of a DATE gives a DATE (Trino)
``date_diff``       whole units from the first to the second, towards zero (Trino; elsewhere the
                    boundaries between them are counted)
``date_add``        the month's last day where the day is not in the month reached (all)
``AT TIME ZONE``    a TIMESTAMP becomes an instant, an instant a TIMESTAMP (PostgreSQL); of clocks
                    put back or forward see ``zones``; outside the years 1 to 2037 NULL, a fault
``distance``        metres on a sphere with a radius of 6371008.8 m, by the haversine formula, from
                    degrees: latitude, longitude, latitude, longitude; a latitude beyond 90 is a
                    fault
=================== =============================================================================

The binder writes some with other operators; ``bound.Call`` lists what is left for evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from replay.language.bound import DataType


class Argument(Enum):
    """What a function takes at one place."""

    NUMBER = "INTEGER or DOUBLE, as it is; several of them take one type"
    MAGNITUDE = "INTEGER, DOUBLE or INTERVAL, as it is"
    DOUBLE = "a number, made a DOUBLE"
    INTEGER = "a whole number"
    STRING = "a text"
    PATTERN = "a constant text: a regular expression"
    UNIT = "a constant text: a unit of time, a part of a time or a time zone"
    DIGITS = "a constant whole number"
    MOMENT = "TIMESTAMP, with or without time zone, or DATE"
    TIME = "a MOMENT or an INTERVAL"
    CONDITION = "a BOOLEAN"
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


A = Argument
T = DataType

_OF_DOUBLES = "sqrt cbrt ln log10 log2 exp sin cos tan asin acos atan degrees radians"
_PARTS = "year quarter month week year_of_week day day_of_week day_of_year hour minute second"

_ALL = (
    _function("abs", A.MAGNITUDE),
    *(_function(name, A.NUMBER) for name in ("floor", "ceil", "trunc", "sign")),
    _function("round", A.NUMBER, A.DIGITS, least=1),
    _function("mod", A.NUMBER, A.NUMBER),
    *(_function(name, A.DOUBLE, result=T.DOUBLE) for name in _OF_DOUBLES.split()),
    *(_function(name, A.DOUBLE, A.DOUBLE, result=T.DOUBLE) for name in ("power", "log", "atan2")),
    _function("pi", result=T.DOUBLE),
    _function("distance", *[A.DOUBLE] * 4, result=T.DOUBLE),
    *(_function(name, A.STRING, result=T.STRING) for name in ("lower", "upper", "reverse")),
    _function("length", A.STRING, result=T.INTEGER),
    _function("concat", A.STRING, result=T.STRING, variadic=True),
    _function("concat_ws", A.STRING, A.STRING, result=T.STRING, variadic=True),
    _function("substring", A.STRING, A.INTEGER, A.INTEGER, result=T.STRING, least=2),
    *(_function(name, A.STRING, A.INTEGER, result=T.STRING) for name in ("left", "right")),
    *(_function(n, A.STRING, A.STRING, result=T.STRING, least=1) for n in ("trim", "ltrim")),
    _function("rtrim", A.STRING, A.STRING, result=T.STRING, least=1),
    _function("replace", A.STRING, A.STRING, A.STRING, result=T.STRING),
    _function("strpos", A.STRING, A.STRING, result=T.INTEGER),
    *(_function(f"{at}s_with", A.STRING, A.STRING, result=T.BOOLEAN) for at in ("start", "end")),
    _function("lpad", A.STRING, A.INTEGER, A.STRING, result=T.STRING, least=2),
    _function("rpad", A.STRING, A.INTEGER, A.STRING, result=T.STRING, least=2),
    _function("repeat", A.STRING, A.INTEGER, result=T.STRING),
    _function("split_part", A.STRING, A.STRING, A.INTEGER, result=T.STRING),
    _function("regexp_like", A.STRING, A.PATTERN, result=T.BOOLEAN),
    *(_function(name, A.TIME, result=T.INTEGER) for name in _PARTS.split()),
    _function("epoch", A.TIME, result=T.DOUBLE),
    _function("date_part", A.UNIT, A.TIME),
    _function("date_trunc", A.UNIT, A.MOMENT),
    _function("date_diff", A.UNIT, A.MOMENT, A.MOMENT, result=T.INTEGER),
    _function("date_add", A.UNIT, A.INTEGER, A.MOMENT),
    _function("from_unixtime", A.NUMBER, result=T.TIMESTAMP_UTC),
    _function("timezone", A.UNIT, A.MOMENT),
    _function("coalesce", A.ANY, variadic=True),
    _function("ifnull", A.ANY, A.ANY),
    _function("nullif", A.ANY, A.ANY),
    _function("greatest", A.ANY, variadic=True),
    _function("least", A.ANY, variadic=True),
    _function("if", A.CONDITION, A.ANY, A.ANY, least=2),
)

FUNCTIONS: dict[str, Function] = {function.name: function for function in _ALL}

_ALIASES = {
    "ceil": ("ceiling",),
    "trunc": ("truncate",),
    "power": ("pow",),
    "length": ("char_length", "character_length"),
    "substring": ("substr",),
    "trim": ("btrim",),
    "strpos": ("instr",),
    "day": ("day_of_month", "dayofmonth"),
    "day_of_week": ("dow", "isodow"),
    "day_of_year": ("doy", "dayofyear"),
    "week": ("week_of_year", "weekofyear"),
    "year_of_week": ("yow", "isoyear"),
    "epoch": ("to_unixtime",),
    "ifnull": ("nvl",),
    "if": ("iff", "iif"),
}
for _name, _others in _ALIASES.items():
    FUNCTIONS |= dict.fromkeys(_others, FUNCTIONS[_name])

PARTS = {name: f.name for name, f in FUNCTIONS.items() if f.name in (*_PARTS.split(), "epoch")}
"""What EXTRACT and ``date_part`` take out of a time, by each name it has."""

_AGGREGATE_WORDS = """
    ANY_VALUE APPROX_COUNT_DISTINCT APPROX_PERCENTILE APPROX_QUANTILE ARG_MAX ARG_MIN ARRAY_AGG
    AVG BOOL_AND BOOL_OR COUNT COUNT_IF EVERY FIRST_VALUE LAST_VALUE LIST LISTAGG MAX MAX_BY
    MEDIAN MIN MIN_BY MODE PERCENTILE_CONT PERCENTILE_DISC STDDEV STDDEV_POP STDDEV_SAMP
    STRING_AGG SUM VARIANCE VAR_POP VAR_SAMP
"""
AGGREGATES = frozenset(_AGGREGATE_WORDS.split())
"""Aggregates people know from SQL, those that are not in the language yet among them."""
ORDERED = frozenset({"ARRAY_AGG", "LIST", "LISTAGG", "STRING_AGG"})
"""Aggregates that keep their values one by one, in an order that may be given."""

_NOT_YET_WORDS = """
    ASCII BIT_LENGTH CHR COSH COT DATEADD DATEDIFF DATE_FORMAT DATE_PARSE DATE_SUB DAYOFWEEK FORMAT
    HAVERSINE INITCAP ISFINITE ISINF ISNAN IS_FINITE IS_INFINITE IS_NAN LAST_DAY LAST_DAY_OF_MONTH
    LAG LEAD MAKE_DATE MAKE_TIMESTAMP MATCH_ROWTIME MD5 MICROSECOND MILLISECOND NVL2 DECODE
    AVERAGE MEAN OCTET_LENGTH OVERLAY
    REGEXP_COUNT REGEXP_EXTRACT REGEXP_MATCHES REGEXP_REPLACE REGEXP_SUBSTR SHA256 SINH SPLIT
    STRFTIME STRPTIME TANH TIMESTAMPADD TIMESTAMPDIFF TO_CHAR TO_DATE TO_NUMBER TO_TIMESTAMP
    TRANSLATE UNIX_TIMESTAMP WIDTH_BUCKET
"""
NOT_YET = frozenset(_NOT_YET_WORDS.split())
"""Functions people know from SQL that are not in the language yet."""

INSTEAD = {
    "HAVERSINE": "write distance(latitude, longitude, latitude, longitude), in metres",
    "DATEADD": "write date_add('day', n, ts)",
    "DATE_SUB": "write date_add('day', -n, ts)",
    "DATEDIFF": "write date_diff('day', a, b), which counts whole units",
    "TIMESTAMPADD": "write date_add('day', n, ts)",
    "TIMESTAMPDIFF": "write date_diff('day', a, b), which counts whole units",
    "DAYOFWEEK": "write day_of_week(ts), 1 (Monday) to 7 (Sunday)",
    "UNIX_TIMESTAMP": "write epoch(ts)",
    "TO_TIMESTAMP": "write CAST(… AS TIMESTAMP), or from_unixtime(seconds)",
    "TO_DATE": "write CAST(… AS DATE)",
    "TO_NUMBER": "write CAST(… AS DOUBLE)",
    "TO_CHAR": "write CAST(… AS STRING)",
    "MILLISECOND": "write date_diff('millisecond', date_trunc('second', ts), ts)",
    "MICROSECOND": "write date_diff('microsecond', date_trunc('second', ts), ts)",
    "REGEXP_MATCHES": "write regexp_like(text, pattern)",
    "LAG": "write PREV(x), which reads the event before in the partition",
    "LEAD": "write NEXT(x), which reads the event after in the partition",
    "MATCH_ROWTIME": "write LAST(ts), with the name of the time column",
    "DECODE": "write CASE",
    "NVL2": "write CASE",
    "MEAN": "write AVG(x)",
    "AVERAGE": "write AVG(x)",
}
"""What to write in place of some of them."""

_CLOCK_WORDS = """
    CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP GETDATE LOCALTIME LOCALTIMESTAMP NOW SYSDATE
    SYSTIMESTAMP TODAY
"""
CLOCKS = frozenset(_CLOCK_WORDS.split())
"""What reads the clock, on which no answer may depend."""

RANDOM = frozenset({"GEN_RANDOM_UUID", "NEWID", "RAND", "RANDOM", "UUID"})
"""What is another value each time."""


def why_refused(word: str) -> str | None:
    """Return why a function or word is refused for good, None if it is not.

    The word is in upper case.
    """
    if word not in CLOCKS | RANDOM:
        return None
    what = "the clock" if word in CLOCKS else "chance"
    return (
        f"{word} is not supported: an answer must not depend on {what}; pass the value as a "
        "parameter, such as :now"
    )
