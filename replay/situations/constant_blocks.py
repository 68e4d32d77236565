"""Blocks in which each condition is true of all rows, or of none: nothing changes inside. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from replay.engines.block_truth import ALL_PASS, MUST_READ, classify_blocks
from replay.language.bound import (
    Aggregate,
    Attribute,
    DataType,
    Expression,
    SituationRelation,
    attributes,
    walk,
)
from replay.planning.requirements import AlikeBlocks
from replay.planning.statistics import BoolArray, StreamStatistics

_OF_SUMMARIES: Final = ("count", "sum", "avg", "min", "max")
"""Aggregates of plain columns of `_NUMBERS` that the tree's summaries hold."""

_OF_ENDS: Final = ("first", "last")
"""Those for which one row is read."""

_NUMBERS: Final = (DataType.INTEGER, DataType.DOUBLE)


def constant_blocks(
    relation: SituationRelation, where: Expression | None, stream: StreamStatistics
) -> AlikeBlocks | None:
    """Return the blocks that tell all there is to know of their rows; None if there are none.

    A silence inside that ends a situation is a change, too. Only without PARTITION BY and PREV, and
    where RETURN has aggregates that the tree holds: others need the rows. Over a filter all rows of
    a block must pass, and RETURN has none, as of other blocks the tree also holds what does not.
    """
    read = [part for one in relation.situations for part in attributes(one.condition)]
    time = relation.source_time.name
    if relation.partition_by or any(part.offset or part.name == time for part in read):
        return None
    if where is not None and relation.returns:
        return None
    leaves = stream.leaves
    parts = [part for one in relation.returns for part in walk(one.expression)]
    returned = list(_columns(part for part in parts if isinstance(part, Aggregate)))
    if not all(name is not None and stream.bounds(name).known.all() for name in returned):
        return None
    passes = () if where is None else (where,)
    filtered = classify_blocks(passes, leaves.count, stream.bounds)
    mask = np.ones(len(leaves.t_min), np.bool_) if filtered is None else filtered == ALL_PASS
    says = np.zeros((len(mask), len(relation.situations)), np.bool_)
    for place, situation in enumerate(relation.situations):
        classes = classify_blocks((situation.condition,), leaves.count, stream.bounds)
        assert classes is not None, "of one condition"
        mask &= classes != MUST_READ
        says[:, place] = classes == ALL_PASS
    goes_on: BoolArray = np.zeros(len(mask), np.bool_)
    goes_on[1:] = mask[1:] & mask[:-1] & (says[1:] == says[:-1]).all(axis=1)
    if relation.valid_for is not None:
        mask &= leaves.gap_max <= relation.valid_for
        goes_on[1:] &= leaves.t_min[1:] - leaves.t_max[:-1] <= relation.valid_for
        goes_on[1:] &= mask[1:] & mask[:-1]
    return AlikeBlocks(mask, says, goes_on) if mask.any() else None


def _columns(aggregates: Iterable[Aggregate]) -> Iterable[str | None]:
    """Yield the columns that aggregates are over; None for one that summaries do not hold."""
    for part in aggregates:
        argument = part.argument
        if argument is None:
            continue
        is_held = part.function in (*_OF_SUMMARIES, *_OF_ENDS) and not part.distinct
        if is_held and isinstance(argument, Attribute) and argument.type in _NUMBERS:
            yield argument.name
        else:
            yield None
