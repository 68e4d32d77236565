"""Local times that clocks of a zone show twice, or never; the oracle is Python's zoneinfo."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SourceError
from chronicle.ingest.local import FileEvents, read_files
from chronicle.ingest.local_times import infer_folds, order_folds, to_instants
from chronicle.ingest.read_options import ReadOptions
from chronicle.ingest.times import Fault

EPOCH = datetime(1970, 1, 1)
US = timedelta(microseconds=1)
ZONES = ("Europe/Berlin", "America/Chicago", "Australia/Lord_Howe", "Africa/El_Aaiun", "UTC")
BERLIN = ZoneInfo("Europe/Berlin")
BACK = datetime(2025, 10, 26, 0, tzinfo=UTC)
"""Clocks of Berlin are about to show 02:00 to 03:00, twice."""

TWICE, NEVER = (fault.reason("t") for fault in (Fault.TWICE, Fault.NEVER))


def instants(local: datetime, zone: ZoneInfo) -> list[datetime]:
    """Return the instants at which clocks show a local time."""
    found = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(one for one in found if one.astimezone(zone).replace(tzinfo=None) == local)


def near_changes() -> st.SearchStrategy[datetime]:
    """Return local times, most of them in the weeks in which some zone changes its clocks."""
    days = st.sampled_from(
        [datetime(2025, 3, 30), datetime(2025, 10, 26), datetime(2025, 11, 2),
         datetime(2025, 3, 9), datetime(2025, 4, 6), datetime(2025, 10, 5), datetime(1916, 4, 30)]
    )  # fmt: skip
    hours = st.timedeltas(timedelta(hours=-2), timedelta(hours=5))
    anywhere = st.datetimes(datetime(1850, 1, 1), datetime(2199, 1, 1))
    return st.builds(lambda day, more: day + more, days, hours) | anywhere


@given(st.lists(near_changes(), min_size=1), st.sampled_from(ZONES))
def test_a_local_time_has_the_instants_of_zoneinfo(times: list[datetime], name: str) -> None:
    zone = ZoneInfo(name)
    found = to_instants(np.array([(time - EPOCH) // US for time in times], np.int64), zone)
    for row, time in enumerate(times):
        expected = [(one.replace(tzinfo=None) - EPOCH) // US for one in instants(time, zone)]
        assert (found.is_twice[row], found.is_never[row]) == (len(expected) == 2, not expected)
        if expected:
            assert [found.first[row], found.second[row]] == [expected[0], expected[-1]]


# ---------------------------------------------------------------------------------------------
# In files.


def read(path: Path, **given: Any) -> FileEvents:
    options = ReadOptions(**{"time_zone": "Europe/Berlin", **given})
    return read_files([path], options, time="t", schema=None)


def write(path: Path, times: list[str]) -> Path:
    if path.suffix == ".csv":
        path.write_text("t,v\n" + "".join(f"{time},{v}\n" for v, time in enumerate(times)))
    elif path.suffix == ".jsonl":
        path.write_text(
            "".join(json.dumps({"t": time, "v": v}) + "\n" for v, time in enumerate(times))
        )
    else:
        naive = pa.array([datetime.fromisoformat(time) for time in times], pa.timestamp("us"))
        table = pa.table({"t": naive, "v": range(len(times))})
        if path.suffix == ".parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
    return path


def taken(found: FileEvents) -> list[tuple[str, int]]:
    times = found.events.column("t").to_pylist()
    return [
        (f"{time:%H:%M}", v)
        for time, v in zip(times, found.events.column("v").to_pylist(), strict=True)
    ]


def aside(found: FileEvents) -> dict[str, int]:
    return dict(Counter(found.put_aside.column("reason").to_pylist()))


PASSES = [f"2025-10-26 0{hour}" for hour in ("1:59", "2:00", "2:30", "2:00", "2:30", "3:00")]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize(
    ("ambiguous", "hours"),
    [
        (None, {0: "23:59", 5: "02:00"}),
        ("earlier", {0: "23:59", 1: "00:00", 2: "00:30", 3: "00:00", 4: "00:30", 5: "02:00"}),
        ("later", {0: "23:59", 1: "01:00", 2: "01:30", 3: "01:00", 4: "01:30", 5: "02:00"}),
        ("infer", {0: "23:59", 1: "00:00", 2: "00:30", 3: "01:00", 4: "01:30", 5: "02:00"}),
    ],
)
def test_what_clocks_show_twice_is_put_aside_or_taken_as_asked(
    tmp_path: Path, ending: str, ambiguous: Any, hours: dict[int, str]
) -> None:
    found = read(write(tmp_path / f"d.{ending}", PASSES), ambiguous=ambiguous)
    assert taken(found) == [(hour, v) for v, hour in hours.items()]
    assert aside(found) == ({TWICE: 4} if ambiguous is None else {})
    told = [note for note in found.notes if note.startswith("4 times that clocks show twice")]
    assert len(told) == (ambiguous is not None)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("ambiguous", [None, "earlier", "later", "infer"])
def test_what_clocks_skip_is_put_aside_whatever_is_asked(
    tmp_path: Path, ending: str, ambiguous: Any
) -> None:
    times = ["2026-03-29 01:59:59", "2026-03-29 02:00", "2026-03-29 02:59:59", "2026-03-29 03:00"]
    found = read(write(tmp_path / f"d.{ending}", times), ambiguous=ambiguous)
    assert taken(found) == [("00:59", 0), ("01:00", 3)]
    assert aside(found) == {NEVER: 2}


@pytest.mark.parametrize(
    ("given", "time"),
    [
        ({}, "{:%Y-%m-%d %H:%M}"),
        ({"time_format": "dd.MM.yyyy HH:mm"}, "{:%d.%m.%Y %H:%M}"),
        ({"time_format": "%d.%m.%Y %H:%M %Z", "time_zone": None}, "{:%d.%m.%Y %H:%M} {}"),
        ({"time_zone": None}, "{:%Y-%m-%d %H:%M:%S} {}"),
    ],
)
def test_zones_named_in_texts_have_odd_hours_too(
    tmp_path: Path, given: dict[str, Any], time: str
) -> None:
    hours = [datetime(2025, 10, 26, 1), datetime(2025, 10, 26, 2), datetime(2026, 3, 29, 2)]
    times = [time.format(hour, "Europe/Berlin") for hour in hours]
    path = write(tmp_path / "d.csv", times)
    assert aside(read(path, **given)) == {TWICE: 1, NEVER: 1}
    assert taken(read(path, ambiguous="later", **given)) == [("23:00", 0), ("01:00", 1)]


def test_an_offset_says_which_instant_is_meant(tmp_path: Path) -> None:
    times = ["2025-10-26 01:59", "2025-10-26T02:30+02:00", "2025-10-26T02:30+01:00"]
    found = read(write(tmp_path / "d.csv", times))
    assert taken(found) == [("23:59", 0), ("00:30", 1), ("01:30", 2)]


def test_ambiguous_is_refused_where_no_clock_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", ["2025-10-26 02:30"])
    with pytest.raises(SourceError, match=r"no way 'both'.*earlier, later, infer"):
        read(path, ambiguous="both")
    with pytest.raises(SourceError, match="give --time-zone, or leave it out"):
        read(path, ambiguous="later", time_zone=None, time_format="yyyy-MM-dd HH:mm")
    path = write(tmp_path / "n.csv", ["1"])
    with pytest.raises(SourceError, match="give --time-zone, or leave it out"):
        read(path, ambiguous="later", time_zone=None, time_unit="s")


# ---------------------------------------------------------------------------------------------
# By the order of the file.


@pytest.mark.parametrize(
    ("minutes", "folds"),
    [
        ([0, 30, 0, 30], [0, 0, 1, 1]),
        ([30, 45, 5], [0, 0, 1]),
        ([5, 5, 6, 6, 5, 5], [0, 0, 0, 0, 1, 1]),
        ([0, 0], [-1, -1]),
        ([0], [-1]),
        ([0, 30], [-1, -1]),
        ([0, 0, 0], [-1, -1, -1]),
        ([0, 30, 0, 30, 0], [-1] * 5),
    ],
)
def test_clocks_that_go_back_once_tell_the_two_hours_apart(
    minutes: list[int], folds: list[int]
) -> None:
    assert order_folds(np.array(minutes, np.int64), -7, 61).tolist() == folds


def test_two_equal_times_are_both_hours_where_steps_are_equal() -> None:
    assert order_folds(np.array([0, 0]), -60, 60).tolist() == [0, 1]
    for before, after in ((-60, 61), (None, 60), (-60, None)):
        assert order_folds(np.array([0, 0]), before, after).tolist() == [-1, -1]


@given(
    st.lists(st.integers(-90, 240), min_size=1, max_size=30).map(sorted),
    st.lists(st.integers(1, 7), min_size=30, max_size=30),
)
def test_the_order_of_a_file_falsifies_no_time_and_tells_those_of_both_hours(
    minutes: list[int], sizes: list[int]
) -> None:
    times = [BACK + timedelta(minutes=minute) for minute in minutes]
    local = np.array([_shown(time) for time in times], np.int64)
    cuts = np.cumsum(sizes)
    batches = [batch for batch in np.split(local, cuts[cuts < len(local)]) if len(batch)]

    def look(batch: Any) -> Any:
        return batch, np.full(len(batch), True), to_instants(batch, BERLIN).is_twice

    pairs = list(infer_folds(batches, look))
    assert [batch.tolist() for batch, _ in pairs] == [batch.tolist() for batch in batches]
    folds = np.concatenate([found for _, found in pairs])
    shown = local[to_instants(local, BERLIN).is_twice]
    goes_back = bool((np.diff(shown) < 0).any())
    for time, at, fold in zip(times, local.tolist(), folds.tolist(), strict=True):
        if 0 <= (time - BACK) // timedelta(minutes=1) < 120:
            assert goes_back or fold < 0 or len(shown) == 2
            if goes_back:
                assert instants(EPOCH + at * US, BERLIN)[fold] == time


def _shown(time: datetime) -> int:
    return (time.astimezone(BERLIN).replace(tzinfo=None) - EPOCH) // US


def test_a_record_for_each_hour_is_put_in_order(tmp_path: Path) -> None:
    times = [f"2025-10-26 0{hour}:00" for hour in (1, 2, 2, 3)]
    found = read(write(tmp_path / "d.csv", times), ambiguous="infer")
    assert taken(found) == [("23:00", 0), ("00:00", 1), ("01:00", 2), ("02:00", 3)]


def test_hours_of_several_years_are_told_apart_on_their_own(tmp_path: Path) -> None:
    times = [f"{day} 02:{minute}" for day in ("2024-10-27", "2025-10-26") for minute in (20, 10)]
    found = read(write(tmp_path / "d.csv", [*times, "2026-10-25 02:30"]), ambiguous="infer")
    assert taken(found) == [("00:20", 0), ("01:10", 1), ("00:20", 2), ("01:10", 3)]
    assert aside(found) == {TWICE: 1}
