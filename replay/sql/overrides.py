"""Functions that DuckDB has under a name which mean something else here, or nothing at all.

Macros of a connection go before the functions of DuckDB's catalog, whoever calls them: a name and
parentheses, a method of a value, an operator, or a word without parentheses that DuckDB takes for a
call where no column has that name.
"""

from __future__ import annotations

from typing import Final

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

_UNITS: Final = (
    *("microsecond", "millisecond", "second", "minute", "hour"),
    *("day", "week", "month", "quarter", "year"),
)
_DURATION: Final = " ".join(
    f"WHEN '{unit}' THEN to_{unit}s(amount) WHEN '{unit}s' THEN to_{unit}s(amount)"
    for unit in _UNITS
)
_LATER: Final = (
    f"moment + CASE lower(unit) {_DURATION} ELSE error('date_add: no unit of time ' || unit) END"
)

_DATE_TRUNC: Final = """date_trunc
    (part, moment DATE) AS CAST(system.main.date_trunc(part, moment) AS DATE),
    (part, moment) AS system.main.date_trunc(part, moment)
"""
"""Of a DATE, DuckDB gives a TIMESTAMP."""

_DATE_ADD: Final = f"""date_add
    (moment, duration) AS moment + duration,
    (unit, amount, moment DATE) AS CAST({_LATER} AS DATE),
    (unit, amount, moment) AS {_LATER}
"""

OVERRIDES: Final = "; ".join(
    [f'CREATE MACRO "{name}"({WITHOUT_COLUMN}) AS NULL' for name in NO_VALUES]
    + [f"CREATE MACRO {macro}" for macro in (_DATE_TRUNC, _DATE_ADD)]
)
"""What a new connection runs."""
