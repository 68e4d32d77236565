"""Rows that are known by index entries alone: plan `index-only` of aggregates over matches.

They are a table that says of each row which symbols can map it, and the query has conditions that
read just that: so they are summed as rows are that were read, in windows and partitions, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from indexing.objects import from_objects
from replay.engines.index_phase import IndexResult
from replay.language.bound import Attribute, BoundPatternQuery, DataType, Expression, Literal
from replay.patterns.program import MatchProgram, summed_in_windows
from replay.patterns.trends.machine import columns_of
from replay.planning.ascending import lower_bounds
from replay.planning.requirements import Position, Requirements


def to_known(
    query: BoundPatternQuery,
    program: MatchProgram | None,
    required: Requirements,
    key: str | None,
) -> Requirements:
    """Return what a query requires, with what plan `index-only` needs to know of it.

    ``program`` is what the query was compiled to, None where its matches are made in any case, or
    of windows; ``key`` is the stream's key column, which entries hold.
    """
    if query.windows is not None:
        program = summed_in_windows(query)
    why = _why_not_known(query, program, required.relevant, key)
    of_entries = set() if why is not None else _read_besides(query, program)
    return replace(required, why_not_index_only=why, of_entries=frozenset(of_entries))


def _why_not_known(
    query: BoundPatternQuery,
    program: MatchProgram | None,
    relevant: Sequence[Position],
    key: str | None,
) -> str | None:
    """Return why more is asked of rows than their times, keys and symbols, or None."""
    if program is None or program.sums is None:
        return "it is for aggregates over matches that need not be made"
    if program.sums.grain is not None:
        return "conditions read other rows of the match, which entries do not hold"
    held = {query.time} if key is None else {query.time, key}
    others = [name for name in query.partition_by if name not in held]
    if others:
        hold = "which the stream has not" if key is None else f"'{key}'"
        return f"PARTITION BY reads '{others[0]}', and entries hold the key column alone, {hold}"
    read = sorted(_read_besides(query, program) - held)
    if read:
        return f"aggregates read '{read[0]}', which entries do not hold"
    vague = [symbol.symbol for symbol in relevant if not symbol.is_all]
    if vague:
        return f"the condition of {vague[0]} says more than ranges of single attributes"
    return None


def _read_besides(query: BoundPatternQuery, program: MatchProgram | None) -> set[str]:
    """Return the columns that are read of rows besides those of conditions."""
    assert program is not None
    assert program.sums is not None
    is_timed = query.windows is not None or query.within is not None
    return {*query.partition_by, *columns_of(program.sums), *([query.time] if is_timed else [])}


def known_rows(
    query: BoundPatternQuery, required: Requirements, found: IndexResult, schema: pa.Schema
) -> tuple[pa.Table, BoundPatternQuery]:
    """Return the rows of all symbols, in the order of the stream, and the query over them.

    ``schema`` is the stream's.
    """
    of_symbols = found.stretches.of_symbols
    # Runs that ascend are merged; `numpy.unique` would hash all of them, ten times as slowly.
    seq = np.sort(np.concatenate([np.empty(0, np.int64), *of_symbols.values()]), kind="stable")
    seq = seq[np.diff(seq, prepend=-1) != 0]
    columns: dict[str, pa.Array] = {}
    # One column at least: it carries how many rows there are.
    if query.time in required.of_entries or not required.relevant:
        times = pa.array(found.lookups.times_at(seq), pa.int64())
        columns[query.time] = times.cast(schema.field(query.time).type)
    if required.of_entries - {query.time}:
        name, keys = found.lookups.keys_at(seq)
        columns[name] = from_objects(keys, schema.field(name).type)
    prefix = "is "
    while any(name.casefold().startswith(prefix) for name in columns):
        prefix += "is "
    conditions: dict[str, Expression] = {}
    for place, symbol in enumerate(required.relevant):
        is_of = np.zeros(len(seq), np.bool_)
        is_of[lower_bounds(seq, of_symbols.get(place, seq[:0]))] = True
        name = f"{prefix}{place}"
        # `pa.array` of booleans takes a hundred times as long.
        bits = pa.py_buffer(np.packbits(is_of, bitorder="little"))
        columns[name] = pa.BooleanArray.from_buffers(pa.bool_(), len(seq), [None, bits])
        conditions[symbol.symbol] = Attribute(name, DataType.BOOLEAN)
    never = Literal(value=False, type=DataType.BOOLEAN)  # no row can be of the other symbols
    defines = tuple(conditions.get(symbol, never) for symbol in query.symbols)
    return pa.table(columns), replace(query, defines=defines)
