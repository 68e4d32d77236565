"""Choice between the ways of answering a windowed aggregation."""

from __future__ import annotations

from typing import Final

from chronicle.errors import did_you_mean
from costmodel.guard import in_words
from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimate
from costmodel.windows import (
    WindowFeatures,
    estimate_naive,
    estimate_replay,
    estimate_tree,
)
from replay.errors import PlanError
from replay.windows.plan import Rival, Way

KINDS: Final = ("auto", "replay", "full", "tree", "tree-naive")
"""Names of plans; ``full`` is what ``replay`` is called elsewhere."""


def choose_way(
    features: WindowFeatures,
    requested: str,
    why_not_tree: str | None,
    parameters: CostParameters,
) -> tuple[Way, str]:
    """Return the way to go and why, in one sentence.

    Parameters
    ----------
    features
        The query and the stream.
    requested
        One of `KINDS`.
    why_not_tree
        Why the tree cannot answer the query; None if it can.
    parameters
        Weights of the cost model.

    Raises
    ------
    PlanError
        If there is no such plan, or it cannot answer the query.
    """
    if requested not in KINDS:
        hint = did_you_mean(requested, KINDS)
        raise PlanError(f"no plan '{requested}'{hint} (for windows there are: {', '.join(KINDS)})")
    if requested in ("replay", "full"):
        return Way.REPLAY, "it was asked for"
    if why_not_tree is not None:
        if requested != "auto":
            raise PlanError(
                f"plan '{requested}' cannot apply: {why_not_tree}; use plan 'replay' or 'auto'"
            )
        return Way.REPLAY, why_not_tree
    if requested != "auto":
        return Way(requested), "it was asked for"
    tree = estimate_tree(features, parameters).cost
    replayed = estimate_replay(features, parameters).cost
    shown = f"{in_words(tree)} by the tree and {in_words(replayed)} by a replay"
    # Asking for every window anew is never cheaper than making every slice once (thesis 3.3.1).
    return (Way.TREE if tree < replayed else Way.REPLAY), f"estimated at {shown}"


def estimate_ways(
    features: WindowFeatures, parameters: CostParameters, *, by_tree: bool
) -> dict[Way, Estimate]:
    """Return the estimate of every way that can answer, cheapest first."""
    found = {Way.REPLAY: estimate_replay(features, parameters)}
    if by_tree:
        found[Way.TREE] = estimate_tree(features, parameters)
        found[Way.TREE_NAIVE] = estimate_naive(features, parameters)
    return dict(sorted(found.items(), key=lambda one: one[1].cost))


def rivals_of(way: Way, estimates: dict[Way, Estimate]) -> tuple[Rival, ...]:
    """Return the ways not taken."""
    return tuple(Rival(w.value, estimate) for w, estimate in estimates.items() if w is not way)
