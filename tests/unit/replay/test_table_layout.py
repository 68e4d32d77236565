"""Tables as lines: numbers whole and at the right, columns left out by name, one row a line."""

from __future__ import annotations

import datetime as dt
import unicodedata
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.cells import cell_len

from replay.console.show import to_grid
from replay.console.table_layout import Grid, expanded, footer, lay_out

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
NUMBERS = st.integers(-(10**17), 10**17).map(str)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    is_number = tuple(draw(st.lists(st.booleans(), min_size=1, max_size=8)))
    row = st.tuples(*(NUMBERS if number else TEXTS for number in is_number))
    head = tuple(f"c{at}" for at in range(len(is_number)))
    return Grid(head, draw(st.lists(row, max_size=4)), is_number)


@given(grid=grids(), width=st.integers(40, 120))
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(grid: Grid, width: int) -> None:
    laid = lay_out(grid, width)
    n_shown = len(grid.head) - len(laid.left_out)

    assert len(laid.lines) == 2 + len(grid.rows)
    assert all(cell_len(line) <= width for line in [*laid.lines, *footer(1, 1, laid, width)])
    assert not any(unicodedata.category(each) == "Cc" for line in laid.lines for each in line)
    assert laid.left_out == grid.head[n_shown:]
    for line, row in zip(laid.lines[2:], grid.rows, strict=True):
        for cell, is_number in list(zip(row, grid.is_number, strict=True))[:n_shown]:
            assert not is_number or cell in line.split()


@given(grids())
def test_a_pipe_has_every_cell_on_the_line_of_its_row(grid: Grid) -> None:
    assume(all(text.isprintable() for row in grid.rows for text in row))
    laid = lay_out(grid, None)

    assert (laid.left_out, laid.n_cut) == ((), 0)
    for line, row in zip(laid.lines[2:], grid.rows, strict=True):
        assert all(cell.strip() in line for cell in row)


def test_numbers_stand_at_the_right_and_texts_at_the_left() -> None:
    grid = Grid(("name", "n"), [("a", "5"), ("beta", "-12345")], (False, True))

    assert lay_out(grid, 80).lines == [
        "name       n",
        "────  ──────",
        "a          5",
        "beta  -12345",
    ]


def test_a_wide_table_says_which_columns_it_leaves_out() -> None:
    head = tuple(f"column_{at}" for at in range(12))
    grid = Grid(head, [tuple(str(10**9 + at) for at in range(12))], (True,) * 12)
    laid = lay_out(grid, 80)

    # 6 columns of 10 and gaps of 2 take 70; a seventh and the mark would take 85.
    assert laid.left_out == head[6:]
    assert laid.lines[2].endswith("1000000005  …")
    assert footer(1, 1, laid, 80)[1] == (
        "… 6 more columns: column_6, column_7, column_8, column_9, … (-x shows them)"
    )
    assert footer(1, 1, laid, 96)[1] == (
        "… 6 more columns: column_6, column_7, column_8, column_9, column_10, column_11 "
        "(-x shows them)"
    )
    assert footer(1, 1, laid, 40)[1] == "… 6 more columns (-x shows them)"


def test_more_rows_than_are_shown_are_counted() -> None:
    assert footer(12_385, 40) == ["… 12,345 more rows (--rows 12385 shows them)"]
    assert footer(1, 1) == ["1 row"]


def test_expanded_has_a_column_a_line() -> None:
    grid = Grid(("t", "name"), [("1", "a\nb"), ("2", "NULL")], (True, False))

    assert expanded(grid) == [
        "─── row 1 ───",
        "t     1",
        "name  a\\nb",
        "─── row 2 ───",
        "t     2",
        "name  NULL",
    ]


@pytest.mark.parametrize(
    ("array", "cells"),
    [
        pytest.param(pa.array([None, ""]), ["NULL", ""], id="null is no empty text"),
        pytest.param(pa.array([1.5, 1e300, float("nan")]), ["1.5", "1e+300", "nan"], id="doubles"),
        pytest.param(pa.array([2**63 - 1]), ["9223372036854775807"], id="int64"),
        pytest.param(pa.array([Decimal("1.50")]), ["1.50"], id="decimal"),
        pytest.param(pa.array([True]), ["true"], id="boolean"),
        pytest.param(
            pa.array([0, 1], pa.timestamp("us", "UTC")),
            ["1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00.000001Z"],
            id="times of a column look alike",
        ),
        pytest.param(
            pa.array([0, 1500, None], pa.timestamp("ms")),
            ["1970-01-01T00:00:00.000", "1970-01-01T00:00:01.500", "NULL"],
            id="no more digits than needed",
        ),
        pytest.param(
            pa.array(["1970-01-01T00:00:00", "1970-01-01T00:00:00.5"]),
            ["1970-01-01T00:00:00", "1970-01-01T00:00:00.5"],
            id="texts stay",
        ),
        pytest.param(pa.array([dt.timedelta(minutes=90)]), ["1:30:00"], id="interval"),
        pytest.param(pa.array([b"\x00\xff"]), ["00ff"], id="bytes"),
    ],
)
def test_cells_are_the_values_of_json_and_null_is_seen(array: pa.Array, cells: list[str]) -> None:
    assert to_grid(pa.table({"c": array})).rows == [(cell,) for cell in cells]


def test_columns_of_texts_that_look_like_numbers_stand_at_the_right() -> None:
    rows = [("a", "1,234", "0.5 MB", "x"), ("2", "", "12 %", "NULL")]

    assert Grid.of_texts(("w", "n", "size", "s"), rows).is_number == (False, True, True, False)


def test_times_in_columns_of_texts_look_alike() -> None:
    rows = [("2024-05-01T09:30:00Z", "1"), ("2024-05-01T09:30:00.250000Z", "2"), ("", "3")]

    assert [row[0] for row in Grid.of_texts(("first", "n"), rows).rows] == [
        "2024-05-01T09:30:00.000Z", "2024-05-01T09:30:00.250Z", "",
    ]  # fmt: skip
