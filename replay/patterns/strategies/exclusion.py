"""Which rows of a match ``{- -}`` leaves out.

Where one mapping has several derivations, the preferred one tells: that of earlier branches, and of
one more iteration. ``Positions.first`` and ``follow`` are in that order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.patterns.automaton import StrategyCode
from replay.patterns.positions import Positions

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Symbols = npt.NDArray[np.uint8]


def excluded_rows(code: StrategyCode, offsets: IntArray, symbols: Symbols) -> Bools:
    """Return whether each row of matches is left out.

    Parameters
    ----------
    offsets, symbols
        Symbols of the rows of match k are ``symbols[offsets[k] : offsets[k + 1]]``.
    """
    if code.positions is None:
        return code.excluded[symbols]
    known: dict[bytes, list[bool]] = {}
    found: list[bool] = []
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        word = symbols[begin:end].tobytes()
        if word not in known:
            known[word] = _excluded(code.positions, word)
        found += known[word]
    return np.array(found, np.bool_)


def _excluded(positions: Positions, word: bytes) -> list[bool]:
    """Return whether each symbol of a word stands within ``{- -}`` in its preferred derivation."""
    reached: list[set[int]] = []
    ways = set(positions.first)
    for symbol in word:
        reached.append({p for p in ways if positions.symbols[p] == symbol})
        ways = {q for p in reached[-1] for q in positions.follow[p]}
    whole = reached[-1] & positions.last.keys()
    alive = [whole or reached[-1]]  # a partial match has no whole derivation
    for places in reversed(reached[:-1]):
        alive.append({p for p in places if alive[-1] & positions.follow[p].keys()})
    options = list(positions.first)
    excluded = []
    for places in reversed(alive):
        chosen = next(p for p in options if p in places)
        excluded.append(positions.excluded[chosen])
        options = list(positions.follow[chosen])
    return excluded
