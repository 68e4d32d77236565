"""Choice among plans by estimated cost, with a guard against estimates that err."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray

GUARD_SHARE: Final = 0.05
"""Share of the full replay's cost that lookups may take without a further question: where they find
too much, the replay goes on in full, and no more than this is lost."""

GUARD_SECONDS: Final = 5e-3
"""What lookups may take besides, however short the full replay is."""

LOSS_SHARE: Final = 1.1
"""No plan may take longer than this many times the full replay, ..."""

LOSS_SECONDS: Final = 10e-3
"""... and this long besides: the goal that no plan is clearly slower than a full replay."""

PLANNED_SHARE: Final = 0.8
"""Of these seconds, what is left when a query has been planned."""

TRY_SHARE: Final = 0.05
"""How likely lookups are taken to leave next to nothing of what they are estimated to leave: their
events may lie in few places, which neither fences nor the tree tell."""

TRY_SECONDS: Final = 0.05
"""Where less is at stake nothing is tried: what lookups take besides what their entries take, a few
milliseconds, would be more than a twentieth of it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which plan, and why in one sentence."""

    index: int
    reason: str


def choose(
    name_of: Callable[[int], str],
    cost: FloatArray,
    index_cost: FloatArray,
    pessimistic_cost: FloatArray,
    *,
    full: int,
    margin: float,
    may_try: bool = False,
) -> Choice:
    """Choose the plan of least cost that is no risk, but the full replay unless clearly beaten.

    Parameters
    ----------
    name_of
        The name of a plan; of the few that the reason speaks of.
    cost
        Seconds, shape (n_plans,). Of two plans of equal cost the earlier is preferred.
    index_cost
        Seconds of these spent before any event is read, shape (n_plans,): lost if the plan turns
        out to save nothing.
    pessimistic_cost
        Seconds with as many blocks as confidence allows, shape (n_plans,); infinite if nothing
        bounds them.
    full
        Which of the plans is the full replay.
    margin
        Share of the full replay's cost below which a plan must stay.
    may_try
        Whether lookups are tried where no plan with any seems worth it, see `TRY_SHARE`.

    Returns
    -------
    Choice
        Of the plans below the margin, the cheapest whose lookups cost at most 5 % of a full replay
        and 5 ms, or that takes at most 1.1 times a full replay and 10 ms if pessimism is right. The
        reason says so where this leaves out a cheaper plan. Where that plan looks nothing up and
        takes `TRY_SECONDS` or more, one that is no risk either may be tried, whose lookups take at
        most `TRY_SHARE` of it: once asked, they leave no more to be read.

    Examples
    --------
    >>> import numpy as np
    >>> choose(
    ...     "plan {}".format,
    ...     np.array([2.0, 1.0]),
    ...     np.zeros(2),
    ...     np.ones(2),
    ...     full=0,
    ...     margin=0.8,
    ... ).index
    1
    """
    choice = _choose(name_of, cost, index_cost, pessimistic_cost, full, margin)
    taken = choice.index
    if not may_try or index_cost[taken] > 0.0 or cost[taken] < TRY_SECONDS:
        return choice
    safe = is_safe(index_cost, pessimistic_cost, float(cost[full]))
    quick = (index_cost > 0.0) & (index_cost <= TRY_SHARE * cost[taken])
    expected = cost - TRY_SHARE * (cost - index_cost)
    tried = _cheapest(expected, safe & quick)
    if tried is None or expected[tried] >= cost[taken]:
        return choice
    return Choice(
        tried,
        f"its lookups take {in_words(index_cost[tried])} and may find that far less is to be read "
        f"than is expected: {in_words(cost[tried])} in all, {in_words(cost[taken])} for "
        f"{name_of(taken)}",
    )


def _choose(
    name_of: Callable[[int], str],
    cost: FloatArray,
    index_cost: FloatArray,
    pessimistic_cost: FloatArray,
    full: int,
    margin: float,
) -> Choice:
    """Choose as `choose` does by what is estimated alone."""
    best = _cheapest(cost, np.arange(len(cost)) != full)
    if best is None or cost[best] >= cost[full]:
        why = f"no other plan is estimated below {in_words(cost[full])} of a full replay"
        return Choice(full, why)
    clear = cost < margin * cost[full]
    clear[full] = False
    if not clear.any():
        why = (
            f"the best other plan, {name_of(best)}, is estimated at {in_words(cost[best])}, "
            f"not clearly below {in_words(cost[full])} of a full replay"
        )
        return Choice(full, why)
    safe = is_safe(index_cost, pessimistic_cost, float(cost[full]))
    taken = _cheapest(cost, clear & safe)
    risk = ""
    if taken != best:
        risk = _risk(name_of(best), index_cost[best], pessimistic_cost[best])
    if taken is None:
        return Choice(full, f"{in_words(cost[full])} is certain, while {risk}")
    times = cost[full] / max(cost[taken], 1e-12)
    why = (
        f"estimated at {in_words(cost[taken])}, {times:.1f}x less than {in_words(cost[full])} "
        "of a full replay"
    )
    return Choice(taken, f"{why}, while {risk}" if risk else why)


def bearable(full_cost: float) -> float:
    """Return the seconds that may be spent on what may turn out to be of no use.

    Then everything is replayed besides, and no plan may take clearly longer than that alone.
    """
    return (LOSS_SHARE - 1.0) * full_cost + PLANNED_SHARE * LOSS_SECONDS


def is_safe(index_cost: FloatArray, pessimistic_cost: FloatArray, full_cost: float) -> BoolArray:
    """Return which plans are no risk, by what they may lose against a full replay.

    Parameters
    ----------
    index_cost, pessimistic_cost
        As of `choose`.
    full_cost
        Seconds of the full replay.
    """
    bounded = pessimistic_cost <= LOSS_SHARE * full_cost + LOSS_SECONDS
    return np.asarray(bounded | (index_cost <= GUARD_SHARE * full_cost + GUARD_SECONDS))


def _cheapest(cost: FloatArray, among: BoolArray) -> int | None:
    places = np.flatnonzero(among)
    return int(places[np.argmin(cost[places])]) if len(places) else None


def _risk(name: str, index_cost: float, pessimistic: float) -> str:
    """Return what speaks against a plan that is cheaper by its estimate."""
    worst = f"may take {in_words(pessimistic)}" if np.isfinite(pessimistic) else "is not bounded"
    return (
        f"{name} spends {in_words(index_cost)} on lookups first and, if its estimate errs, {worst}"
    )


def in_words(seconds: float) -> str:
    """Return a time as sentences have it: milliseconds below a second."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
