"""Functions that DuckDB has under a name which mean something else here, or nothing at all.

Macros of a connection go before the functions of DuckDB's catalog, whoever calls them: a name and
parentheses, a method of a value, an operator, or a word without parentheses that DuckDB takes for a
call where no column has that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replay.expressions.literals import UNIT_US

_NO_VALUE_WORDS: Final = """
    current_catalog current_connection_id current_database current_date current_localtime
    current_localtimestamp current_query current_query_id current_role current_schema
    current_transaction_id current_user gen_random_uuid get_current_time get_current_timestamp
    inet_client_addr inet_client_port inet_server_addr inet_server_port now pg_conf_load_time
    pg_my_temp_schema pg_postmaster_start_time random session_user today transaction_timestamp
    txid_current user uuid uuidv4 uuidv7 version
"""
NO_VALUES: Final = tuple(_NO_VALUE_WORDS.split())
"""All functions without arguments that no statement may call, see `constructs.CALLABLE`.

DuckDB reads some by words such as ``user`` and ``"current_timestamp"`` that name no column.
"""

WITHOUT_COLUMN: Final = "chronicle_no_column"
"""The parameter of the macros that hide `NO_VALUES`: a call that lacks it cannot be bound."""

_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}


def _times(amount: str, units: Mapping[str, int]) -> str:
    """Return so many of a unit; none of those that are not listed."""
    each = " ".join(f"WHEN '{u}' THEN {n} WHEN '{u}s' THEN {n}" for u, n in units.items())
    return f"({amount} * CASE lower(unit) {each} ELSE 0 END)"


_UNITS: Final = ", ".join(f"'{unit.lower()}'" for unit in (*UNIT_US, *_MONTHS))
_LATER: Final = (
    f"moment + to_months(CAST({_times('amount', _MONTHS)} AS INTEGER)) + to_microseconds("
    f"{_times('amount', {unit.lower(): us for unit, us in UNIT_US.items()})} + "
    f"CASE WHEN rtrim(lower(unit), 's') IN ({_UNITS}) THEN 0 "
    "ELSE CAST('date_add has no unit ' || unit AS BIGINT) END)"
)

_WHOLE: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


def _of_whole_numbers(name: str, whole: str, other: str = "") -> str:
    """Return a macro which is something else of whole numbers."""
    kinds = ", ".join(f"(number {kind}) AS {whole}" for kind in _WHOLE)
    return f"{name} {kinds}, (number) AS {other or f'system.main.{name}(number)'}"


def _filled(name: str) -> str:
    """Return the macro of ``lpad`` or ``rpad``, which take a BIGINT and need not have a fill."""
    call = f"system.main.{name}(text, CAST(length AS INTEGER)"
    return f"{name} (text, length) AS {call}, ' '), (text, length, fill) AS {call}, fill)"


_MACROS: Final = (
    # Of a DATE, DuckDB gives a TIMESTAMP.
    """date_trunc (part, moment DATE) AS CAST(system.main.date_trunc(part, moment) AS DATE),
    (part, moment) AS system.main.date_trunc(part, moment)""",
    f"""date_add (moment, duration) AS moment + duration,
    (unit, amount, moment DATE) AS CAST({_LATER} AS DATE), (unit, amount, moment) AS {_LATER}""",
    # A DATE becomes nanoseconds, which end with the year 2262.
    """timezone (zone, moment DATE) AS system.main.timezone(zone, CAST(moment AS TIMESTAMP)),
    (zone, moment) AS system.main.timezone(zone, moment)""",
    # Of whole numbers, DuckDB gives a DOUBLE, which is another beyond 2^53.
    *(_of_whole_numbers(name, "number") for name in ("floor", "ceil", "ceiling")),
    # Of whatever number, DuckDB gives a TINYINT.
    _of_whole_numbers(
        "sign",
        "CAST(system.main.sign(number) AS BIGINT)",
        "CAST(system.main.sign(number) AS DOUBLE)",
    ),
    *(_filled(name) for name in ("lpad", "rpad")),
    """"if" (condition, yes) AS CASE WHEN condition THEN yes END,
    (condition, yes, no) AS CASE WHEN condition THEN yes ELSE no END""",
)

OVERRIDES: Final = "; ".join(
    [f'CREATE MACRO "{name}"({WITHOUT_COLUMN}) AS NULL' for name in NO_VALUES]
    + [f"CREATE MACRO {macro}" for macro in _MACROS]
)
"""What a new connection runs."""
