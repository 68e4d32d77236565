"""Weights of the cost model: seconds per unit of work, one place, with unit and reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class CostParameters:
    """Seconds that one unit of each kind of work takes.

    The defaults are sized from two cores with warm caches, where pyarrow reads one double column
    at 80 to 200 M events a second; see ``docs/planning.md`` ("Cost").
    """

    block_s: float = 1e-6
    """Reading one block, whatever is in it: page headers, dictionaries, one call per column."""

    value_s: float = 3.5e-9
    """Decoding one value (event x attribute): a scan does 80 to 200 M a second."""

    predicate_s: float = 1e-10
    """Evaluating one predicate on one event, by column into a bit mask."""

    match_s: float = 4e-10
    """One step of the matcher: each event costs one, and more where searches wait behind a gap; see
    `costmodel.matching`."""

    entry_s: float = 5e-9
    """Reading one index entry, time and place, and joining it with the other conditions'."""

    sort_s: float = 4e-10
    """One comparison of ordering index results by ``seq``; n entries take ``n log2 n`` of them.
    Small, since row groups are in order already and are put together by a linear scatter. Those of
    one key follow each other, so nothing is to be ordered."""

    seek_s: float = 10e-6
    """Beginning to read elsewhere: a stretch of blocks; a lookup takes several."""

    fold_s: float = 1.5e-9
    """Adding one value to the sum, extremes and moments of a partial aggregate."""

    pane_s: float = 3e-9
    """Bringing one event of a replay to its pane of windows, besides adding its values."""

    cut_s: float = 200e-9
    """Finding the place of one border of windows in a block, and making an entry of what lies up to
    it."""

    merge_s: float = 50e-9
    """Merging one partial aggregate of an attribute into a window, or giving a window's row."""

    node_s: float = 200e-9
    """Finding one entry of the tree that lies in a slice, and taking an attribute's summary."""

    ask_s: float = 500e-6
    """Asking the tree for one window by itself, besides what is read and merged."""

    join_s: float = 100e-9
    """Looking for the partners of one event of a join that was read, partners aside."""

    full_margin: float = 0.8
    """A plan must be estimated below this share of a full replay to be preferred to it: estimates
    err, and a full replay is the one plan whose price is known."""

    source: str = "defaults"
    """Where the weights come from, in words: the defaults, or when and where they were measured."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "source" and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"cost parameter {field.name} is {value}; it must be >= 0")


DEFAULT_PARAMETERS = CostParameters()
"""What planning assumes of a machine nobody has measured."""
