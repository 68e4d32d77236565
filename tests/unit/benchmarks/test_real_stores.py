"""Real streams as stores: copies one after the other, one store for each size."""

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.real_stores import (
    AIRCRAFT,
    CRIME_PERIOD,
    aircraft_source,
    crimes_source,
    real_store,
    repeated,
)
from datasets import crimes


def small_table() -> pa.Table:
    clock = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 3)]
    return pa.table({"ts": pa.array(clock, pa.timestamp("ms")), "x": [1, 2]})


def test_copies_follow_each_other_at_the_period():
    batches = list(repeated(small_table(), 3, dt.timedelta(days=7)))
    table = pa.Table.from_batches(batches)
    assert table["x"].to_pylist() == [1, 2] * 3
    assert [t.day for t in table["ts"].to_pylist()] == [1, 3, 8, 10, 15, 17]


def test_copies_that_would_overlap_are_refused():
    with pytest.raises(ValueError, match="overlap"):
        list(repeated(small_table(), 2, dt.timedelta(days=1)))


def test_copies_of_the_crimes_keep_weekday_and_time_of_day_and_do_not_overlap():
    assert CRIME_PERIOD % dt.timedelta(weeks=1) == dt.timedelta(0)
    clock = crimes.to_usable(crimes.load())[crimes.TIME]
    ends = pc.min_max(clock).as_py()
    assert ends["max"] - ends["min"] < CRIME_PERIOD


def test_a_store_is_written_once_and_asked_again(tmp_path, capsys):
    source = crimes_source(times=2, n_events=3_000)
    first = real_store(tmp_path, source)
    second = real_store(tmp_path, source)
    assert capsys.readouterr().out.count("wrote 6,000 events") == 1
    assert first.path == second.path
    assert second.stream("crimes").snapshot().n_events == 6_000


def test_a_store_whose_size_is_not_what_was_asked_for_is_refused(tmp_path, data):
    real_store(tmp_path, aircraft_source(data, n_events=100))
    (tmp_path / f"store-{AIRCRAFT}-x1-100").rename(tmp_path / f"store-{AIRCRAFT}-x1-99")
    with pytest.raises(SystemExit, match="holds 100 events and not 99"):
        real_store(tmp_path, aircraft_source(data, n_events=99))
