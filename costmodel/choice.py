"""Choice among plans by estimated cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.features import FloatArray


@dataclass(frozen=True, slots=True)
class Choice:
    """Which plan, and why in one sentence."""

    index: int
    reason: str


def choose(names: list[str], cost: FloatArray, *, full: int, margin: float) -> Choice:
    """Choose the plan of least cost, but the full replay unless it is clearly beaten.

    Parameters
    ----------
    names
        The plans; of two of equal cost the earlier is preferred.
    cost
        Seconds, shape (n_plans,).
    full
        Which of the plans is the full replay.
    margin
        Share of the full replay's cost below which a plan must stay.

    Examples
    --------
    >>> import numpy as np
    >>> choose(["full", "tree"], np.array([2.0, 1.0]), full=0, margin=0.8).index
    1
    """
    best = int(np.argmin(cost))
    if best == full:
        return Choice(
            full, f"no other plan is estimated below {_time(cost[full])} of a full replay"
        )
    if cost[best] > margin * cost[full]:
        return Choice(
            full,
            f"the best other plan, {names[best]}, is estimated at {_time(cost[best])}, "
            f"not clearly below {_time(cost[full])} of a full replay",
        )
    return Choice(
        best,
        f"estimated at {_time(cost[best])}, {cost[full] / max(cost[best], 1e-12):.1f}x less "
        f"than {_time(cost[full])} of a full replay",
    )


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
