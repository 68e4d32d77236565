"""Columns of DuckDB's answers in the types that ours have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.errors import QueryError

_WIDE = frozenset({"HUGEINT", "UHUGEINT"})
_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
_DAY_US = 86_400_000_000
_DECIMAL_DIGITS = 38


@dataclass(frozen=True, slots=True)
class AnswerTypes:
    """Names and DuckDB's types of the columns of an answer."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    def check(self) -> None:
        """Refuse two columns of one name, in whatever case."""
        seen: dict[str, str] = {}
        for name in self.names:
            other = seen.get(name.casefold())
            seen[name.casefold()] = name
            if other is not None:
                differ = "" if other == name else f" and '{name}', which differ in case only"
                raise QueryError(
                    f"two columns of the answer are named '{other}'{differ}; name one of them with "
                    "AS, or leave it out: * EXCLUDE (…)"
                )

    def convert(self, batch: pa.RecordBatch) -> pa.Table:
        """Return rows in the types of our answers."""
        columns = [
            _converted(batch.column(i), name, duck)
            for i, (name, duck) in enumerate(zip(self.names, self.types, strict=True))
        ]
        return pa.Table.from_arrays(columns, names=list(self.names))

    def empty(self, schema: pa.Schema) -> pa.Table:
        """Return no rows."""
        nothing = [pa.array([], field.type) for field in schema]
        return self.convert(pa.RecordBatch.from_arrays(nothing, schema=schema))


def _converted(column: pa.Array, name: str, duck: str) -> pa.Array:
    if duck in _WIDE:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise QueryError(
                f"column '{name}' of the answer has a whole number beyond 64 bits; write "
                "CAST(… AS DECIMAL(38, 0)) or CAST(… AS DOUBLE)"
            ) from error
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        _check_years(column, name)
    if pa.types.is_interval(kind):
        return _durations(column, name)
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return column.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if isinstance(column, pa.ExtensionArray):
        return column.storage
    return column


def _check_years(column: pa.Array, name: str) -> None:
    """Refuse times that Python has not, such as infinity."""
    try:
        pc.min_max(column).as_py()
    except (OverflowError, ValueError) as error:
        raise QueryError(
            f"column '{name}' of the answer has a time outside of the years 1 to 9999; "
            "CAST it to VARCHAR"
        ) from error


def _durations(column: pa.Array, name: str) -> pa.Array:
    """Return intervals as durations; days are of 24 hours, as Chronicle's are."""
    data = column.buffers()[1]
    if len(column) == 0 or data is None:
        return pa.nulls(len(column), pa.duration("us"))
    parts = np.frombuffer(data, _INTERVAL, count=column.offset + len(column))[column.offset :]
    is_null = np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False), np.bool_)
    if (parts["months"][~is_null] != 0).any():
        raise QueryError(
            f"column '{name}' of the answer has an INTERVAL of months, which vary in length; "
            "subtract times from each other, or CAST it to VARCHAR"
        )
    micros = parts["days"].astype(np.int64) * _DAY_US + parts["nanoseconds"] // 1000
    return pa.array(micros, mask=is_null).cast(pa.duration("us"))


def check_columns(schema: pa.Schema, what: str) -> None:
    """Refuse columns that DuckDB cannot take as they are."""
    seen: dict[str, str] = {}
    for field in schema:
        other = seen.setdefault(field.name.casefold(), field.name)
        if other != field.name:
            raise QueryError(
                f"columns '{other}' and '{field.name}' of {what} differ in case only; in a "
                "statement that DuckDB runs, that cannot be: rename one in a subquery of its own"
            )
        if pa.types.is_decimal(field.type) and field.type.precision > _DECIMAL_DIGITS:
            raise QueryError(
                f"column '{field.name}' of {what} is a DECIMAL of {field.type.precision} digits, "
                "and DuckDB takes 38; CAST it to DOUBLE in Chronicle's part"
            )


def in_38_digits(table: pa.Table, what: str) -> pa.Table:
    """Return an answer of ours with large counts and sums as decimals that DuckDB takes."""
    for index, field in enumerate(table.schema):
        if not pa.types.is_decimal256(field.type):
            continue
        try:
            column = table.column(index).cast(pa.decimal128(_DECIMAL_DIGITS, field.type.scale))
        except pa.ArrowInvalid:
            raise QueryError(
                f"column '{field.name}' of {what} has a number of more than {_DECIMAL_DIGITS} "
                "digits, which DuckDB cannot take; write CAST(… AS VARCHAR) in Chronicle's part"
            ) from None
        table = table.set_column(index, field.name, column)
    return table


def taken(table: pa.Table) -> pa.Table:
    """Return a table with a DECIMAL that could have more digits as one that DuckDB takes."""
    fields = (
        field.with_type(pa.decimal128(field.type.precision, field.type.scale))
        if pa.types.is_decimal256(field.type)
        else field
        for field in table.schema
    )
    return table.cast(pa.schema(fields))
