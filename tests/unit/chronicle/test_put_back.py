"""Rows of the quarantine put back as events: each once, whatever is killed or races."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chronicle.ingest.put_back as module
from chronicle import (
    SchemaError,
    SourceError,
    StorageError,
    StreamSettings,
    create_store,
    open_store,
)
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.ingest.put_back import put_back
from chronicle.ingest.read_options import ReadOptions
from chronicle.store import Stream
from chronicle.write.quarantine import (
    LINE,
    REASON,
    RECORD,
    RETURNED_PREFIX,
    ROW,
    ROWS_PER_NUMBER,
    ROWS_SCHEMA,
    count_reasons,
    quarantined,
    to_mend,
    to_return,
)
from tests.crash_points import dying_at
from tests.unit.chronicle.stream_cases import KilledError, kill, meet

GOOD = "t,a,s\n1,1,x\n2,2,\n"
BAD = "one,5,q\n,6,r\n7,seven,s\n8\n"
"""Records that are none: a time that is no number, none, a number that is none, a short line."""

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64()), ("s", pa.string())])


Row = dict[str, Any]


def made(path: Path, records: str = BAD) -> Stream:
    """Make a stream of two events, with some records in quarantine."""
    store = create_store(path / "store")
    store.create_stream("s", SCHEMA, StreamSettings(time="t"))
    (path / "source.csv").write_text(GOOD + records)
    append_files(store, "s", [path / "source.csv"], AppendOptions())
    return store.stream("s")


def events(stream: Stream) -> list[tuple[Any, ...]]:
    snapshot = open_store(stream.path.parent).stream(stream.name).snapshot()
    table = snapshot.read_blocks(np.arange(snapshot.n_blocks), SCHEMA.names)
    return [tuple(row.values()) for row in table.to_pylist()]


def mended(
    stream: Stream,
    path: Path,
    cells: dict[str, tuple[str, str, str]],
    change: Callable[[list[Row]], list[Row]] = list,
) -> Path:
    """Write rows of the quarantine to a file, with other cells by what their record begins with."""
    rows = to_mend(quarantined(stream), SCHEMA).to_pylist()
    chosen = [
        row | dict(zip(SCHEMA.names, new, strict=True))
        for begin, new in cells.items()
        for row in rows
        if row[RECORD].startswith(begin)
    ]
    assert len(chosen) == len(cells)
    names = [*ROWS_SCHEMA.names, *SCHEMA.names]
    sink = io.BytesIO()
    pa_csv.write_csv(pa.Table.from_pylist(change(chosen)).select(names), sink)
    path.write_bytes(sink.getvalue())
    return path


def test_records_are_listed_with_reasons_and_cells(tmp_path: Path) -> None:
    stream = made(tmp_path)
    rows = to_mend(quarantined(stream), SCHEMA)

    assert sum(count_reasons(rows).values()) == rows.num_rows == 4
    assert all(rows.column(REASON).to_pylist())
    assert len(set(rows.column(ROW).to_pylist())) == 4
    assert "7,seven,s" in rows.column(RECORD).to_pylist()


def test_a_cell_with_half_a_surrogate_pair_shows_where_it_is(tmp_path: Path) -> None:
    stream = made(tmp_path, "")
    (tmp_path / "h.jsonl").write_text(r'{"t": 8, "a": 1, "s": "x\ud83d"}' + '\n{"t": 9}\n')
    append_files(open_store(tmp_path / "store"), "s", [tmp_path / "h.jsonl"], AppendOptions())
    [row] = to_mend(quarantined(stream), SCHEMA).to_pylist()
    assert [row[name] for name in SCHEMA.names] == ["8", "1", "x?"]


def test_cells_of_a_csv_record_hold_its_raw_text_whatever_the_order(tmp_path: Path) -> None:
    stream = made(tmp_path, "")
    (tmp_path / "o.csv").write_text('s;t;a\n"p;q";3;bad\nNA;four;4\nx;5\ny;6;6;6\n')
    (tmp_path / "g.csv").write_text("s;t;a\nx;9;9\n")
    options = AppendOptions(delimiter=";", null=("NA",))
    append_files(
        open_store(tmp_path / "store"), "s", [tmp_path / "o.csv", tmp_path / "g.csv"], options
    )
    found = to_mend(quarantined(stream), SCHEMA).to_pylist()
    cells = {row[LINE]: tuple(row[name] for name in SCHEMA.names) for row in found}
    assert cells == {
        2: ("3", "bad", "p;q"), 3: ("four", "4", None), 4: ("?5", None, "x"), 5: ("?6", "6", "y"),
    }  # fmt: skip


def test_a_file_without_a_mended_row_is_told_which_columns_to_correct(tmp_path: Path) -> None:
    stream = made(tmp_path)
    file = mended(stream, tmp_path / "m.csv", {"7,": ("7", "seven", "s")})
    with pytest.raises(SourceError, match=r"columns t, a, s \(quarantine_record is not read\)"):
        put_back(stream, file)
    file.write_text(file.read_text().splitlines()[0] + "\n")
    with pytest.raises(SourceError, match="holds no row; nothing was put back"):
        put_back(stream, file)


def test_a_stream_without_bad_records_has_an_empty_quarantine(tmp_path: Path) -> None:
    assert quarantined(made(tmp_path, "")).num_rows == 0


def test_mended_rows_become_events_and_leave_the_quarantine(tmp_path: Path) -> None:
    stream = made(tmp_path)
    file = mended(stream, tmp_path / "m.csv", {"7,": ("0", "7", "s"), "8": ("8", "8", "")})
    report = put_back(stream, file)

    assert events(stream) == [(0, 7, "s"), (1, 1, "x"), (2, 2, None), (8, 8, None)]
    assert (report.appended.n_events, report.n_left) == (2, 2)
    assert {"7,seven,s", "8"}.isdisjoint(quarantined(stream).column(RECORD).to_pylist())


def test_the_same_file_is_put_back_once(tmp_path: Path) -> None:
    stream = made(tmp_path)
    file = mended(stream, tmp_path / "m.csv", {"8": ("8", "8", "")})
    put_back(stream, file)
    before = events(stream)

    with pytest.raises(SourceError, match="is not in quarantine, or was put back before"):
        put_back(stream, file)
    assert events(stream) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda rows: [*rows, rows[0]], "stands 2 times", id="twice"),
        pytest.param(lambda rows: [rows[0] | {ROW: "x:3"}], "not in quarantine", id="name"),
        pytest.param(lambda rows: [rows[0] | {"a": "no"}, rows[1]], "are no events yet", id="bad"),
        pytest.param(lambda rows: [rows[0], rows[1] | {"t": "?8"}], "are no events yet", id="mark"),
    ],
)
def test_a_file_with_a_wrong_row_puts_nothing_back(tmp_path: Path, change: Any, said: str) -> None:
    stream = made(tmp_path)
    cells = {"7,": ("7", "7", ""), "8": ("8", "8", "x")}
    file = mended(stream, tmp_path / "m.csv", cells, change)

    with pytest.raises(SourceError, match=said):
        put_back(stream, file)
    assert len(events(stream)) == 2
    assert quarantined(stream).num_rows == 4


def test_a_kill_at_any_step_leaves_each_row_an_event_or_in_quarantine(tmp_path: Path) -> None:
    prepared = made(tmp_path)
    cells = {"7,": ("7", "7", ""), "8": ("8", "8", "")}
    file = mended(prepared, tmp_path / "m.csv", cells)

    def copied(name: str) -> Stream:
        shutil.copytree(prepared.path.parent, tmp_path / name)
        return open_store(tmp_path / name).stream("s")

    with dying_at(None, kill) as steps:
        put_back(copied("counting"), file)
    assert steps.n_taken > 2
    for step in range(steps.n_taken):
        stream = copied(str(step))
        with dying_at(step, kill), pytest.raises(KilledError):
            put_back(stream, file)
        is_in = len(events(stream)) == 4
        assert quarantined(stream).num_rows == (2 if is_in else 4)
        if not is_in:
            put_back(stream, file)
        assert [row[0] for row in events(stream)] == [1, 2, 7, 8]
        assert quarantined(stream).num_rows == 2


def test_of_two_who_put_a_row_back_at_once_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = made(tmp_path)
    file = mended(stream, tmp_path / "m.csv", {"8": ("8", "8", "")})
    other = mended(stream, tmp_path / "o.csv", {"8": ("9", "9", ""), "7,": ("7", "7", "")})
    rival = open_store(stream.path.parent).stream("s")
    meet(monkeypatch, module, "count_returned", lambda: put_back(rival, other))
    with pytest.raises(SourceError, match="another process put rows"):
        put_back(stream, file)
    assert [row[0] for row in events(stream)] == [1, 2, 7, 9]


def test_records_of_a_commit_that_never_landed_are_not_listed(tmp_path: Path) -> None:
    stream = made(tmp_path)
    (tmp_path / "more.csv").write_text("t,a,s\n50,five,\n51,1,\n")
    for step in range(20):
        with dying_at(step, kill):
            try:
                append_files(
                    open_store(tmp_path / "store"), "s", [tmp_path / "more.csv"], AppendOptions()
                )
            except KilledError:
                is_in = any(row[0] == 51 for row in events(stream))
                assert quarantined(stream).num_rows == 4 + is_in
            else:
                break


def test_a_damaged_file_of_the_quarantine_is_told(tmp_path: Path) -> None:
    stream = made(tmp_path)
    [file] = (stream.path / "quarantine").glob("*.parquet")
    file.write_bytes(b"PAR1 none")

    with pytest.raises(StorageError, match=r"quarantine file .* cannot be read"):
        quarantined(stream)


ROWS = st.integers(0, 3 * ROWS_PER_NUMBER)


@given(before=st.frozensets(ROWS), more=st.frozensets(ROWS))
def test_numbers_of_a_commit_tell_all_rows_that_are_back(
    before: frozenset[int], more: frozenset[int]
) -> None:
    known = to_return({"f": frozenset()}, [("f", row) for row in before]).transactions
    going = to_return({"f": before}, [("f", row) for row in more])
    numbers = dict(known) | dict(going.transactions)

    assert going.files == {"f": len(before)}
    assert numbers[f"{RETURNED_PREFIX}f"] == len(before | more)
    assert all(0 <= number < 1 << 63 for number in numbers.values())
    told = {
        place * ROWS_PER_NUMBER + bit
        for place in range(5)
        for bit in range(ROWS_PER_NUMBER)
        if numbers.get(f"{RETURNED_PREFIX}f.{place}", 0) >> bit & 1
    }
    assert told == before | more


def test_rows_beyond_one_number_go_back_in_several_goes(tmp_path: Path) -> None:
    stream = made(tmp_path, "".join(f"{t},no,x\n" for t in range(100, 100 + 130)))
    for start, stop in ((0, 1), (60, 70), (1, 60), (70, 130)):
        cells = {f"{100 + n},no": (str(100 + n), "1", "") for n in range(start, stop)}
        put_back(stream, mended(stream, tmp_path / "m.csv", cells))

    assert [row[0] for row in events(stream)] == [1, 2, *range(100, 230)]
    assert quarantined(stream).num_rows == 0


def test_a_parquet_file_may_be_put_back(tmp_path: Path) -> None:
    stream = made(tmp_path)
    rows = quarantined(stream).slice(0, 1).select(ROWS_SCHEMA.names)
    for name, value in (("t", 5), ("a", 5), ("s", "")):
        rows = rows.append_column(name, pa.array([value], SCHEMA.field(name).type))
    pq.write_table(rows, tmp_path / "m.parquet")
    put_back(stream, tmp_path / "m.parquet")

    assert (5, 5, "") in events(stream)


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_file_that_states_types_may_hold_texts_as_it_was_written(
    tmp_path: Path, ending: str, text: pa.DataType
) -> None:
    stream = made(tmp_path)
    rows = to_mend(quarantined(stream), SCHEMA)
    rows = rows.cast(
        pa.schema(
            [one.with_type(text) if pa.types.is_string(one.type) else one for one in rows.schema]
        )
    )
    file = tmp_path / f"m.{ending}"

    def write(cells: dict[str, tuple[str | None, ...]]) -> None:
        chosen = [
            row | dict(zip(SCHEMA.names, cells[row[RECORD][0]], strict=True))
            for row in rows.to_pylist()
            if row[RECORD][0] in cells
        ]
        table = pa.Table.from_pylist(chosen, rows.schema)
        if ending == "parquet":
            pq.write_table(table, file)
        else:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write(table)

    write({"7": ("7", "7", 'a "s",\n'), "8": ("8", "eight", None)})
    with pytest.raises(SourceError, match=r"1 rows of .* column 'a' does not parse as BIGINT"):
        put_back(stream, file)
    write({"7": ("7", "7", 'a "s",\n'), "8": ("8", None, None)})
    put_back(stream, file)
    assert events(stream)[2:] == [(7, 7, 'a "s",\n'), (8, None, None)]


def test_a_file_of_texts_that_lacks_a_column_is_told_by_its_path(tmp_path: Path) -> None:
    stream = made(tmp_path)
    file = tmp_path / "m.parquet"
    pq.write_table(to_mend(quarantined(stream), SCHEMA).drop_columns(["a"]), file)
    with pytest.raises(SchemaError, match=rf"^'{file}' lacks column 'a' that the stream has"):
        put_back(stream, file)


# ---------------------------------------------------------------------------------------------
# Cells are read as they were before.


def aside(path: Path, name: str, content: str, time: str = "t TIMESTAMP", **given: Any) -> Stream:
    """Take a file of t, w and k into a new stream, in which it leaves a record in quarantine."""
    store = create_store(path / "store")
    (path / name).write_text(content)
    options = AppendOptions(time="t", schema=f"{time}, w DOUBLE, k STRING", **given)
    append_files(store, "s", [path / name], options)
    return store.stream("s")


def handed_out(stream: Stream, path: Path, change: dict[str, str | None]) -> Path:
    """Write the rows in quarantine to a file, with some other cells in each."""
    rows = [row | change for row in to_mend(quarantined(stream), stream.schema).to_pylist()]
    table = pa.Table.from_pylist(rows, to_mend(quarantined(stream), stream.schema).schema)
    if path.suffix == ".csv":
        pa_csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def last(stream: Stream) -> tuple[Any, ...]:
    snapshot = open_store(stream.path.parent).stream("s").snapshot()
    table = snapshot.read_blocks(np.arange(snapshot.n_blocks), stream.schema.names)
    return tuple(table.sort_by("t").to_pylist()[-1].values())


HEAD = "t;w;k\n"
BERLIN = {"time_zone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("given", "records", "mend", "event"),
    [
        pytest.param(
            {"decimal_comma": True}, "2026-01-01T00:00:00Z;1,5;a\n2026-01-02T00:00:00Z;1.234;b\n",
            {"w": "1,234"}, (datetime(2026, 1, 2, tzinfo=UTC), 1.234, "b"), id="comma",
        ),
        pytest.param(
            {"null": ("NA",)}, "2026-01-01T00:00:00Z;1;a\n2026-01-02T00:00:00Z;?;b\n",
            {"w": "NA", "k": "NA"}, (datetime(2026, 1, 2, tzinfo=UTC), None, None), id="null",
        ),
        pytest.param(
            {"time_format": "dd.MM.yyyy", **BERLIN}, "01.01.2026;1;a\n05/2026;2;b\n",
            {"t": "05.03.2026"}, (datetime(2026, 3, 4, 23, tzinfo=UTC), 2, "b"), id="format",
        ),
        pytest.param(
            {"time_unit": "ms"}, "1;1;a\nx;2;b\n",
            {"t": "1772668800000"}, (datetime(2026, 3, 5, tzinfo=UTC), 2, "b"), id="unit",
        ),
        pytest.param(
            BERLIN, "2025-10-26T01:00:00;1;a\n2025-10-26T02:30:00;2;b\n",
            {"t": "2025-10-26T02:30:00+01:00"}, (datetime(2025, 10, 26, 1, 30, tzinfo=UTC), 2, "b"),
            id="zone",
        ),
        pytest.param(
            {"ambiguous": "later", **BERLIN}, "2025-10-26T01:00:00;1;a\n2025-10-26T02:30:00;x;b\n",
            {"w": "2"}, (datetime(2025, 10, 26, 1, 30, tzinfo=UTC), 2, "b"), id="ambiguous",
        ),
    ],
)  # fmt: skip
def test_mended_cells_are_read_as_they_were_and_others_stay_in_quarantine(
    tmp_path: Path,
    given: dict[str, Any],
    records: str,
    mend: dict[str, str],
    event: tuple[Any, ...],
) -> None:
    stream = aside(tmp_path, "g.csv", HEAD + records, delimiter=";", **given)
    file = handed_out(stream, tmp_path / "m.csv", {})
    with pytest.raises(SourceError, match=r"1 rows of .* are no events yet"):
        put_back(stream, file)
    assert quarantined(stream).num_rows == 1
    put_back(stream, handed_out(stream, tmp_path / "m.csv", mend))
    assert last(stream) == event
    assert quarantined(stream).num_rows == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "t,v\n1,1\n2,x\n"), ("a.jsonl", '{"t":1,"v":1}\n{"t":2,"v":"x"}\n')],
)
def test_columns_of_folders_belong_to_a_row_that_is_put_back(
    tmp_path: Path, name: str, content: str
) -> None:
    folder = tmp_path / "in" / "site=A1"
    folder.mkdir(parents=True)
    (folder / name).write_text(content)
    store = create_store(tmp_path / "store")
    append_files(store, "s", [tmp_path / "in"], AppendOptions(time="t", schema="v BIGINT"))
    put_back(store.stream("s"), handed_out(store.stream("s"), tmp_path / "m.csv", {"v": "2"}))
    assert last(store.stream("s")) == (2, 2, "A1")


def test_digits_behind_a_0_or_plus_are_no_number_of_a_mended_row(tmp_path: Path) -> None:
    stream = aside(tmp_path, "g.csv", HEAD + "1;1;a\n2;x;b\n", "t BIGINT", delimiter=";")
    for text in ("01067", "+49"):
        file = handed_out(stream, tmp_path / "m.csv", {"w": text})
        with pytest.raises(SourceError, match=r"column 'w' is DOUBLE, which drops a 0 or \+"):
            put_back(stream, file)
    put_back(stream, handed_out(stream, tmp_path / "m.csv", {"w": "1067"}))
    assert last(stream)[1] == 1067


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_texts_of_other_formats_are_read_as_they_were_and_their_numbers_as_they_stand(
    tmp_path: Path, ending: str
) -> None:
    stream = aside(
        tmp_path,
        "g.csv",
        HEAD + "1;1,5;a\n2;1.234;b\n",
        "t BIGINT",
        delimiter=";",
        decimal_comma=True,
    )
    file = tmp_path / f"m.{ending}"
    with pytest.raises(SourceError, match="column 'w' does not parse as DOUBLE"):
        put_back(stream, handed_out(stream, file, {}))
    rows = to_mend(quarantined(stream), stream.schema)
    rows = rows.set_column(rows.schema.get_field_index("w"), "w", pa.array([1.234]))
    if ending == "parquet":
        pq.write_table(rows, file)
    else:
        file.write_text(json.dumps(rows.to_pylist()[0]))
    put_back(stream, file)
    assert last(stream) == (2, 1.234, "b")


def test_rows_of_several_files_are_read_each_in_its_own_way(tmp_path: Path) -> None:
    stream = aside(
        tmp_path,
        "g.csv",
        HEAD + "1;1,5;a\n3;1.5;b\n",
        "t BIGINT",
        delimiter=";",
        decimal_comma=True,
    )
    (tmp_path / "h.csv").write_text("t,w,k\nx,2.5,c\n")
    with pytest.raises(SourceError, match="none of the 1 records"):
        append_files(open_store(tmp_path / "store"), "s", [tmp_path / "h.csv"], AppendOptions())
    (tmp_path / "h.csv").write_text('t,w,k\n2,2.5,c\n4,"2,5",d\n')
    append_files(open_store(tmp_path / "store"), "s", [tmp_path / "h.csv"], AppendOptions())
    rows = to_mend(quarantined(stream), stream.schema).to_pylist()
    for row in rows:
        row["w"] = row["w"].translate(str.maketrans(".,", ",."))
    pa_csv.write_csv(pa.Table.from_pylist(rows[::-1]), tmp_path / "m.csv")
    put_back(stream, tmp_path / "m.csv")
    snapshot = open_store(tmp_path / "store").stream("s").snapshot()
    found = snapshot.read_blocks(np.arange(snapshot.n_blocks), ["w"]).column("w")
    assert found.to_pylist() == [1.5, 2.5, 1.5, 2.5]


def test_options_that_are_given_count_more_than_those_that_are_remembered(tmp_path: Path) -> None:
    records = "2025-10-26T01:00:00;1;a\n2025-10-26T02:30:00;2;b\n"
    stream = aside(tmp_path, "g.csv", HEAD + records, delimiter=";", ambiguous="infer", **BERLIN)
    file = handed_out(stream, tmp_path / "m.csv", {})
    with pytest.raises(
        SourceError, match=r"clocks show time 't' twice .*--time-zone Europe/Berlin"
    ):
        put_back(stream, file)
    with pytest.raises(SourceError, match="the order of mended rows says nothing"):
        put_back(stream, file, ReadOptions(ambiguous="infer"))
    put_back(stream, file, ReadOptions(ambiguous="earlier"))
    assert last(stream) == (datetime(2025, 10, 26, 0, 30, tzinfo=UTC), 2, "b")


@pytest.mark.parametrize(
    "record", [r'{"t": 8, "w": 1, "k": "x\ud83d"}', '{"t": 8, "w": 1, "k": {"a": 1}}']
)
def test_a_row_that_nobody_changed_stays_though_its_cells_can_be_read(
    tmp_path: Path, record: str
) -> None:
    stream = aside(tmp_path, "j.jsonl", f'{{"t": 1, "w": 1, "k": "a"}}\n{record}\n', "t BIGINT")
    with pytest.raises(SourceError, match="the row is as it was put aside"):
        put_back(stream, handed_out(stream, tmp_path / "m.csv", {}))
    put_back(stream, handed_out(stream, tmp_path / "m.csv", {"k": "mended"}))
    assert last(stream) == (8, 1, "mended")


def test_flattened_fields_come_back(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    lines = ['{"t": 1, "a": {"b": 1}}', '{"t": "x", "a": {"b": 2}}']
    (tmp_path / "j.jsonl").write_text("\n".join(lines))
    append_files(store, "s", [tmp_path / "j.jsonl"], AppendOptions(time="t", flatten=True))
    stream = store.stream("s")
    put_back(stream, handed_out(stream, tmp_path / "m.csv", {"t": "2"}))
    assert last(stream) == (2, 2)


def test_events_put_aside_whole_are_put_back_as_they_are(tmp_path: Path) -> None:
    stream = aside(
        tmp_path, "g.csv", HEAD + "5;1,5;a\n", "t BIGINT", delimiter=";", decimal_comma=True
    )
    stream.append(pa.table({"t": [1], "w": [2.5], "k": ["late"]}), late="quarantine")
    put_back(stream, handed_out(stream, tmp_path / "m.csv", {}))
    assert quarantined(stream).num_rows == 0


def test_a_late_event_beyond_the_year_9999_is_put_aside_and_back(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.timestamp("us"))])
    store = create_store(tmp_path / "store")
    stream = store.create_stream("s", schema, StreamSettings(time="t"))
    for time in (2**61, 2**60):
        late = pa.array([time]).cast(schema.types[0])
        report = stream.append(pa.table([late], schema=schema), late="quarantine")
    assert (report.n_quarantined, report.first_time) == (1, None)
    done = put_back(stream, handed_out(stream, tmp_path / "m.csv", {}))
    assert done.appended.first_time == str(np.datetime64(2**60, "us"))


def test_a_file_whose_ending_tells_no_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"call the file \.csv"):
        put_back(made(tmp_path), tmp_path / "m.txt")
