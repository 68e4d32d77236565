"""Conditions on the row under test, grouped so that each column is read once for all symbols."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replay.expressions.columns import Columns, DictionaryColumns
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.expressions.types import SCALES
from replay.language.bound import Attribute, Call, DataType, Expression, Literal, attributes
from replay.limits import check_limits
from replay.patterns import mask_kernels as kernels

Words = npt.NDArray[np.uint64]

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_WHOLE = (
    DataType.INTEGER,
    DataType.TIMESTAMP,
    DataType.TIMESTAMP_UTC,
    DataType.DATE,
    DataType.INTERVAL,
    *SCALES,
)
_INT64 = -(2**63), 2**63 - 1

T = TypeVar("T", int, float)


@dataclass(frozen=True, slots=True)
class RangeGroup:
    """Closed ranges of one numeric attribute; row k of the arrays clears ``bits[k]`` outside."""

    attribute: Attribute
    lows: npt.NDArray[Any]
    highs: npt.NDArray[Any]
    bits: Words
    every: np.uint64
    """All bits of the group: a NULL clears them."""


@dataclass(frozen=True, slots=True)
class CodeGroup:
    """Conditions that read one string attribute only: decided once per dictionary entry."""

    attribute: Attribute
    texts: tuple[tuple[pa.Scalar, np.uint64], ...]
    """Strings the attribute must equal."""
    conditions: tuple[tuple[Expression, np.uint64], ...]
    """All others."""


@dataclass(frozen=True, slots=True)
class MaskPlan:
    """How a table's rows get their word of symbol bits."""

    every: np.uint64
    """Bits of all symbols."""
    ranges: tuple[RangeGroup, ...]
    codes: tuple[CodeGroup, ...]
    others: tuple[tuple[Expression, np.uint64], ...]

    def words(self, columns: Columns, faults: Faults) -> Words:
        """Return a word per row: bit s is set where the row satisfies all conditions of s."""
        words = np.full(columns.n_rows, self.every)
        for group in self.ranges:
            data, valid = columns.at(group.attribute)
            kernels.keep_in_ranges(data, group.lows, group.highs, group.bits, words)
            if valid is not None:
                kernels.keep_where(valid, group.every, words)
        for coded in self.codes:
            codes, dictionary = columns.encoded(coded.attribute)
            table = self._table(coded, codes, dictionary, faults)
            kernels.keep_by_code(codes, table, words)
        for condition, bits in self.others:
            check_limits()  # rows of a whole stretch may be evaluated together
            kernels.keep_where(truths(condition, columns, faults), bits, words)
        return words

    def _table(
        self, group: CodeGroup, codes: npt.NDArray[np.int32], dictionary: Any, faults: Faults
    ) -> Words:
        """Return the word each dictionary entry allows; NULL is the last entry."""
        table = np.full(len(dictionary) + 1, self.every)
        for text, bits in group.texts:
            equal = pc.equal(dictionary, text).to_numpy(zero_copy_only=False)
            table[:-1][~equal] &= ~bits
            table[-1] &= ~bits
        if not group.conditions:
            return table
        entries = DictionaryColumns(dictionary)
        counted = Faults(codes)
        for condition, bits in group.conditions:
            table[~truths(condition, entries, counted)] &= ~bits
        faults.count += counted.count
        return table


def plan_masks(conjuncts: Iterable[tuple[int, Expression]], n_symbols: int) -> MaskPlan:
    """Group conditions by the column they read; equal ones are evaluated once. Pure.

    A symbol holds where all of its ``conjuncts`` do. There are at most 64 symbols.
    """
    numbers: dict[Attribute, dict[int, tuple[Any, Any]]] = {}
    strings: dict[Attribute, dict[Expression, int]] = {}
    others: dict[Expression, int] = {}
    for symbol, condition in conjuncts:
        bit = 1 << symbol
        bounds = to_bounds(condition)
        read = attributes(condition)
        if bounds is not None:
            attribute, low, high = bounds
            by_symbol = numbers.setdefault(attribute, {})
            old = by_symbol.get(symbol, (low, high))
            by_symbol[symbol] = (max(old[0], low), min(old[1], high))
        elif len(read) == 1 and next(iter(read)).type is DataType.STRING:
            same = strings.setdefault(next(iter(read)), {})
            same[condition] = same.get(condition, 0) | bit
        else:
            others[condition] = others.get(condition, 0) | bit
    return MaskPlan(
        every=np.uint64((1 << n_symbols) - 1),
        ranges=tuple(_range_group(*item) for item in numbers.items()),
        codes=tuple(_code_group(*item) for item in strings.items()),
        others=_with_words(others),
    )


def _with_words(conditions: dict[Expression, int]) -> tuple[tuple[Expression, np.uint64], ...]:
    return tuple((condition, np.uint64(bits)) for condition, bits in conditions.items())


def _code_group(attribute: Attribute, conditions: dict[Expression, int]) -> CodeGroup:
    texts: dict[str, int] = {}
    others: dict[Expression, int] = {}
    for condition, bits in conditions.items():
        text = text_equalled(condition)
        if text is None:
            others[condition] = bits
        else:
            texts[text] = texts.get(text, 0) | bits
    scalars = pa.array(list(texts), pa.string())
    equalled = tuple(zip(scalars, map(np.uint64, texts.values()), strict=True))
    return CodeGroup(attribute, equalled, _with_words(others))


def text_equalled(condition: Expression) -> str | None:
    """Return the text of a condition that an attribute equals it; None if it is another."""
    if not isinstance(condition, Call) or condition.op != "=":
        return None
    one, other = condition.args
    if isinstance(one, Literal):
        one, other = other, one
    if not isinstance(one, Attribute) or not isinstance(other, Literal):
        return None
    return other.value if isinstance(other.value, str) else None


def _range_group(attribute: Attribute, by_symbol: dict[int, tuple[Any, Any]]) -> RangeGroup:
    bits: dict[tuple[Any, Any], int] = {}
    for symbol, bounds in by_symbol.items():
        bits[bounds] = bits.get(bounds, 0) | 1 << symbol
    dtype: Any = np.float64 if attribute.type is DataType.DOUBLE else np.int64
    return RangeGroup(
        attribute,
        np.array([low for low, _ in bits], dtype=dtype),
        np.array([high for _, high in bits], dtype=dtype),
        np.array(list(bits.values()), dtype=np.uint64),
        np.uint64(sum(bits.values())),
    )


def to_bounds(condition: Expression) -> tuple[Attribute, Any, Any] | None:
    """Return (attribute, low, high), both ends included, of a comparison with a literal.

    None if the condition is of another form. A range nothing lies in has ``low > high``.
    """
    if not isinstance(condition, Call) or condition.op not in _FLIPPED:
        return None
    attribute, constant = condition.args
    op = condition.op
    if isinstance(attribute, Literal):
        attribute, constant, op = constant, attribute, _FLIPPED[op]
    if not isinstance(attribute, Attribute) or not isinstance(constant, Literal):
        return None
    value = constant.value
    if value is None or isinstance(value, str | bool):
        return None
    if attribute.type is DataType.DOUBLE:
        if math.isnan(value):
            return attribute, math.inf, -math.inf
        beside = math.nextafter(value, -math.inf), math.nextafter(value, math.inf)
        return (attribute, *_bounds(op, float(value), (-math.inf, math.inf), beside))
    if attribute.type in _WHOLE and isinstance(value, int):
        return (attribute, *_bounds(op, value, _INT64, (value - 1, value + 1)))
    return None


def _bounds(op: str, value: T, ends: tuple[T, T], beside: tuple[T, T]) -> tuple[T, T]:
    """Return the range of the values that compare so with one.

    ``ends`` are the least and the greatest value of the type, ``beside`` the next ones to it.
    """
    least, greatest = ends
    match op:
        case "=":
            return value, value
        case "<=":
            return least, value
        case ">=":
            return value, greatest
        case "<" if value > least:
            return least, beside[0]
        case ">" if value < greatest:
            return beside[1], greatest
    return greatest, least
