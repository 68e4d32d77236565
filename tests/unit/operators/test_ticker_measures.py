"""The stock ticker of the SQL standard's tutorials: V shapes, with every answer worked out by hand.

Prices of ACME from 1 to 20 April 2011, as Oracle's Data Warehousing Guide prints them; a second
stock stands between its rows, so that neighbours in the partition are none in the stream.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from replay.language.bound import (
    Aggregate,
    Anchor,
    AnchorKind,
    Attribute,
    Call,
    Classifier,
    DataType,
    Expression,
    MatchNumber,
    RowsPerMatch,
)
from tests.oracles.answer import Found
from tests.oracles.view import Mapped
from tests.unit.operators.bound_queries import DOUBLE, INT, lit
from tests.unit.operators.matches_by_hand import answer, measuring

PRICES = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22]
DAYS = [dt.date(2011, 4, day) for day in range(1, 21)]
TABLE = pa.table(
    {
        "symbol": pa.array(["ACME", "GLOBEX"] * 20).dictionary_encode(),
        "day": [day for day in DAYS for _ in range(2)],
        "price": pa.array([p for price in PRICES for p in (price, 7)], pa.int32()),
    }
)
STRT, DOWN, UP = (0,), (1,), (2,)
PRICE = Attribute("price", INT)


def match(first_day: int, symbols: str, number: int) -> Found:
    """Write down a match of STRT DOWN+ UP+ by its first day and a letter per row."""
    letters = {"S": 0, "D": 1, "U": 2}
    rows = [{"symbol": "ACME", "price": price} for price in PRICES]
    start = first_day - 1
    mapping = tuple(Mapped(start + k, letters[letter]) for k, letter in enumerate(symbols))
    return Found(rows, range(0, 40, 2), start, mapping, number)


V_SHAPES = [match(5, "SDUUUU", 1), match(10, "SDDU", 2), match(14, "SDDUU", 3)]
"""The matches of DOWN AS price < PREV(price), UP AS price > PREV(price), SKIP TO LAST UP."""


def last(symbols: tuple[int, ...] | None = None, offset: int = 0, *, final: bool = False) -> Anchor:
    return Anchor(AnchorKind.LAST, symbols, offset, final)


def first(
    symbols: tuple[int, ...] | None = None, offset: int = 0, *, final: bool = False
) -> Anchor:
    return Anchor(AnchorKind.FIRST, symbols, offset, final)


def day(anchor: Anchor) -> Attribute:
    return Attribute("day", DataType.DATE, anchor)


def price(anchor: Anchor, offset: int = 0) -> Attribute:
    return Attribute("price", INT, anchor, offset)


def columns(
    measures: list[Expression],
    *,
    rows: RowsPerMatch = RowsPerMatch.ALL_SHOW_EMPTY,
    found: list[Found] = V_SHAPES,
    plain: tuple[str, ...] = (),
) -> dict[str, list[Any]]:
    bound = measuring(measures, rows=rows, partition_by=("symbol",), columns=plain)
    return answer(bound, TABLE, found).to_pydict()


def test_all_rows_of_the_v_shapes_with_final_last() -> None:
    measures = [
        day(last(STRT)),
        day(last(DOWN, final=True)),
        day(last(UP, final=True)),
        MatchNumber(),
        Classifier(),
    ]
    found = columns(measures, plain=("day", "price"))
    april = {name: [d.day for d in found[name]] for name in ("day", "m0", "m1", "m2")}
    assert found["symbol"] == ["ACME"] * 15
    assert april["day"] == [5, 6, 7, 8, 9, 10, 10, 11, 12, 13, 14, 15, 16, 17, 18]
    assert found["price"] == [25, 12, 15, 20, 24, 25, 25, 19, 15, 25, 25, 14, 12, 14, 24]
    assert april["m0"] == [5] * 6 + [10] * 4 + [14] * 5
    assert april["m1"] == [6] * 6 + [12] * 4 + [16] * 5
    assert april["m2"] == [10] * 6 + [13] * 4 + [18] * 5
    assert found["m3"] == [1] * 6 + [2] * 4 + [3] * 5
    assert "".join(found["m4"]) == "ABCCCC" + "ABBC" + "ABBCC"


def test_counts_running_and_final() -> None:
    tally = [
        Aggregate("count", day(Anchor(AnchorKind.CURRENT)), UP, INT, final=True),
        Aggregate("count", None, None, INT, final=True),
        Aggregate("count", None, None, INT),
        Aggregate("count", None, UP, INT),  # COUNT(UP.*)
        Call("-", (price(last()), price(last(STRT))), INT),
    ]
    found = columns(tally)
    assert found["m0"] == [4] * 6 + [1] * 4 + [2] * 5
    assert found["m1"] == [6] * 6 + [4] * 4 + [5] * 5
    assert found["m2"] == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 1, 2, 3, 4, 5]
    assert found["m3"] == [0, 0, 1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 1, 2]
    assert found["m4"] == [0, -13, -10, -5, -1, 0, 0, -6, -10, 0, 0, -11, -13, -11, -1]


def test_one_row_per_match_sees_the_whole_match() -> None:
    measures = [
        day(first()),
        day(last()),
        Aggregate("count", None, UP, INT),
        Aggregate("avg", PRICE, None, DOUBLE),
        Aggregate("min", PRICE, None, INT),
        Aggregate("sum", PRICE, (1, 2), INT),  # SUBSET of DOWN and UP
        Classifier(),
    ]
    found = columns(measures, rows=RowsPerMatch.ONE)
    assert found["symbol"] == ["ACME"] * 3
    assert [d.day for d in found["m0"]] == [5, 10, 14]
    assert [d.day for d in found["m1"]] == [10, 13, 18]
    assert found["m2"] == [4, 1, 2]
    assert found["m3"] == [121 / 6, 84 / 4, 89 / 5]
    assert found["m4"] == [12, 15, 12]
    assert found["m5"] == [96, 59, 64]
    assert found["m6"] == ["C", "C", "C"]


def test_running_values_before_their_first_row_are_null_and_final_ones_are_not() -> None:
    measures = [
        price(first(UP)),
        price(first(UP, final=True)),
        price(last(UP)),
        price(first(UP, 1)),
        price(last(UP, 1)),
        Aggregate("max", PRICE, UP, INT),
        Aggregate("sum", PRICE, DOWN, INT),
    ]
    found = columns(measures, found=[V_SHAPES[2]])  # prices 25 14 12 14 24
    assert found["m0"] == [None, None, None, 14, 14]
    assert found["m1"] == [14, 14, 14, 14, 14]
    assert found["m2"] == [None, None, None, 14, 24]
    assert found["m3"] == [None, None, None, None, 24]
    assert found["m4"] == [None, None, None, None, 14]
    assert found["m5"] == [None, None, None, 14, 24]
    assert found["m6"] == [None, 14, 26, 26, 26]


def test_prev_and_next_go_on_from_the_row_navigated_to_inside_the_partition() -> None:
    measures = [
        price(last(), -1),  # PREV(price)
        price(first(UP, 1), -2),  # PREV(FIRST(UP.price, 1), 2)
        price(last(UP, final=True), 1),  # NEXT(FINAL LAST(UP.price))
        price(last(), 3),
        price(first(), -14),
    ]
    found = columns(measures, found=[V_SHAPES[2]])  # days 14 to 18; 20 is the partition's last
    assert found["m0"] == [25, 25, 14, 12, 14]
    assert found["m1"] == [None, None, None, None, 12]
    assert found["m2"] == [23] * 5
    assert found["m3"] == [14, 24, 23, 22, None]
    assert found["m4"] == [None] * 5


def test_the_classifier_of_a_neighbour_is_the_symbol_it_has_in_the_whole_match() -> None:
    measures = [
        Classifier(offset=-1),
        Classifier(offset=1),
        Classifier(anchor=last(final=True), offset=-1),
        Classifier(anchor=first(final=True), offset=1),
        Classifier(anchor=last((0, 1))),
        Classifier(anchor=first(UP)),
    ]
    found = columns(measures, found=[V_SHAPES[1]])  # S D D U
    assert found["m0"] == [None, "A", "B", "B"]
    assert found["m1"] == ["B", "B", "C", None]
    assert found["m2"] == ["B"] * 4
    assert found["m3"] == ["B"] * 4
    assert found["m4"] == ["A", "B", "B", "B"]
    assert found["m5"] == [None, None, None, "C"]


def test_an_aggregate_of_an_expression_reads_neighbours_and_the_symbol_of_each_row() -> None:
    step = Call(
        "-", (price(Anchor(AnchorKind.CURRENT)), price(Anchor(AnchorKind.CURRENT), -1)), INT
    )
    is_up = Call("=", (Classifier(anchor=Anchor(AnchorKind.CURRENT)), lit("C")), DataType.BOOLEAN)
    gain = Call("case", (is_up, step, lit(0)), INT)
    measures = [
        Aggregate("sum", step, None, INT),
        Aggregate("sum", gain, None, INT),
        Aggregate("max", Classifier(anchor=Anchor(AnchorKind.CURRENT)), None, DataType.STRING),
    ]
    found = columns(measures, found=[V_SHAPES[2]])  # 25 | 25 14 12 14 24
    assert found["m0"] == [0, -11, -13, -11, -1]
    assert found["m1"] == [0, 0, 0, 2, 12]
    assert found["m2"] == ["A", "B", "B", "C", "C"]
