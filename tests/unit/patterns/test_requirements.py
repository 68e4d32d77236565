"""Rewritten patterns: every word of the pattern fits the positions and gaps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.key_range import KeyRange, KeyRanges
from replay.language.bound import (
    Alternate,
    Anchor,
    AnchorKind,
    Attribute,
    Concat,
    DataType,
    Edge,
    EdgeKind,
    Exclusion,
    Literal,
    Negation,
    Repeat,
    Semantics,
    SlidingWindows,
    Symbol,
    TimeWindows,
)
from replay.language.fold import comparison
from replay.patterns.requirements import POSITIONS_MAX, requirements
from replay.patterns.symbol_ranges import symbol_ranges, usable_deltas
from replay.planning.requirements import Requirements
from tests.oracles.intervals import matches, words
from tests.unit.planning.streams import (
    SmallStatistics,
    compare,
    conditions,
    is_in,
    last_of,
    patterns,
    query_of,
    rows,
    seq,
    star,
)

A, B, C, D = (Symbol(i) for i in range(4))
DEFINES = [compare("=", "a", i) for i in range(4)]


SKIP_TILL = (Semantics.SKIP_TILL_NEXT, Semantics.SKIP_TILL_ANY)


def shape_of(pattern, *, partition_by=(), semantics=Semantics.SQL) -> Requirements:
    return requirements(query_of(pattern, DEFINES, partition_by=partition_by, semantics=semantics))


@pytest.mark.parametrize(
    ("pattern", "expected", "rows_min", "rows_max"),
    [
        pytest.param(seq(A, B, star(C), D), "A B … D", 3, None, id="thesis-example"),
        pytest.param(
            seq(A, Repeat(seq(B, Repeat(C, 1, None)), 1, None), D),
            "A B C … D",
            4,
            None,
            id="thesis-(A,(B,C+)+,D)",
        ),
        pytest.param(seq(A, Repeat(B, 0, 1), C), "A … C", 2, 3, id="optional-is-a-gap"),
        pytest.param(seq(A, Repeat(B, 2, 2), C), "A B B C", 4, 4, id="exact-count-has-no-gap"),
        pytest.param(seq(A, Repeat(B, 1, 3), C), "A B … C", 3, 5, id="count-range-has-a-gap"),
        pytest.param(
            seq(Repeat(A, 0, 1), B), "… B", 1, 2, id="optional-at-the-start-is-a-leading-gap"
        ),
        pytest.param(seq(A, star(B)), "A …", 1, None, id="kleene-at-the-end-is-a-trailing-gap"),
        pytest.param(seq(A, Repeat(B, 0, 0), C), "A C", 2, 2, id="none-at-all-is-nothing"),
        pytest.param(seq(A, star(seq()), C), "A C", 2, 2, id="repeated-empty-part-is-nothing"),
        pytest.param(star(A), "…", 0, None, id="only-optional"),
        pytest.param(seq(), "", 0, 0, id="empty-pattern"),
        pytest.param(Alternate((A, B)), "A|B", 1, 1, id="alternation-of-symbols"),
        pytest.param(
            Alternate((seq(A, B), seq(C, B))),
            "A|C B",
            2,
            2,
            id="alternation-of-one-length-keeps-distances",
        ),
        pytest.param(
            seq(D, Alternate((seq(A, B, C), seq(B, C, A, D))), D),
            "D A|B B|C C|A … D",
            5,
            6,
            id="alternation-of-several-lengths-has-gaps",
        ),
        pytest.param(seq(A, Alternate((B, seq())), C), "A … C", 2, 3, id="empty-branch"),
        pytest.param(
            Alternate((star(A), seq(B, star(C)))), "…", 0, None, id="branch-without-position"
        ),
    ],
)
def test_rewritten_pattern(pattern, expected, rows_min, rows_max):
    shape = shape_of(pattern)
    assert str(shape) == expected
    assert (shape.rows_min, shape.rows_max) == (rows_min, rows_max)


def test_long_repetition_is_cut_with_a_gap_and_keeps_its_length():
    shape = shape_of(seq(Repeat(A, 1000, 1000), B))
    assert shape.rows_min == shape.rows_max == 1001
    assert len(shape.positions) == POSITIONS_MAX
    assert shape.trailing_gap


def test_nested_repetitions_do_not_explode():
    pattern = A
    for _ in range(40):
        pattern = Repeat(seq(pattern, B), 9, 9)
    shape = shape_of(pattern)
    assert len(shape.positions) <= POSITIONS_MAX
    assert shape.rows_min > 10**18


def test_alternatives_unite_their_ranges():
    (position,) = shape_of(Alternate((A, C))).positions
    assert str(position.ranges["a"]) == "= 0 or = 2"


def test_alternatives_have_as_many_rows_in_common_as_they_can():
    # A stands in both, and so does B; but only behind B there is a row in both.
    defines = [compare("=", "a", 1), compare("=", "b", 1), None]
    shape = requirements(query_of(Alternate((seq(B, A), seq(A, B, C, C))), defines))
    assert str(shape) == "… B A|C …"
    assert (shape.rows_min, shape.rows_max) == (2, 4)


@pytest.mark.parametrize(
    ("windows", "offset", "why"),
    [
        (TimeWindows(10, 5), 0, None),
        (TimeWindows(10, 5), -1, "PREV, NEXT"),
        (SlidingWindows(10), 0, None),
        (SlidingWindows(10), -1, "PREV, NEXT"),
    ],
)
def test_windows_are_replayed_in_full_where_matches_do_not_tell_their_rows(windows, offset, why):
    beside = Attribute("a", DataType.INTEGER, offset=offset)
    query = query_of(seq(A, B), [DEFINES[0], comparison("=", beside, Literal(1, DataType.INTEGER))])
    found = requirements(replace(query, windows=windows)).only_full
    assert found is None if why is None else why in str(found)


def test_sliding_windows_need_rows_as_long_behind_the_first_as_they_last():
    query = replace(query_of(seq(A, B), DEFINES, within=3), windows=SlidingWindows(10))
    shape = requirements(query)
    assert (str(shape), shape.within, shape.row_window) == ("A … B …", 9, None)


def test_rows_that_follow_each_other_in_a_window_need_all_between_them_in_time():
    query = query_of(seq(A, B), DEFINES, within=3)
    shape = requirements(query)
    assert (str(shape), shape.within, shape.row_window) == ("A B", 3, 2)
    hopping = requirements(replace(query, windows=TimeWindows(10, 5)))
    assert (str(hopping), hopping.within, hopping.row_window) == ("A … B", 3, None)


def test_branch_that_cannot_match_is_left_out():
    never = Literal(False, DataType.BOOLEAN)
    shape = requirements(query_of(seq(A, Alternate((B, seq(C, C)))), [*DEFINES[:2], never]))
    assert str(shape) == "A B"


def test_symbol_that_cannot_match_makes_the_pattern_impossible():
    never = Literal(False, DataType.BOOLEAN)
    assert requirements(query_of(seq(A, B), [DEFINES[0], never])).is_impossible
    assert not requirements(query_of(seq(A, star(B)), [DEFINES[0], never])).is_impossible


def test_partitions_make_every_position_a_block_of_its_own():
    shape = shape_of(seq(A, B, C), partition_by=("k",))
    assert str(shape) == "A … B … C"
    assert shape.blocks == ((0, 1), (1, 2), (2, 3))
    assert shape.row_window is None


@pytest.mark.parametrize("semantics", SKIP_TILL)
def test_skip_till_leaves_room_between_any_two_positions_but_not_around_them(semantics):
    shape = shape_of(seq(A, B, C), semantics=semantics)
    assert str(shape) == "A … B … C"
    assert shape.row_window is None
    assert not shape.leading_gap
    assert not shape.trailing_gap


def test_contiguous_keeps_distances_and_the_window_in_rows():
    shape = shape_of(seq(A, B, C), semantics=Semantics.CONTIGUOUS)
    assert str(shape) == "A B C"
    assert shape.row_window == 3


@pytest.mark.parametrize("semantics", SKIP_TILL)
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        pytest.param(seq(A, Negation(3), B), "A … B", id="between"),
        pytest.param(seq(A, B, Negation(3)), "A … B …", id="at-the-end"),
        pytest.param(seq(Negation(3), A, B), "… A … B", id="at-the-start"),
        pytest.param(seq(A, Alternate((B, seq(C, Negation(3))))), "A … B|C …", id="in-a-branch"),
    ],
)
def test_negation_is_a_gap_where_its_rows_lie(pattern, expected, semantics):
    assert str(shape_of(pattern, semantics=semantics)) == expected


def test_contiguous_match_with_a_negation_at_its_end_has_no_window_in_rows():
    shape = shape_of(seq(A, B, Negation(3)), semantics=Semantics.CONTIGUOUS)
    assert str(shape) == "A B …"
    assert shape.row_window is None


def test_negation_of_sql_looks_at_rows_of_the_match_alone():
    assert str(shape_of(seq(A, star(C), Negation(3), B))) == "A … B"
    assert shape_of(seq(A, Repeat(C, 0, 2), Negation(3), B)).row_window == 4


def test_exclusions_and_edges_change_nothing():
    pattern = seq(Edge(EdgeKind.START), A, Exclusion(seq(B, star(C))), D, Edge(EdgeKind.END))
    assert str(shape_of(pattern)) == "A B … D"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        pytest.param(seq(A, star(B), C), [None, "B: = 1"], id="one-symbol"),
        pytest.param(
            seq(A, Repeat(B, 1, None), C), [None, None, "B: = 1"], id="symbol-and-more-of-it"
        ),
        pytest.param(seq(A, Repeat(B, 0, 1), C), [None, "B: = 1"], id="optional"),
        pytest.param(seq(A, star(B), star(D), C), [None, "B|D: = 1 or = 3"], id="gaps-in-a-row"),
        pytest.param(seq(A, star(seq(B, D)), C), [None, "B|D: = 1 or = 3"], id="group"),
        pytest.param(
            seq(A, star(Alternate((B, seq(D, star(C))))), A),
            [None, "B|D|C: = 1 or = 2 or = 3"],
            id="whatever-a-group-has-inside",
        ),
        pytest.param(
            # Aligned from the left: B with B, C with D, and a C of the longer branch is left.
            seq(A, Alternate((seq(B, C), seq(B, D, C))), A),
            [None, None, None, "C: = 2"],
            id="what-one-branch-has-besides",
        ),
        pytest.param(seq(A, B), [None, None], id="no-gap"),
        pytest.param(seq(star(B), A, star(B)), [None], id="not-at-the-ends"),
        pytest.param(Repeat(A, 70, 70), [None] * POSITIONS_MAX, id="cut-short"),
    ],
)
def test_gaps_know_what_fills_them(pattern, expected):
    fills = shape_of(pattern).fill_before
    assert [f and f"{f.symbol}: {f.ranges['a']}" for f in fills] == expected


def test_gap_with_a_symbol_that_bounds_nothing_may_hold_anything():
    shape = requirements(query_of(seq(A, star(Alternate((B, D))), C), [*DEFINES[:3], None]))
    assert shape.fill_before == (None, None)


def test_negation_of_contiguous_may_look_at_any_row_of_a_gap():
    shape = shape_of(seq(A, Negation(3), star(B), C), semantics=Semantics.CONTIGUOUS)
    assert shape.fill_before == (None, None)
    shape = shape_of(seq(A, star(B), C), semantics=Semantics.CONTIGUOUS)
    assert [f and f.symbol for f in shape.fill_before] == [None, "B"]


@pytest.mark.parametrize("semantics", SKIP_TILL)
def test_rows_that_are_skipped_may_be_anything(semantics):
    assert shape_of(seq(A, star(B), C), semantics=semantics).fill_before == (None, None)
    assert shape_of(seq(A, star(B), C), partition_by=("k",)).fill_before == (None, None)


def test_rows_of_a_match_agree_on_the_partition():
    assert shape_of(seq(A, B), partition_by=("k", "b")).agreeing == ("k", "b")
    assert shape_of(seq(A, B)).agreeing == ()


def fits(shape: Requirements, word: tuple[int, ...]) -> bool:
    """Return whether the word's rows can be laid on positions and gaps."""
    names = [str("ABCD"[symbol]) for symbol in word]

    def from_position(position: int, row: int) -> bool:
        if position == len(shape.positions):
            return row == len(word) or shape.trailing_gap
        rows = range(row, len(word)) if shape.gap_before[position] else range(row, row + 1)
        fill = shape.fill_before[position]
        filling = None if fill is None else fill.symbol.split("|")
        return any(
            r < len(word)
            and (filling is None or all(name in filling for name in names[row:r]))
            and names[r] in shape.positions[position].symbol.split("|")
            and from_position(position + 1, r + 1)
            for r in rows
        )

    return from_position(0, 0)


@given(patterns(4, depth=3), st.booleans())
def test_every_word_of_the_pattern_fits_its_shape(pattern, partitioned):
    shape = shape_of(pattern, partition_by=("k",) if partitioned else ())
    for word in words(pattern, 5):
        assert fits(shape, word)
        assert shape.rows_min <= len(word)
        assert shape.rows_max is None or len(word) <= shape.rows_max


@given(patterns(4, depth=3))
def test_shape_is_well_formed(pattern):
    shape = shape_of(pattern)
    assert len(shape.gap_before) == len(shape.positions)
    assert len(shape.positions) <= max(shape.rows_min, 0)
    covered = [p for block in shape.blocks for p in range(*block)]
    assert covered == list(range(len(shape.positions)))
    assert isinstance(pattern, Concat | Alternate | Repeat | Symbol)


X = Attribute("x", DataType.DOUBLE)
ABOVE_A = compare(">", X, last_of(0, "x", DataType.DOUBLE))
RISE = {"delta(x)": KeyRanges((KeyRange(0.0, None, False),))}
ROWS = [{"t": i, "k": 0, "x": float(x)} for i, x in enumerate([3, -7, 2])]

STATISTICS = SmallStatistics(ROWS, 2, derived=("delta(x)",))
BY_OBJECT = SmallStatistics(ROWS, 2, derived=("delta(x)",), key="k")


def ranges_of_b(pattern, condition=ABOVE_A, *, statistics=STATISTICS, **keywords) -> object:
    query = query_of(pattern, [None, condition, None], **keywords)
    found = symbol_ranges(query, deltas=usable_deltas(query, statistics))
    return found[1]


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(seq(A, B), id="directly-before"),
        pytest.param(seq(C, A, B, C), id="inside"),
        pytest.param(seq(A, C, A, B), id="the-later-of-two"),
        pytest.param(seq(Repeat(A, 1, None), B), id="last-of-several"),
        pytest.param(seq(Exclusion(A), B), id="left-out-of-the-answer"),
    ],
)
def test_a_symbol_that_stands_directly_before_is_the_event_before(pattern):
    assert ranges_of_b(pattern) == RISE


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(seq(A, C, B), id="another-between"),
        pytest.param(seq(A, star(C), B), id="others-between"),
        pytest.param(seq(star(A), B), id="none-perhaps"),
        pytest.param(seq(Exclusion(star(A)), B), id="none-perhaps-left-out"),
        pytest.param(seq(A, Repeat(B, 1, 2)), id="several-after-it"),
        pytest.param(seq(A, B, B), id="twice-after-it"),
        pytest.param(seq(A, B, C, B), id="and-after-another"),
        pytest.param(seq(B, A), id="behind"),
        pytest.param(Alternate((seq(A, B), seq(C, B))), id="in-a-branch"),
        pytest.param(seq(A, Negation(2), B), id="negation-between"),
        pytest.param(B, id="alone"),
    ],
)
def test_a_symbol_that_need_not_be_the_event_before_gives_no_range(pattern):
    assert ranges_of_b(pattern) == {}


def test_neighbours_in_the_match_are_neighbours_in_the_stream_unless_rows_are_skipped():
    assert ranges_of_b(seq(A, B), semantics=Semantics.CONTIGUOUS) == RISE
    assert ranges_of_b(seq(A, B), semantics=Semantics.SKIP_TILL_NEXT) == {}


def test_neighbours_in_a_partition_are_those_whose_difference_is_told_by_object():
    assert ranges_of_b(seq(A, B), partition_by=("k",), statistics=BY_OBJECT) == RISE
    assert ranges_of_b(seq(A, B), partition_by=("k",)) == {}
    assert ranges_of_b(seq(A, B), statistics=BY_OBJECT) == {}


@pytest.mark.parametrize(
    "other",
    [
        Attribute("x", DataType.DOUBLE, Anchor(AnchorKind.FIRST, (0,))),
        Attribute("x", DataType.DOUBLE, Anchor(AnchorKind.LAST, (0,), offset=1)),
        Attribute("x", DataType.DOUBLE, Anchor(AnchorKind.LAST, (0, 2))),
        Attribute("x", DataType.DOUBLE, Anchor(AnchorKind.LAST, (0,)), offset=-1),
        last_of(2, "x", DataType.DOUBLE),
    ],
)
def test_only_the_last_row_of_the_symbol_before_is_the_event_before(other):
    assert ranges_of_b(seq(Repeat(A, 1, None), B), compare(">", X, other)) == {}


def test_the_range_of_a_symbol_before_is_still_carried_over():
    query = query_of(
        seq(A, B),
        [
            compare("=", X, Literal(5.0, DataType.DOUBLE)),
            compare("=", X, last_of(0, "x", DataType.DOUBLE)),
        ],
    )
    found = symbol_ranges(query, deltas=usable_deltas(query, STATISTICS))
    assert found[1]["x"] == KeyRanges.of([KeyRange(5.0, 5.0)])
    assert is_in(found[1]["delta(x)"], 0.0)


@given(
    patterns(3),
    st.lists(st.none() | conditions(3), min_size=3, max_size=3),
    rows(),
    st.sampled_from((Semantics.SQL, Semantics.CONTIGUOUS)),
    st.sampled_from(((), ("k",))),
)
def test_every_row_of_a_match_lies_in_the_ranges_of_its_symbol(
    pattern, defines, stream, semantics, partition
):
    query = query_of(pattern, defines, semantics=semantics, partition_by=partition)
    found = symbol_ranges(query, deltas={"a": 5, "b": 5})
    for word, at in matches(query, stream, length_max=4):
        for symbol, i in zip(word, at, strict=True):
            ranges = found[symbol]
            assert ranges is not None
            for name, allowed in ranges.items():
                column = name.removeprefix("delta(").removesuffix(")")
                value = stream[i][column]
                if name != column:
                    of_object = [
                        row for row in stream[:i] if not partition or row["k"] == stream[i]["k"]
                    ]
                    before = of_object[-1][column] if of_object else None
                    assert value is not None
                    assert before is not None
                    value -= before
                assert is_in(allowed, value)
