"""Rows that are known by index entries alone: plan `index-only` of aggregates over matches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from replay.engines.index_phase import IndexResult
from replay.language.bound import BoundPatternQuery
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.trends.machine import columns_of
from replay.planning.ascending import lower_bounds
from replay.planning.requirements import Position, Requirements


def why_not_known(
    query: BoundPatternQuery, program: MatchProgram | None, relevant: Sequence[Position]
) -> str | None:
    """Return why more is asked of rows than their times and symbols, or None.

    ``program`` is what the query was compiled to, None where its matches are made in any case;
    ``relevant`` are its symbols, of a query that plan `relevant` is for.
    """
    if query.windows is not None:
        return "the rows of windows are kept, and entries are no rows"
    if program is None or program.sums is None:
        return "it is for aggregates over matches that need not be made"
    if program.sums.grain is not None:
        return "conditions read other rows of the match, which entries do not hold"
    if query.partition_by:
        return "PARTITION BY reads values that entries need not hold"
    read = sorted(columns_of(program.sums) - {query.time})
    if read:
        return f"aggregates read '{read[0]}', which entries do not hold"
    vague = [symbol.symbol for symbol in relevant if not symbol.is_all]
    if vague:
        return f"the condition of {vague[0]} says more than ranges of single attributes"
    return None


def known_rows(
    program: MatchProgram, required: Requirements, found: IndexResult, time_type: pa.DataType
) -> Prepared:
    """Return the rows of all symbols, in the order of the stream, as lookups tell them."""
    of_symbols = found.stretches.of_symbols
    # Runs that ascend are merged; `numpy.unique` would hash all of them, ten times as slowly.
    seq = np.sort(np.concatenate([np.empty(0, np.int64), *of_symbols.values()]), kind="stable")
    seq = seq[np.diff(seq, prepend=-1) != 0]
    words = np.zeros(len(seq), np.uint64)
    for place, rows in of_symbols.items():
        symbol = program.query.symbols.index(required.relevant[place].symbol)
        words[lower_bounds(seq, rows)] |= np.uint64(1 << symbol)
    is_timed = program.time.name in program.columns
    times = found.lookups.times_at(seq) if is_timed else np.zeros(len(seq), np.int64)
    table = pa.table({program.time.name: pa.array(times, pa.int64()).cast(time_type)})
    return program.prepare_known(table, words, seq)
