"""Choice among plans: the cheapest, unless a full replay is as good or it is a risk."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import choose

NAMES = ["tree", "indexes=A.x", "full"]


def chosen(cost, *, index_cost=None, pessimistic=None, margin=0.8, names=NAMES, **knobs):
    cost = np.array(cost, dtype=np.float64)
    index_cost = np.zeros(len(cost)) if index_cost is None else np.array(index_cost)
    pessimistic = cost if pessimistic is None else np.array(pessimistic)
    return choose(
        names.__getitem__, cost, index_cost, pessimistic, full=len(cost) - 1, margin=margin, **knobs
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


@pytest.mark.parametrize(
    ("lookups_s", "tree_s", "tried"),
    [
        pytest.param(0.002, 0.06, True, id="a thirtieth of the tree"),
        pytest.param(0.0032, 0.06, False, id="a little more than a twentieth of the tree"),
        pytest.param(0.002, 0.1, True, id="of the full replay"),
        pytest.param(0.0055, 0.1, False, id="more than a twentieth of it"),
        pytest.param(0.002, 0.0499, False, id="of what takes less than 50 ms"),
    ],
)
def test_quick_lookups_are_tried_though_nothing_is_expected_of_them(lookups_s, tree_s, tried):
    """They are expected to leave what the tree leaves: the same is read besides."""
    cost = [tree_s, tree_s + lookups_s, 0.1]
    lookups = [0.0, lookups_s, 0.0]
    bounded = [tree_s, tree_s + lookups_s, 0.1]
    certain = chosen(cost, index_cost=lookups, pessimistic=bounded)
    choice = chosen(cost, index_cost=lookups, pessimistic=bounded, may_try=True)
    assert certain.index == (0 if tree_s < 0.08 else 2)
    assert choice.index == (1 if tried else certain.index)
    if tried:
        assert choice.reason == (
            f"its lookups take 2 ms and may find that far less is to be read than is expected: "
            f"{1e3 * (tree_s + 0.002):.3g} ms in all, {1e3 * tree_s:.3g} ms for "
            f"{NAMES[certain.index]}"
        )


def test_lookups_that_are_a_risk_are_not_tried():
    knobs = {"index_cost": [0, 0.3, 0], "pessimistic": [9.0, np.inf, 9.5], "may_try": True}
    assert chosen([9.0, 9.1, 9.5], **knobs).index == 1
    knobs["index_cost"] = [0, 0.5, 0]
    assert chosen([9.0, 9.1, 9.5], **knobs).index != 1


def test_plans_that_look_something_up_are_not_weighed_against_a_try():
    names = ["indexes=A.x", "indexes=B.x", "full"]
    knobs = {"index_cost": [0.01, 0.001, 0], "names": names, "may_try": True}
    assert chosen([1.0, 1.01, 4.0], **knobs).index == 0
