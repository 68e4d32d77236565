"""Choice among plans: the cheapest, unless a full replay is as good or it is a risk."""

from __future__ import annotations

import numpy as np

from costmodel import choose

NAMES = ["tree", "indexes=A.x", "full"]


def chosen(cost, *, index_cost=None, pessimistic=None, margin=0.8, names=NAMES):
    cost = np.array(cost, dtype=np.float64)
    index_cost = np.zeros(len(cost)) if index_cost is None else np.array(index_cost)
    pessimistic = cost if pessimistic is None else np.array(pessimistic)
    return choose(
        names.__getitem__, cost, index_cost, pessimistic, full=len(cost) - 1, margin=margin
    )


def test_cheapest_plan_is_chosen_if_clearly_cheaper():
    choice = chosen([3.0, 1.0, 4.0])
    assert choice.index == 1
    assert choice.reason == "estimated at 1 s, 4.0x less than 4 s of a full replay"


def test_full_replay_is_chosen_unless_clearly_beaten():
    choice = chosen([0.0035, 0.004], names=["tree", "full"])
    assert choice.index == 1
    assert choice.reason == (
        "the best other plan, tree, is estimated at 3.5 ms, not clearly below 4 ms of a full replay"
    )


def test_full_replay_is_chosen_where_it_is_cheapest():
    choice = chosen([0.005, 0.004], names=["tree", "full"])
    assert choice.index == 1
    assert choice.reason == "no other plan is estimated below 4 ms of a full replay"


def test_full_replay_alone_is_chosen():
    assert chosen([1.0], names=["full"]).index == 0


def test_of_equal_plans_the_first_is_chosen():
    assert chosen([0.5, 0.5, 1.0]).index == 0


def test_plan_that_spends_much_on_lookups_must_be_bounded():
    # 0.3 s of lookups are more than 5 % of 4 s and 5 ms.
    unbounded = chosen([3.0, 1.0, 4.0], index_cost=[0, 0.3, 0], pessimistic=[3.0, np.inf, 4.0])
    assert unbounded.index == 0
    assert unbounded.reason == (
        "estimated at 3 s, 1.3x less than 4 s of a full replay, while indexes=A.x spends 300 ms on "
        "lookups first and, if its estimate errs, is not bounded"
    )
    too_much = chosen([3.9, 1.0, 4.0], index_cost=[0, 0.3, 0], pessimistic=[3.9, 4.42, 4.0])
    assert too_much.index == 2
    assert too_much.reason == (
        "4 s is certain, while indexes=A.x spends 300 ms on lookups first and, if its estimate "
        "errs, may take 4.42 s"
    )


def test_pessimistic_cost_may_pass_a_full_replay_by_a_tenth_and_10_ms():
    assert chosen([3.0, 1.0, 4.0], index_cost=[0, 3.0, 0], pessimistic=[3, 4.409, 4]).index == 1
    assert chosen([3.0, 1.0, 4.0], index_cost=[0, 3.0, 0], pessimistic=[3, 4.411, 4]).index == 0


def test_cheap_lookups_are_no_risk_whatever_they_find():
    assert chosen([3.0, 1.0, 4.0], index_cost=[0, 0.204, 0], pessimistic=[3, 9, 4]).index == 1
    assert chosen([3.0, 1.0, 4.0], index_cost=[0, 0.206, 0], pessimistic=[3, 9, 4]).index == 0
