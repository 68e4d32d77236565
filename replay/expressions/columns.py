"""Columns of an Arrow table as arrays with validity, also seen from rows further on or back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.config import TIME_UNIT
from replay.errors import NotSupportedError
from replay.expressions.nodes import Attribute, DataType
from replay.expressions.types import DECIMAL_DIGITS, SCALES
from replay.limits import check_asked

Bools = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

ARROW_TYPES = {
    DataType.BOOLEAN: pa.bool_(),
    DataType.INTEGER: pa.int64(),
    DataType.DOUBLE: pa.float64(),
    DataType.STRING: pa.string(),
    DataType.TIMESTAMP: pa.timestamp(TIME_UNIT),
    DataType.TIMESTAMP_UTC: pa.timestamp(TIME_UNIT, "UTC"),
    DataType.DATE: pa.date32(),
    DataType.INTERVAL: pa.duration(TIME_UNIT),
    DataType.NULL: pa.null(),
    **{kind: pa.decimal128(DECIMAL_DIGITS, scale) for kind, scale in SCALES.items()},
    DataType.DECIMAL_76: pa.decimal256(76, 0),
}


_LONG_BYTES: Final = 1 << 28
"""Bytes of texts up to which they are taken without counting."""


class Values(NamedTuple):
    """Values of an expression by row, or one value that holds for all rows.

    ``data`` is an array of int64, float64 or bool (NULL rows hold anything); for strings it is a
    ``pyarrow.StringArray`` or scalar with its own nulls. ``valid`` is None where no row is NULL.
    """

    data: Any
    valid: Any

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Values:
        """Return the values of some rows, of those that are by row."""
        data, valid = self
        if isinstance(data, np.ndarray):
            return Values(data[rows], None if valid is None else valid[rows])
        _check_taken(data, rows)
        return Values(data.take(pa.array(rows)), None)


def _check_taken(texts: pa.Array, rows: npt.NDArray[np.integer[Any]]) -> None:
    """Refuse to take long texts for so many rows that they are too much for one array."""
    if len(rows) * texts.nbytes <= _LONG_BYTES:  # though each row had all of them
        return
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy()
    if len(rows) * int(lengths.max()) > _LONG_BYTES:
        n_bytes = int(lengths[rows].sum(dtype=np.int64))
        check_asked(n_bytes, f"texts in {len(rows):,} rows")


def literal(value: Any, data_type: DataType) -> Values:
    """Return a constant as one value for all rows."""
    if data_type is DataType.STRING:
        return Values(pa.scalar(value, pa.string()), None)
    dtype: Any = {DataType.DOUBLE: np.float64, DataType.BOOLEAN: np.bool_}.get(data_type, np.int64)
    if value is None:
        return Values(dtype(0), np.False_)
    return Values(dtype(value), None)


def and_valid(*masks: Any) -> Any:
    """Return where all are valid; None means everywhere."""
    result = None
    for mask in masks:
        if mask is not None and mask is not np.True_:  # with it `&` of an array is slow
            result = mask if result is None else result & mask
    return result


class Columns:
    """The columns of a table, each converted once.

    The table is in ``seq`` order; its first ``before`` and last ``after`` rows are margins: PREV
    and NEXT may look at them, no value is theirs. ``segments`` has the number of the partition of
    each row, where rows of a partition stand together; offsets then stay inside it. ``places`` has
    by offset the place in the table of what stands there, -1 for none, where that is told row by
    row: values are asked of the rows at offset 0. Margins, segments and places exclude each other.
    """

    def __init__(
        self,
        table: pa.Table,
        *,
        before: int = 0,
        after: int = 0,
        segments: IntArray | None = None,
        places: Mapping[int, IntArray] | None = None,
    ) -> None:
        self._table = table
        self._before = before
        self._segments = segments
        self._places = places
        self.n_rows = int(table.num_rows) - before - after if places is None else len(places[0])
        self._loaded: dict[str, Values] = {}
        self._encoded: dict[str, tuple[npt.NDArray[np.int32], Any]] = {}

    def at(self, attribute: Attribute) -> Values:
        """Return the attribute's value for every row; its anchor is taken to be the row itself."""
        if attribute.type is DataType.STRING:
            codes, dictionary = self.encoded(attribute)
            return Values(_decode(codes, dictionary), None)
        loaded = self._load(attribute.name)
        return self._shift(loaded, attribute.offset)

    def encoded(self, attribute: Attribute) -> tuple[npt.NDArray[np.int32], Any]:
        """Return a string attribute as codes and the dictionary; NULL has the code past its end."""
        if attribute.name not in self._encoded:
            self._encoded[attribute.name] = _encode(self._table.column(attribute.name))
        codes, dictionary = self._encoded[attribute.name]
        shifted = self._shift(Values(codes, None), attribute.offset)
        if shifted.valid is None:
            return shifted.data, dictionary
        null = np.int32(len(dictionary))
        return np.where(shifted.valid, shifted.data, null), dictionary

    def _load(self, name: str) -> Values:
        if name not in self._loaded:
            self._loaded[name] = to_arrays(self._table.column(name))
        return self._loaded[name]

    def _shift(self, values: Values, offset: int) -> Values:
        """Return what stands ``offset`` rows on; NULL where no such row is at hand."""
        data, valid = values
        total = len(data)
        if self._places is not None:
            rows = self._places[offset]
            return _taken(values, rows, rows >= 0)
        low = self._before + offset
        if self._segments is None and low >= 0 and low + self.n_rows <= total:
            window = slice(low, low + self.n_rows)
            return Values(data[window], None if valid is None else valid[window])
        if offset == 0:
            return values
        rows = np.arange(self.n_rows, dtype=np.int64) + low
        there = (rows >= 0) & (rows < total)
        if self._segments is not None and total:
            there &= self._segments[np.where(there, rows, 0)] == self._segments
        return _taken(values, rows, there)


def _taken(values: Values, rows: IntArray, there: Bools) -> Values:
    """Return the values of some rows, NULL for those that are not there."""
    data, valid = values
    if not len(data):
        return Values(np.zeros(len(rows), data.dtype), there)
    rows = np.where(there, rows, 0)
    return Values(data[rows], there if valid is None else there & valid[rows])


CHUNKS_MAX = 32
"""Chunks of a table before they are copied into one: each makes all that is done with it slower."""


def in_few_chunks(table: pa.Table) -> pa.Table:
    """Return a table that has had rows appended again and again, copied now and then."""
    if table.num_columns and table.column(0).num_chunks > CHUNKS_MAX:
        return table.combine_chunks()
    return table


def to_arrays(column: pa.ChunkedArray) -> Values:
    """Return a column that holds no strings as int64, float64 or bool, and its validity.

    Timestamps come as microseconds since the epoch, dates as days, durations as microseconds.
    No copy where the column is one chunk of the right type without nulls.
    """
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    valid = _validity(array)
    return _widened(to_plain(array), valid)


def _validity(array: Any) -> Bools | None:
    """Return where an array holds a value; None if everywhere."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False)) if array.null_count else None


def _widened(array: Any, valid: Bools | None) -> Values:
    """Return booleans as they are, numbers as int64 or float64, 0 where they are not valid."""
    boolean = pa.types.is_boolean(array.type)
    if valid is not None:
        array = array.fill_null(False if boolean else 0)
    if not boolean:
        # Arrow keeps memory for the next column; NumPy has it mapped anew, page by page.
        array = array.cast(pa.float64() if pa.types.is_floating(array.type) else pa.int64())
    return Values(array.to_numpy(zero_copy_only=False), valid)


def to_plain(array: Any) -> Any:
    """Return the array as booleans, integers or floats of any width."""
    of = array.type
    if pa.types.is_boolean(of) or pa.types.is_integer(of) or pa.types.is_floating(of):
        return array.cast(pa.int64()) if of == pa.uint64() else array
    if pa.types.is_timestamp(of):
        return array.cast(pa.timestamp(TIME_UNIT, of.tz)).view(pa.int64())
    if pa.types.is_duration(of):
        return array.cast(pa.duration(TIME_UNIT)).view(pa.int64())
    if pa.types.is_date(of):
        return array.cast(pa.date32()).view(pa.int32())
    if pa.types.is_decimal128(of) and of.scale >= 0:
        return _units(array)
    if pa.types.is_decimal(of):
        return array.cast(pa.float64())
    raise NotSupportedError(
        f"a column of type {of} cannot be read by an expression yet; leave it out of the query"
    )


def _units(array: pa.Array) -> pa.Array:
    """Return decimals as whole numbers of their last digit."""
    words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
    low, high = words[array.offset : array.offset + len(array)].T
    there = array.is_valid().to_numpy(zero_copy_only=False)
    if (there & (high != low >> 63)).any():
        raise NotSupportedError(
            f"computing with a {array.type} of more than {DECIMAL_DIGITS} digits is not supported "
            "yet; select it as it is, or add up CAST(… AS DOUBLE)"
        )
    return pa.array(low, pa.int64(), mask=~there)


def decimals_of_units(low: Any, high: Any, valid: Any, data_type: pa.DataType) -> pa.Array:
    """Return 128-bit numbers of units as decimals: their lower and upper 64 bits."""
    words = np.ascontiguousarray(np.stack((low, high), axis=1), np.int64)
    mask = None if valid is None else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(data_type, len(words), [mask, pa.py_buffer(words)])


def from_arrow(result: Any) -> Values:
    """Return an Arrow array or scalar of booleans or integers as ``Values``."""
    if isinstance(result, pa.Scalar):
        known = result.is_valid
        value = result.as_py() if known else 0
        boolean = pa.types.is_boolean(result.type)
        data = np.bool_(value) if boolean else np.int64(value)
        return Values(data, None if known else np.False_)
    return _widened(result, _validity(result))


def _encode(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], Any]:
    """Return int32 codes over all chunks and one dictionary; NULL gets the code past its end."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if column.num_chunks > 1:
        column = column.unify_dictionaries()
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    dictionary, indices = array.dictionary, array.indices
    if indices.null_count:
        indices = indices.fill_null(len(dictionary))
    codes = indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    if dictionary.type != pa.string():
        dictionary = dictionary.cast(pa.string())
    if dictionary.null_count:  # a null may also stand in the dictionary itself
        kept = np.flatnonzero(dictionary.is_valid().to_numpy(zero_copy_only=False))
        table = np.full(len(dictionary) + 1, len(kept), np.int32)
        table[kept] = np.arange(len(kept), dtype=np.int32)
        codes, dictionary = table[codes], dictionary.take(pa.array(kept))
    return codes, dictionary


def _decode(codes: npt.NDArray[np.int32], dictionary: Any) -> Any:
    """Return plain strings of the codes, nulls included."""
    is_null = codes == len(dictionary)
    _check_taken(dictionary, codes[~is_null])
    return dictionary.take(pa.array(codes, mask=is_null))


class DictionaryColumns:
    """The entries of a dictionary, and NULL as a last row, as if they were events."""

    def __init__(self, dictionary: Any) -> None:
        entries = pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])
        self._values = Values(entries, None)
        self.n_rows = len(entries)

    def at(self, attribute: Attribute) -> Values:  # noqa: ARG002 - there is one attribute only
        """Return the entries."""
        return self._values


def to_arrow(values: Values, data_type: DataType) -> pa.Array:
    """Return evaluated values as an Arrow array of the type's Arrow type."""
    data, valid = values
    target = ARROW_TYPES[data_type]
    if data_type is DataType.NULL:
        return pa.nulls(len(data))
    if data_type is DataType.STRING:
        return data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    if data_type in SCALES:
        return decimals_of_units(data, data >> 63, valid, target)
    mask: Any = None if valid is None else ~valid
    if data_type is DataType.DATE:
        data = data.astype(np.int32)
    elif data_type not in (DataType.BOOLEAN, DataType.INTEGER, DataType.DOUBLE):
        return pa.array(data, pa.int64(), mask=mask).cast(target)
    return pa.array(data, target, mask=mask)
