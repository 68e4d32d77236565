"""Values as numbers that sort as they do, for ORDER BY."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from replay.expressions.columns import Values
from replay.language.bound import SortKey
from replay.operators.grouping import encode_strings, string_ranks

Column = npt.NDArray[Any]


def key_columns(key: SortKey, values: Values) -> tuple[Column, Column]:
    """Return the columns by which a key sorts, the more significant one last, as ``np.lexsort``."""
    ranks, missing = _ranks(values)
    if key.descending:
        # ~x is -1 - x, which the least INTEGER has too.
        ranks = -ranks if ranks.dtype.kind == "f" else ~ranks
    return ranks, ~missing if key.nulls_first else missing


def _ranks(values: Values) -> tuple[Column, Column]:
    """Return numbers that order as the values do, and which values are missing."""
    data, valid = values
    if not isinstance(data, np.ndarray):
        codes, dictionary = encode_strings(data)
        ranks = string_ranks(dictionary)
        missing = codes == len(dictionary)
        return np.append(ranks, 0)[codes], missing
    missing = np.zeros(len(data), np.bool_) if valid is None else ~valid
    if data.dtype.kind == "f":
        missing = missing | np.isnan(data)
    elif data.dtype.kind == "b":
        data = data.astype(np.int64)
    return np.where(missing, data.dtype.type(0), data), missing
