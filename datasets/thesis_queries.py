"""The thesis' generator of pattern queries over the synthetic stream, as MATCH_RECOGNIZE text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datasets.synthetic import SEED, SIGMAS

WINDOW = 300
"""Greatest time between a match's first and last event, [1]_ section 3.5.3."""

RANGE_WIDTH_MAX = 0.1
"""A condition covers between nothing and a tenth of the domain [0, 1)."""

DECIMALS = 6
"""Digits of a bound, so that the text of a query says exactly what it asks."""

PAST_LAST_ROW = "PAST LAST ROW"
TO_NEXT_ROW = "TO NEXT ROW"


@dataclass(frozen=True, slots=True)
class BasicSymbol:
    """One event whose attribute lies in ``[low, high)``."""

    attribute: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ThesisQuery:
    """Basic symbols S1 .. Sm in this order, some of them with anything in between."""

    symbols: tuple[BasicSymbol, ...]
    kleene_after: frozenset[int]
    """Numbers x, from 1, of the symbols behind which ``Z*`` stands, between Sx and Sx+1."""

    def to_sql(
        self, stream: str, *, window: int | None = WINDOW, skip: str = TO_NEXT_ROW, time: str = "t"
    ) -> str:
        """Return the query as ``MATCH_RECOGNIZE`` text over ``stream``; no window if it is None.

        ``Z`` is defined nowhere and so is always true; the answer names each match by the times
        of its first and last event.
        """
        last = len(self.symbols)
        pattern = " ".join(
            f"S{x} Z*" if x in self.kleene_after else f"S{x}" for x in range(1, last + 1)
        )
        defines = ",\n    ".join(
            f"S{x} AS S{x}.{symbol.attribute} >= {symbol.low:.{DECIMALS}f}"
            f" AND S{x}.{symbol.attribute} < {symbol.high:.{DECIMALS}f}"
            for x, symbol in enumerate(self.symbols, start=1)
        )
        within = "" if window is None else f" WITHIN {window}"
        return (
            f"SELECT * FROM {stream} MATCH_RECOGNIZE (\n"
            f"  ORDER BY {time}\n"
            f"  MEASURES FIRST(S1.{time}) AS first_t, S{last}.{time} AS last_t\n"
            f"  ONE ROW PER MATCH\n"
            f"  AFTER MATCH SKIP {skip}\n"
            f"  PATTERN ({pattern}){within}\n"
            f"  DEFINE\n    {defines}\n)"
        )


def draw_query(
    n_symbols: int, attributes: Sequence[str], random: np.random.Generator
) -> ThesisQuery:
    """Draw one query of ``n_symbols`` basic symbols over some of ``attributes``.

    Notes
    -----
    As [1]_ section 3.5.3 describes: each symbol gets an attribute and a range of random width and
    position; Kleene symbols are put in by choosing x from 1 .. m - 1, one between Sx and Sx+1, and
    going on in x + 1 .. m - 1 until nothing is left.

    References
    ----------
    .. [1] M. Körber, doctoral thesis, 2021, section 3.5.3, "Pattern Queries".
    """
    symbols = tuple(_draw_symbol(attributes, random) for _ in range(n_symbols))
    kleene_after = []
    x = 0
    while x + 1 < n_symbols:
        x = int(random.integers(x + 1, n_symbols))
        kleene_after.append(x)
    return ThesisQuery(symbols, frozenset(kleene_after))


def draw_queries(
    n_queries: int, n_symbols: int, *, attributes: Sequence[str] = ("A5",), seed: int = SEED
) -> list[ThesisQuery]:
    """Draw queries; equal arguments give equal queries.

    Parameters
    ----------
    n_queries
        How many.
    n_symbols
        Basic symbols m of each query, at least 1.
    attributes
        Attributes of the synthetic stream to choose from.
    seed
        Seed of the draws; query k is the same however many follow it.

    Raises
    ------
    ValueError
        If a query would have no symbol, or an attribute is none of the stream's.
    """
    if n_symbols < 1:
        raise ValueError(f"a query needs at least one symbol, not {n_symbols}")
    unknown = sorted(set(attributes) - set(SIGMAS))
    if unknown or not attributes:
        raise ValueError(f"attributes must be some of {', '.join(SIGMAS)}, not {unknown}")
    random = np.random.default_rng([seed, n_symbols])
    return [draw_query(n_symbols, attributes, random) for _ in range(n_queries)]


def _draw_symbol(attributes: Sequence[str], random: np.random.Generator) -> BasicSymbol:
    attribute = attributes[int(random.integers(len(attributes)))]
    width = float(random.uniform(0.0, RANGE_WIDTH_MAX))
    low = float(random.uniform(0.0, 1.0 - width))
    return BasicSymbol(attribute, round(low, DECIMALS), round(low + width, DECIMALS))
