"""Counting of rows at fault, and what the functions of a dispatch table share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.expressions.columns import Values, and_valid
from replay.expressions.nodes import Call


class Faults:
    """Counts rows that gave NULL because of a fault.

    Where the rows evaluated are entries of a dictionary, ``codes`` has the entry of each real row.
    """

    def __init__(self, codes: npt.NDArray[np.int32] | None = None) -> None:
        self.count = 0
        self._codes = codes

    def drop(self, values: Values, exists: Any) -> Values:
        """Return the values, NULL where they do not exist; count the rows where that is new."""
        if exists is None or np.all(exists):
            return values
        data, valid = values
        self.add(~exists if valid is None else valid & ~exists)
        return Values(data, exists if valid is None else valid & exists)

    def add(self, fault: Any) -> None:
        """Count the rows of a mask."""
        if self._codes is not None and np.ndim(fault):
            fault = fault[self._codes]
        self.count += int(np.count_nonzero(fault))


Function = Callable[[Call, list[Values], Faults], Values]
"""Evaluates a call on the values of its arguments."""


def both_valid(values: list[Values]) -> Any:
    """Return where all arguments are known."""
    return and_valid(*[value.valid for value in values])
