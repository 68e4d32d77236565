"""Steps of rows of which nothing is read: the same as those that go through slots."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from replay.language import bind, parse_query
from replay.language.bound import BoundPatternQuery, Concat, Repeat, Symbol
from replay.patterns.automaton import StrategyCode, compile_strategy
from replay.patterns.program import compile_program
from replay.patterns.trends.machine import (
    Field,
    Kind,
    Op,
    Rule,
    Steps,
    at_once,
    in_ranges,
    steps_of,
)

COUNT = (Field(Kind.SUM),)

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int64())])


def text_of(pattern: str, semantics: str) -> str:
    symbols = [symbol for symbol in "ABCDX" if symbol in pattern]
    define = ", ".join(f"{symbol} AS x = {place}" for place, symbol in enumerate(symbols))
    return (
        f"SELECT COUNT(*) FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN ({pattern}) "
        f"SEMANTICS {semantics} DEFINE {define})"
    )


def code_of(pattern: str, semantics: str) -> StrategyCode:
    text = text_of(pattern, semantics)
    query = bind(parse_query(text), SCHEMA, time="t", text=text)
    assert isinstance(query, BoundPatternQuery)
    return compile_strategy(query)


def carried_out(steps: Steps, cells: dict[int, int]) -> tuple[dict[int, int], int]:
    """Return what becomes of runs by state, and how many matches there are, by what steps say."""
    after, slots, matches = Counter(cells), Counter[int](), 0
    for op, a, b in steps:
        match op:
            case Op.NONE:
                slots[a] = 0
            case Op.BEGIN:
                slots[a] += 1
            case Op.ADD:
                slots[a] += after[b]
            case Op.FINISH:
                matches += slots[a]
            case Op.CLEAR:
                after[a] = 0
            case Op.PUT:
                after[b] += slots[a]
            case Op.MOVE:
                after[a] += after[b]
            case Op.MATCH:
                matches += after[b]
            case Op.MOVE_NEW:
                after[a] += 1
            case Op.MATCH_NEW:
                matches += 1
    return {state: n for state, n in after.items() if n}, matches


@pytest.mark.parametrize("semantics", ["SKIP TILL ANY", "SKIP TILL NEXT", "CONTIGUOUS"])
@pytest.mark.parametrize(
    "pattern",
    ["A", "A B C", "A B+ C", "(A+ B)+", "(A | B)+ C?", "(A B | B A)+", "A B !X C", "A{2,3} B*"],
)
def test_counts_by_fewer_steps_are_the_same(pattern: str, semantics: str) -> None:
    if "!" in pattern and semantics == "CONTIGUOUS":
        return
    code = code_of(pattern, semantics)
    cells = {state: 3**state for state in range(2, code.n_states)}  # no two sums are equal
    n_symbols = code.step.shape[1]
    for word in range(1 << n_symbols):
        for begin in (None, 1):
            steps = steps_of(code, word, begin)
            fewer = at_once(steps, COUNT)
            assert carried_out(fewer, cells) == carried_out(steps, cells)
            assert len(fewer) <= len(steps)
            one_by_one = [
                (op, a + i, b + i) for op, a, b, n in in_ranges(fewer) for i in reversed(range(n))
            ]
            assert carried_out(one_by_one, cells) == carried_out(steps, cells)
            assert len(one_by_one) == len(fewer)


def test_queries_that_end_alike_take_their_steps_in_ranges() -> None:
    text = text_of("A | B | C | D", "SKIP TILL ANY")
    query = bind(parse_query(text), SCHEMA, time="t", text=text)
    assert isinstance(query, BoundPatternQuery)
    a, b, c, d = (Symbol(index) for index in range(4))
    patterns = [Concat((first, Repeat(d, 1, None))) for first in (a, b, c)]
    code = compile_strategy(query, patterns)
    first, behind = 2, 5  # states of an A, a B and a C, and of these with some D
    assert code.step[1].tolist() == [first, first + 1, first + 2, -1]
    assert in_ranges(at_once(steps_of(code, 0b1000, 1), COUNT)) == [
        (Op.MATCH, 0, first, 3),
        (Op.MATCH, 0, behind, 3),
        (Op.MOVE, behind, behind, 3),  # with this D or without it
        (Op.MOVE, behind, first, 3),
    ]


def test_a_step_of_a_sequence_is_one_addition() -> None:
    code = code_of("A B C", "SKIP TILL ANY")
    (second,) = {int(state) for state in code.step[1] if state >= 0}
    third = int(code.step[second, 1])
    assert at_once(steps_of(code, 0b001, 1), COUNT) == [(Op.MOVE_NEW, second, 0)]
    assert at_once(steps_of(code, 0b010, 1), COUNT) == [(Op.MOVE, third, second)]
    assert at_once(steps_of(code, 0b100, 1), COUNT) == [(Op.MATCH, 0, third)]


def test_a_row_that_a_field_reads_keeps_its_slots() -> None:
    code = code_of("A B C", "SKIP TILL ANY")
    of_second = (*COUNT, Field(Kind.SUM, Rule.EVERY, (1,), 0))
    of_all = (*COUNT, Field(Kind.SUM, Rule.EVERY, None, 0))
    for word, fields in ((0b010, of_second), (0b011, of_second), (0b001, of_all)):
        steps = steps_of(code, word, 1)
        assert at_once(steps, fields) == steps
    steps = steps_of(code, 0b101, 1)
    assert at_once(steps, of_second) == at_once(steps, COUNT)


@pytest.mark.parametrize(
    ("select", "pattern", "condition", "n_states"),
    [
        ("COUNT(*)", "A B*", "x < LAST(x, 1)", 1),
        ("SUM(B.x)", "A B*", "x < LAST(x, 1)", 2),  # a cell maps its rows to one symbol
        ("SUM(B.x)", "A B*", "x = 1", 1),
        ("COUNT(*)", "A B* C", "x < LAST(x, 1)", 2),
        ("COUNT(*)", "A B+", "x < LAST(x, 1)", 2),  # a match has a B
        ("COUNT(*)", "A B C*", "x < LAST(x, 1)", 2),
        ("COUNT(*)", "A B*", "x < A.x", 1),
        ("COUNT(*)", "A B*", "x < LAST(x, 1) OR CLASSIFIER() = LAST(CLASSIFIER(), 1)", 2),
    ],
)
def test_states_that_go_on_alike_are_one(
    select: str, pattern: str, condition: str, n_states: int
) -> None:
    text = text_of(pattern, "SKIP TILL ANY").replace("COUNT(*)", select)
    query = bind(parse_query(text.replace("x = 1", condition)), SCHEMA, time="t", text=text)
    assert isinstance(query, BoundPatternQuery)
    program = compile_program(query)
    assert program.strategy is not None
    assert program.strategy.n_states == 2 + n_states
    assert compile_strategy(query).n_states == 2 + len(pattern.split())
