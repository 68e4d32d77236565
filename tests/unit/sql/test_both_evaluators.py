"""Each function and operator of the language in both evaluators: one value, or a listed row."""

import random
import re
from pathlib import Path

from replay.language.functions import FUNCTIONS
from tests.expression_cases import (
    FAR_YEARS,
    LISTED,
    REFUSED_WITH_A_REMEDY,
    STEPS,
    differences,
    single,
    table,
)

DOCS = Path(__file__).parents[3] / "docs" / "sql.md"


def test_every_step_has_one_value_in_both_parts_or_stands_in_the_table():
    dice = random.Random(1)
    source, seen, refused = table(60, dice), dict[str, int](), dict[str, str]()
    found = []
    for begin in range(0, len(STEPS), 100):
        expressions = [single(step, dice) for step in STEPS[begin : begin + 100]]
        found += differences(source, expressions, seen, refused)
    assert (found, refused) == ([], {})
    assert set(seen) == set(LISTED) - {FAR_YEARS}  # which steps of steps alone reach


def test_every_row_of_differences_stands_in_the_document():
    text = DOCS.read_text().partition("**Where DuckDB's rules differ.**")[2].partition("\n\n**")[0]
    begins = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    assert [row for row in LISTED if not any(begin.startswith(row) for begin in begins)] == []


def test_every_function_of_the_list_is_a_step_or_refused_with_its_remedy():
    assert {step.name for step in STEPS} >= set(FUNCTIONS) - REFUSED_WITH_A_REMEDY
    assert set(FUNCTIONS) > REFUSED_WITH_A_REMEDY
