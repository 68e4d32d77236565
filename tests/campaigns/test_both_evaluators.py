"""Expressions by chance, in both evaluators: no difference outside of the table in docs/sql.md."""

import random

import pytest

from tests.campaigns.seeds import seeds
from tests.expression_cases import differences, nested, table

AT_ONCE = 40
"""Expressions of a seed; the whole campaign has 20,000."""


@pytest.mark.parametrize("seed", seeds(500, fast=1))
def test_expressions_have_one_value_in_both_evaluators(seed):
    dice = random.Random(seed)
    source, refused = table(40, dice), dict[str, str]()
    expressions = [nested(dice.choice("IXSWZDB"), 3, dice) for _ in range(AT_ONCE)]
    found = list(differences(source, expressions, {}, refused))
    # A fault that DuckDB computes ahead of its TRY is an error, as the table says of faults.
    others = [
        why for why in refused.values() if "Overflow" not in why and "out of range" not in why
    ]
    assert (found, others) == ([], []), f"seed {seed}"
