"""The thesis' index selection strategies, each giving the name of a plan for one question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from benchmarks.planned import Question
from costmodel.thesis.selection import Strategy

REPLAY, AUTO = "Replay", "auto"


@dataclass(frozen=True, slots=True)
class Rule:
    """A strategy, and whether it is told of the coarse pattern map."""

    name: str
    strategy: Strategy
    with_map: bool


RULES = (
    Rule("All", Strategy.ALL, False),
    Rule("Budget", Strategy.BUDGET, False),
    Rule("Greedy", Strategy.GREEDY, False),
    Rule("Pareto", Strategy.PARETO, False),
    Rule("Optimal", Strategy.OPTIMAL, False),
    Rule("Greedy*", Strategy.GREEDY, True),
    Rule("Optimal*", Strategy.OPTIMAL, True),
)
"""A star marks those that use the coarse pattern map for estimates, as in the thesis. Pareto is
Algorithm 3.2 as printed, Optimal the one corrected."""

RULE_NAMES = tuple(rule.name for rule in RULES)


@dataclass(frozen=True, slots=True)
class Picked:
    """What a strategy picks."""

    plan: str
    seconds: float
    """Time of the selection alone; features are given."""
    n_examined: int
    """Sets of lookups whose cost was estimated."""
    blocks: float
    """Blocks it estimates for its plan."""


def pick(question: Question, rules: Sequence[Rule] = RULES) -> dict[str, Picked]:
    """Return what each strategy picks; where nothing is to be weighed, the one plan there is."""
    picked = {}
    for rule in rules:
        features = question.features if rule.with_map else question.uniform_features
        if features is None or not question.conditions:
            only = question.chosen
            picked[rule.name] = Picked(only.name, 0.0, 0, only.estimated.blocks)
            continue
        question.select(rule.strategy, features)  # warm, as everything is that is timed
        started = perf_counter()
        plan, selection = question.select(rule.strategy, features)
        seconds = perf_counter() - started
        blocks = question.estimate_by(features, plan).blocks
        picked[rule.name] = Picked(plan, seconds, selection.n_examined, blocks)
    return picked


def plans_to_run(picked: dict[str, Picked]) -> list[str]:
    """Return the distinct plans, and ``auto``."""
    return list(dict.fromkeys([*(choice.plan for choice in picked.values()), AUTO]))
