"""The generator of thesis queries: shapes, ranges, seeds and the text it writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.thesis_queries import (
    PAST_LAST_ROW,
    BasicSymbol,
    ThesisQuery,
    draw_queries,
)

EXAMPLE = ThesisQuery(
    symbols=(
        BasicSymbol("A5", 0.1, 0.15),
        BasicSymbol("A1", 0.0, 0.1),
        BasicSymbol("A5", 0.5, 0.5),
    ),
    kleene_after=frozenset({2}),
)


def test_text_of_a_query():
    assert EXAMPLE.to_sql("synthetic") == (
        "SELECT * FROM synthetic MATCH_RECOGNIZE (\n"
        "  ORDER BY t\n"
        "  MEASURES FIRST(S1.t) AS first_t, S3.t AS last_t\n"
        "  ONE ROW PER MATCH\n"
        "  AFTER MATCH SKIP TO NEXT ROW\n"
        "  PATTERN (S1 S2 Z* S3) WITHIN 300\n"
        "  DEFINE\n"
        "    S1 AS S1.A5 >= 0.100000 AND S1.A5 < 0.150000,\n"
        "    S2 AS S2.A1 >= 0.000000 AND S2.A1 < 0.100000,\n"
        "    S3 AS S3.A5 >= 0.500000 AND S3.A5 < 0.500000\n"
        ")"
    )


def test_text_takes_stream_window_and_skip():
    words = EXAMPLE.to_sql("other", window=7, skip=PAST_LAST_ROW)
    assert "FROM other " in words
    assert "WITHIN 7\n" in words
    assert "SKIP PAST LAST ROW\n" in words
    assert "WITHIN" not in EXAMPLE.to_sql("other", window=None)


@given(
    n_symbols=st.integers(1, 32),
    seed=st.integers(0, 2**32),
    attributes=st.sampled_from([("A5",), ("A1", "A4"), ("A1", "A2", "A3", "A4", "A5")]),
)
def test_queries_are_as_the_thesis_describes(n_symbols, seed, attributes):
    for query in draw_queries(3, n_symbols, attributes=attributes, seed=seed):
        assert len(query.symbols) == n_symbols
        assert all(1 <= x < n_symbols for x in query.kleene_after)
        # The recursion ends only when {x + 1, ..., m - 1} is empty: the last gap is always open.
        assert n_symbols == 1 or n_symbols - 1 in query.kleene_after
        for symbol in query.symbols:
            assert symbol.attribute in attributes
            assert 0 <= symbol.low <= symbol.high <= 1
            assert symbol.high - symbol.low <= 0.1 + 1e-6


def test_same_seed_gives_the_same_queries_however_many_follow():
    assert draw_queries(100, 8)[:5] == draw_queries(5, 8)
    assert draw_queries(5, 8, seed=1) != draw_queries(5, 8, seed=2)


def test_range_widths_average_half_of_the_widest():
    widths = [s.high - s.low for query in draw_queries(500, 8) for s in query.symbols]
    assert sum(widths) / len(widths) == pytest.approx(0.05, rel=0.05)


def test_number_of_kleene_symbols_averages_the_harmonic_number():
    # k(m) = 1 + mean of k(0..m-2) over the rest of the index set gives H(m - 1); for m = 8, 2.593.
    counts = [len(query.kleene_after) for query in draw_queries(2000, 8)]
    assert sum(counts) / len(counts) == pytest.approx(sum(1 / k for k in range(1, 8)), rel=0.05)


@pytest.mark.parametrize(
    ("n_symbols", "attributes"), [(0, ("A5",)), (2, ("A6",)), (2, ())], ids=["m", "name", "none"]
)
def test_impossible_queries_are_refused(n_symbols, attributes):
    with pytest.raises(ValueError, match=r"at least one symbol|must be some of"):
        draw_queries(1, n_symbols, attributes=attributes)
