"""The order in which a plan's lookups are asked, each in what those before it leave."""

from __future__ import annotations

from costmodel.lookups import CANDIDATES_MAX
from replay.planning.plan import Condition, Lookup, Plan


def lookups_in_order(plan: Plan) -> list[Lookup]:
    """Return the plan's lookups in the order they are asked: rarest first.

    The first is of the rarest basic block, whose occurrences all else is looked for around; one
    that is not much more frequent, but serves more places, goes before it, as it has to be read
    anyway and the other one can be asked in its rows. Those that follow are asked in windows the
    narrower, the more of them is known. Conditions on gaps come last, as they bound nothing by
    themselves.
    """
    share = expected_shares(plan)
    block_at = plan.shape.block_at
    rarity = [1.0] * len(plan.shape.blocks)
    places: dict[Lookup, set[int]] = {}
    for condition in plan.conditions:
        places.setdefault(condition.lookup, set()).add(condition.place)
        if not condition.fills_gap:
            rarity[block_at[condition.position]] *= share[condition.lookup]

    def rank(condition: Condition) -> tuple[bool, float, float]:
        if condition.fills_gap:
            return True, 0.0, share[condition.lookup]
        return False, rarity[block_at[condition.position]], share[condition.lookup]

    ranked = sorted(plan.conditions, key=rank)
    rest = sorted(ranked, key=lambda c: (c.fills_gap, share[c.lookup]))
    first = [c.lookup for c in ranked[:1]]
    for lookup in first[:1]:
        wider = [
            other
            for other, here in places.items()
            if here > places[lookup] and share[other] * CANDIDATES_MAX < share[lookup]
        ]
        first = [*sorted(wider, key=lambda other: share[other])[:1], lookup]
    return list(dict.fromkeys((*first, *(c.lookup for c in rest))))


def expected_shares(plan: Plan) -> dict[Lookup, float]:
    """Return the share of events, of those asked about, that planning expected in each lookup.

    All where it knew none.
    """
    known = {known.condition.lookup: known.fraction for known in plan.selectivities}
    if plan.part is not None:
        n = max(plan.part.n_events, 1)
        known.update({lookup: found / n for lookup, found in plan.part.expected.items()})
    return {c.lookup: known.get(c.lookup, 1.0) for c in plan.conditions}
