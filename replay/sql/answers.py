"""Columns of DuckDB's answers in the types that ours have."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from replay.errors import QueryError

_WIDE = frozenset({"HUGEINT", "UHUGEINT"})
_INTERVAL = "INTERVAL"
_FOREIGN = frozenset({"BIT", "BIGNUM", "TIME WITH TIME ZONE"})
"""Types that Arrow holds as something else, or without a part of it."""
_IN_PARTS = (
    "CASE WHEN #{0} IS NULL THEN NULL ELSE struct_pack("
    "has_months := datepart('year', #{0}) <> 0 OR datepart('month', #{0}) <> 0, "
    "micros := TRY(epoch_us(#{0}))) END"
)
_DECIMAL_DIGITS = 38


@dataclass(frozen=True, slots=True)
class AnswerTypes:
    """Names and DuckDB's types of the columns of an answer."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    def check(self) -> None:
        """Refuse two columns of one name, in whatever case, and types that Arrow has not."""
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

        for name, duck in zip(self.names, self.types, strict=True):
            if duck in _FOREIGN:
                raise QueryError(
                    f"column '{name}' of the answer is a {duck}, which answers cannot hold; CAST "
                    "it to VARCHAR"
                )

    @property
    def projection(self) -> str | None:
        """The columns with intervals in parts, days being of 24 hours, as ours are; None: as is.

        DuckDB hands an interval out with nanoseconds of 64 bits, those of 292 years, and days
        beside them: longer ones become others.
        """
        if _INTERVAL not in self.types:
            return None
        return ", ".join(
            _IN_PARTS.format(place) if duck == _INTERVAL else f"#{place}"
            for place, duck in enumerate(self.types, 1)
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
    if kind != pa.timestamp("ns") and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        _check_years(column, name)
    if duck == _INTERVAL:
        return _durations(column, name)
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        return _microseconds(column, name)
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return column.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if isinstance(column, pa.ExtensionArray):
        return column.storage
    return column


def _microseconds(column: pa.Array, name: str) -> pa.Array:
    """Return times of another unit in microseconds, if they hold them."""
    try:
        return column.cast(pa.timestamp("us", column.type.tz))
    except pa.ArrowInvalid as error:
        raise QueryError(
            f"column '{name}' of the answer has a time between two microseconds; "
            "CAST it to TIMESTAMP or VARCHAR"
        ) from error


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
    """Return the parts of intervals, see `AnswerTypes.project`, as durations."""
    if pc.any(column.field("has_months").filter(column.is_valid())).as_py():
        raise QueryError(
            f"column '{name}' of the answer has an INTERVAL of months, which vary in length; "
            "subtract times from each other, or CAST it to VARCHAR"
        )
    micros = column.field("micros")
    if micros.filter(column.is_valid()).null_count:
        raise QueryError(
            f"column '{name}' of the answer has an INTERVAL of more than 64 bits of microseconds; "
            "CAST it to VARCHAR"
        )
    return pc.if_else(column.is_valid(), micros, None).cast(pa.duration("us"))


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
    """Return a table with decimals as DuckDB takes them: of 128 bits, none ending before the point.

    What has more digits than it takes was refused before.
    """
    fields = [field.with_type(_decimal_of(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _decimal_of(kind: pa.DataType) -> pa.DataType:
    if not pa.types.is_decimal(kind) or (kind.bit_width <= 128 and kind.scale >= 0):
        return kind
    more = max(0, -kind.scale)
    return pa.decimal128(min(kind.precision + more, _DECIMAL_DIGITS), max(0, kind.scale))
