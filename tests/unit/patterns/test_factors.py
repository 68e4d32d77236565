"""Factors of patterns: what is summed of rows apart from those before them, equal ones once."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from replay.errors import NotSupportedError
from replay.language import bind, parse_query
from replay.language.bound import Alternate, BoundPatternQuery
from replay.patterns.automaton import StrategyCode, compile_strategy
from replay.patterns.trends.factors import EMPTY, Cells, Factors
from replay.patterns.trends.machine import BEGIN, Changes, changes_of
from tests.unit.patterns.test_machine import SCHEMA

SYMBOLS = "ABCDEFXY"
"""The last two are negated where a pattern is of them."""

Sums = Counter[int]


def code_of(semantics: str, *patterns: str) -> StrategyCode:
    """Return the automaton of patterns, whose symbols have the numbers of `SYMBOLS`."""
    first = "A B C D E F !X !Y A" if "!" in "".join(patterns) else "A B C D E F"
    of_all = " | ".join(f"({pattern})" for pattern in (first, *patterns))
    symbols = [symbol for symbol in SYMBOLS if symbol in first]
    defines = ", ".join(f"{symbol} AS x = {place}" for place, symbol in enumerate(symbols))
    text = (
        f"SELECT COUNT(*) FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN ({of_all}) "
        f"SEMANTICS {semantics} WITHIN 9 DEFINE {defines})"
    )
    query = bind(parse_query(text), SCHEMA, time="t", text=text)
    assert isinstance(query, BoundPatternQuery)
    assert isinstance(query.pattern, Alternate)
    _, *branches = query.pattern.branches
    return compile_strategy(query, branches)


def word_of(letters: str) -> int:
    return sum(1 << SYMBOLS.index(letter) for letter in letters)


def changed(sums: Sums, changes: Changes, end_of: int = 0) -> Sums:
    """Return sums after a change; matches of query q are those of ``end_of + q``."""
    made, left = changes
    after = Sums({cell: n for cell, n in sums.items() if cell not in left})
    for change in made:
        n = sum(1 if source == BEGIN else sums[source] for source in change.sources)
        for target in (*change.targets, *(end_of + query for query in change.queries)):
            after[target] += n
    return after


def lanes_through(code: StrategyCode, words: list[int]) -> dict[tuple[int, int], int]:
    """Return how many runs lead through rows from each state to each, one lane after the other."""
    found = {}
    for start in range(EMPTY, code.n_states):
        sums = Sums({start: 1} if start > EMPTY else {})
        for word in words:
            changes = changes_of(code, word, EMPTY if start == EMPTY else None)
            sums = changed(sums, changes, end_of=code.n_states)
        found |= {(start, end): n for end, n in sums.items()}
    return found


def sums_of(cells: Cells, sums: Sums) -> dict[tuple[int, int], int]:
    return {pair: sums[cell] for pair, cell in cells.of_pair.items()}


def begun(cells: Cells) -> Sums:
    return Sums(dict.fromkeys(cells.ones.tolist(), 1))


def behind(code: StrategyCode, factors: Factors, words: list[int]) -> Sums:
    """Return the sums of rows, one put behind the other."""
    sums = begun(factors.behind)
    for word in words:
        own = factors.put_behind(changes_of(code, word, EMPTY), is_begun=True)
        others = factors.put_behind(changes_of(code, word, None), is_begun=False)
        sums = changed(sums, (own[0] + others[0], own[1] + others[1]))
    return sums


def before(code: StrategyCode, factors: Factors, words: list[int]) -> Sums:
    """Return the sums of rows, one put before the other."""
    sums = begun(factors.before)
    for word in reversed(words):
        sums = changed(sums, factors.put_before(changes_of(code, word, EMPTY)))
    return sums


PATTERNS = (
    ("A B C",),
    ("A",),
    ("A+",),
    ("A B+ C", "D B+ C", "A B+"),
    ("A B C D", "E B C F", "B C"),
    ("A B C", "A B D", "E F A B C"),
    ("(A B)+ C", "D (A B)+"),
    ("(A | B)+ C?", "C (A | B)+"),
    ("A{2,4} B*", "C A{3}"),
    ("A B !X C", "D B !X C", "D B C"),
    ("A !X B+ !Y C", "E !X B+ C", "E B+ !X C"),
    ("A !X B !Y C", "E !Y B !X C", "F B C"),
    ("A A A A", "B A A"),
)


@pytest.mark.parametrize("semantics", ["SKIP TILL ANY", "SKIP TILL NEXT", "CONTIGUOUS"])
@pytest.mark.parametrize("patterns", PATTERNS, ids=" / ".join)
def test_factors_lead_through_rows_as_each_state_by_itself(
    patterns: tuple[str, ...], semantics: str
) -> None:
    try:
        code = code_of(semantics, *patterns)
    except NotSupportedError:
        assert "!" in "".join(patterns)
        assert semantics == "CONTIGUOUS"
        return
    factors = Factors(code, with_matches=True)
    random = Random(str(patterns))
    for _ in range(40):
        words = [
            word_of(random.sample(SYMBOLS, random.choice((1, 1, 1, 2, 3))))
            for _ in range(random.randint(0, 12))
        ]
        expected = lanes_through(code, words)
        of_behind = sums_of(factors.behind, behind(code, factors, words))
        of_before = sums_of(factors.before, before(code, factors, words))
        assert of_behind == {pair: expected.get(pair, 0) for pair in factors.behind.of_pair}
        assert of_before == {pair: expected.get(pair, 0) for pair in factors.before.of_pair}
        assert all(pair in of_behind for pair, n in expected.items() if n and goes(code, pair))


def goes(code: StrategyCode, pair: tuple[int, int]) -> bool:
    """Whether something may become of the runs of a pair."""
    return all(s >= code.n_states or s == EMPTY or (code.step[s] >= 0).any() for s in pair)


@pytest.mark.parametrize("with_matches", [False, True])
@pytest.mark.parametrize("patterns", PATTERNS, ids=" / ".join)
def test_matches_of_all_rows_are_joined_from_those_of_two_parts(
    patterns: tuple[str, ...], with_matches: bool
) -> None:
    code = code_of("SKIP TILL ANY", *patterns)
    factors = Factors(code, with_matches=with_matches)
    random = Random(str(patterns))
    for _ in range(20):
        words = [word_of(random.sample(SYMBOLS, random.choice((1, 1, 2)))) for _ in range(9)]
        cut = random.randint(0, 9)
        older, newer = before(code, factors, words[:cut]), behind(code, factors, words[cut:])
        whole, alone = lanes_through(code, words), lanes_through(code, words[:cut])
        found = Sums()
        for query, front, back in factors.joins().tolist():
            found[query] += older[front] * newer[back]
        for query, (front, back) in enumerate(factors.own().tolist()):
            assert (front >= 0) is with_matches
            found[query] += newer[back]
            expected = whole.get((EMPTY, code.n_states + query), 0)
            ends_before = alone.get((EMPTY, code.n_states + query), 0)
            assert found[query] == expected - ends_before
            if with_matches:
                assert older[front] == ends_before


def test_a_factor_that_queries_have_in_the_middle_is_summed_once() -> None:
    """A-Seq, section 4.2: B C of A B C D and of E B C F, whatever comes before and behind."""
    code = code_of("SKIP TILL ANY", "A B C D", "E B C F")
    cells = Factors(code, with_matches=True).behind.of_pair
    a, e = code.step[EMPTY, [SYMBOLS.index("A"), SYMBOLS.index("E")]].tolist()
    with_b = code.step[[a, e], SYMBOLS.index("B")].tolist()
    with_c = code.step[with_b, SYMBOLS.index("C")].tolist()
    assert with_b[0] != with_b[1]
    assert cells[a, with_b[0]] == cells[e, with_b[1]]
    assert cells[a, with_c[0]] == cells[e, with_c[1]]
    assert cells[with_b[0], with_c[0]] == cells[with_b[1], with_c[1]]
    ends = code.n_states, code.n_states + 1
    assert cells[a, ends[0]] != cells[e, ends[1]]  # D is another symbol than F
    assert cells[EMPTY, with_b[0]] != cells[EMPTY, with_b[1]]


def test_a_sequence_of_one_symbol_has_as_many_factors_as_rows() -> None:
    code = code_of("SKIP TILL ANY", "A{40}")
    factors = Factors(code, with_matches=False)
    n = 39  # states that go on
    # From the empty mapping to each of them and to a match; through 0 to 38 rows; to a match.
    assert len(factors.behind) == (n + 1) + n + n
    assert len(factors.before) == n + n


def test_a_factor_with_a_negation_is_another_one() -> None:
    code = code_of("SKIP TILL ANY", "A B !X C", "D B C")
    cells = Factors(code, with_matches=True).behind.of_pair
    a, d = code.step[EMPTY, [SYMBOLS.index("A"), SYMBOLS.index("D")]].tolist()
    of_a, of_d = code.step[[a, d], SYMBOLS.index("B")].tolist()
    assert cells[a, of_a] != cells[d, of_d]


def test_a_repetition_is_summed_once_wherever_it_stands() -> None:
    code = code_of("SKIP TILL ANY", "A B+ C", "D B+ C")
    cells = Factors(code, with_matches=True).behind.of_pair
    a, d = code.step[EMPTY, [SYMBOLS.index("A"), SYMBOLS.index("D")]].tolist()
    of_a, of_d = code.step[[a, d], SYMBOLS.index("B")].tolist()
    assert of_a != of_d
    assert cells[a, of_a] == cells[d, of_d]
