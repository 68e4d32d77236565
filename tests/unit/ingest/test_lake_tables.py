"""Delta tables of others: whether one is the table that was taken, and what its log says."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import replay
from chronicle import Store, adopt
from chronicle.errors import SourceError, StorageError
from chronicle.ingest.local import AppendFilesReport, AppendOptions, append_files
from chronicle.ingest.source_memory import to_application_id
from chronicle.ingest.table_memory import Taken, choose_taken
from chronicle.log.delta_log import ForeignTable


def take(store: Store, source: Path, **options: Any) -> AppendFilesReport:
    return append_files(store, "s", [source], AppendOptions(time="t", **options))


def column(store: Store, name: str) -> list[Any]:
    values: list[Any] = replay.query(store, f"SELECT {name} FROM s").table.column(0).to_pylist()
    return values


def put(lake: Path, *times: int) -> None:
    write_deltalake(lake, pa.table({"t": list(times)}), mode="append")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A Delta table with event 1."""
    put(tmp_path / "lake", 1)
    return tmp_path / "lake"


# ---------------------------------------------------------------------------------------------
# Which table was taken.


def test_a_table_that_was_restored_from_a_copy_is_refused_until_again_takes_it(
    store: Store, lake: Path
) -> None:
    backup = shutil.copytree(lake, lake.with_name("backup"))
    put(lake, 2)
    take(store, lake)
    shutil.rmtree(lake)
    shutil.copytree(backup, lake)
    with pytest.raises(SourceError, match=r"has only 1 version now.*restored from a copy"):
        take(store, lake)
    put(lake, 3)
    with pytest.raises(SourceError, match="has another commit as version 1 now"):
        take(store, lake)
    assert column(store, "t") == [1, 2]
    take(store, lake, again=True)
    put(lake, 4)
    take(store, lake)
    assert column(store, "t") == [1, 1, 2, 3, 4]


def test_a_table_that_was_moved_is_taken_on_with_a_note(store: Store, lake: Path) -> None:
    take(store, lake)
    moved = lake.rename(lake.with_name("moved"))
    report = take(store, moved)
    assert "is the one that was taken elsewhere up to its version 0" in str(report)
    put(moved, 2)
    assert "taken elsewhere" in str(take(store, moved))
    put(moved, 3)
    assert "taken elsewhere" not in str(take(store, moved))
    assert column(store, "t") == [1, 2, 3]


def test_a_copy_goes_on_from_what_either_of_them_brought(store: Store, lake: Path) -> None:
    take(store, lake)
    put(lake, 2)
    copy = shutil.copytree(lake, lake.with_name("copy"))
    take(store, copy)
    take(store, lake)  # 2 came by the copy
    assert column(store, "t") == [1, 2]
    put(copy, 3)
    take(store, copy)
    put(lake, 4)
    with pytest.raises(SourceError, match="another commit as version 2"):  # they went apart
        take(store, lake)


def test_another_table_at_the_same_place_is_refused_until_again_takes_it(
    store: Store, lake: Path
) -> None:
    take(store, lake)
    shutil.rmtree(lake)
    put(lake, 7)
    with pytest.raises(SourceError, match=r"is another table \(its id is .*--again"):
        take(store, lake)
    take(store, lake, again=True)
    put(lake, 8)
    take(store, lake)
    assert column(store, "t") == [1, 7, 8]


def test_what_chronicle_0_3_remembers_goes_on(
    store: Store, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = DeltaTable(lake).metadata().id
    old = {to_application_id(f"{lake.resolve()}#{identity}"): 0}
    with monkeypatch.context() as patch:
        patch.setattr("chronicle.ingest.sources.to_transactions", lambda _: old)
        take(store, lake)
    assert take(store, lake).appended is None
    put(lake, 2)
    take(store, lake)
    put(lake, 3)
    shutil.move(lake, lake.with_name("moved"))  # what this version wrote tells it
    take(store, lake.with_name("moved"))
    assert column(store, "t") == [1, 2, 3]


def described(identity: str, names: list[str], partitions: Mapping[str, str]) -> dict[str, Any]:
    kinds = {**dict.fromkeys(names, "long"), **partitions}
    fields = [{"name": n, "type": k, "nullable": True, "metadata": {}} for n, k in kinds.items()]
    about = {"id": identity, "format": {"provider": "parquet", "options": {}}, "configuration": {}}
    schema = json.dumps({"type": "struct", "fields": fields})
    return {"metaData": {**about, "schemaString": schema, "partitionColumns": [*partitions]}}


PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def commit(lake: Path, version: int, *actions: dict[str, Any]) -> None:
    log = lake / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(action, ensure_ascii=False) + "\n" for action in actions)
    (log / f"{version:020d}.json").write_text("".join(lines))


def added(
    lake: Path, path: str, table: pa.Table, values: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    file = lake / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file)
    size = file.stat().st_size
    add = {"path": path, "partitionValues": values or {}, "size": size, "modificationTime": 1}
    return {"add": {**add, "dataChange": True}}


def test_a_table_that_gets_another_id_with_its_columns_is_the_same(
    store: Store, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    first, then = described("1", ["t"], {}), described("2", ["t"], {})
    commit(lake, 0, PROTOCOL, first, added(lake, "a.parquet", pa.table({"t": [1]})))
    take(store, lake)
    commit(lake, 1, then, added(lake, "b.parquet", pa.table({"t": [2]})))
    assert "taken elsewhere" not in str(take(store, lake))
    moved = lake.rename(lake.with_name("moved"))
    take(store, moved)
    assert column(store, "t") == [1, 2]


def test_a_table_that_moved_and_got_another_id_is_known_by_its_former_one(
    store: Store, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    table = pa.table({"t": [1]})
    commit(lake, 0, PROTOCOL, described("1", ["t"], {}), added(lake, "a.parquet", table))
    take(store, lake)
    moved = lake.rename(lake.with_name("moved"))
    commit(moved, 1, described("2", ["t"], {}), added(moved, "b.parquet", table))
    take(store, moved)
    assert column(store, "t") == [1, 1]


@pytest.mark.parametrize(
    ("at_path", "of_id", "found"),
    [
        (None, None, None),
        (Taken(2, 22), None, 2),
        (None, Taken(2, 22), 2),
        (Taken(1, 11), Taken(3, 33), 3),
        (Taken(2), None, 2),
        (Taken(2, 99), None, "another table"),
        (Taken(2, 99), Taken(2, 99), "another commit as version 2"),
        (Taken(3, 33), Taken(2, 99), "another commit as version 2"),
        (Taken(9, 99), Taken(9, 99), "has only 5 versions"),
        (Taken(4, 44), Taken(4, 44), "is in its log no more"),
    ],
)
def test_the_version_taken_is_the_newest_whose_commits_are_all_there(
    at_path: Taken | None, of_id: Taken | None, found: int | str | None
) -> None:
    table = ForeignTable(Path("/lake"), "x", 4, pa.schema([]), (), ())
    commits = {1: 11, 2: 22, 3: 33, 4: None}
    if isinstance(found, str):
        with pytest.raises(SourceError, match=found):
            choose_taken(table, at_path, [of_id], commits, stream="s")
        return
    chosen = choose_taken(table, at_path, [of_id], commits, stream="s")
    assert (None if chosen is None else chosen.version) == found


# ---------------------------------------------------------------------------------------------
# Values of partition columns.


PARTITIONS = [
    ("string", "", None),
    ("string", "a\u0085b/%", "a\u0085b/%"),
    ("binary", "abc", b"abc"),
    ("binary", "\\u0061\\u0000\\u00FF", b"a\0\xff"),
    ("binary", "", None),
    ("decimal(10,2)", "100.00", Decimal("100.00")),
    ("boolean", "true", True),
    ("float", "0.1", 0.10000000149011612),
    ("date", "2024-05-01", dt.date(2024, 5, 1)),
    ("timestamp", "2024-05-01T05:00:00Z", dt.datetime(2024, 5, 1, 5, tzinfo=dt.UTC)),
]


@pytest.mark.parametrize("is_later", [False, True], ids=["whole", "since"])
@pytest.mark.parametrize("held", [False, True], ids=["in the log", "in the file too"])
@pytest.mark.parametrize(("kind", "spelled", "value"), PARTITIONS)
def test_a_partition_has_the_value_of_the_log(
    kind: str, spelled: str, value: Any, held: bool, is_later: bool, store: Store, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    about, none, said = described("1", ["t"], {"p": kind}), {"p": None}, {"p": spelled}
    events = pa.table({"t": [2], **({"p": ["of the file"]} if held else {})})
    if is_later:
        commit(lake, 0, PROTOCOL, about, added(lake, "0.parquet", pa.table({"t": [1]}), none))
        take(store, lake)
        commit(lake, 1, added(lake, "1.parquet", events, said))
    else:
        files = [
            added(lake, f"{i}.parquet", events, {"p": v}) for i, v in ((0, None), (1, spelled))
        ]
        commit(lake, 0, PROTOCOL, about, *files)
    take(store, lake)
    assert column(store, "p") == [None, value]


def test_bytes_that_delta_rs_wrote_as_a_partition_are_those_bytes(store: Store, lake: Path) -> None:
    shutil.rmtree(lake)
    for t, value in enumerate([b"abc", b"\0\xff"]):
        table = pa.table({"t": [t], "b": pa.array([value])})
        write_deltalake(lake, table, partition_by=["b"], mode="append")
        take(store, lake)
    assert column(store, "b") == [b"abc", b"\0\xff"]


def test_a_decimal_partition_without_its_zeros_is_named(store: Store, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    add = added(lake, "a.parquet", pa.table({"t": [1]}), {"d": "100"})
    commit(lake, 0, PROTOCOL, described("1", ["t"], {"d": "decimal(10,2)"}), add)
    with pytest.raises(StorageError, match=r"partition value '100' of type decimal\(10,2\)"):
        take(store, lake)


def test_an_adopted_file_that_holds_its_partition_column_must_hold_what_the_log_says(
    store: Store, tmp_path: Path
) -> None:
    for name, held in (("same", "A"), ("other", "B")):
        lake = tmp_path / name
        add = added(lake, "p=A/a.parquet", pa.table({"t": [1], "p": [held]}), {"p": "A"})
        commit(lake, 0, PROTOCOL, described("1", ["t"], {"p": "string"}), add)
    assert "NULL" not in str(adopt(store, "s", tmp_path / "same", time="t"))
    assert column(store, "p") == ["A"]
    with pytest.raises(SourceError, match="not the one in the log"):
        adopt(store, "x", tmp_path / "other", time="t")


def test_adopting_says_which_columns_other_readers_of_the_stream_lack(
    store: Store, lake: Path
) -> None:
    shutil.rmtree(lake)
    write_deltalake(lake, pa.table({"t": [1], "site": ["A"]}), partition_by=["site"])
    report = str(adopt(store, "s", lake, time="t"))
    assert "partition columns (site) are NULL to other Delta readers" in report
    others = DeltaTable(store.path / "s" / "events").to_pyarrow_table()
    assert others.to_pylist() == [{"t": 1, "site": None}]  # as it says


# ---------------------------------------------------------------------------------------------
# Paths of a log.


def outside(lake: Path, spelled: str) -> None:
    commit(lake, 0, PROTOCOL, described("1", ["t"], {}), added(lake, "a", pa.table({"t": [1]})))
    log = lake / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"path": "a"', f'"path": "{spelled}"'))


@pytest.mark.parametrize(
    "spelled",
    [
        "../secret.parquet",
        "%2E%2E/secret.parquet",
        "a/../../secret.parquet",
        "link.parquet",
        "folder/secret.parquet",
        "folder/../secret.parquet",
        "{root}/secret.parquet",
        "%2F{root}/secret.parquet",
        "file://{root}/secret.parquet",
        "..",
        ".",
        "a%00b",
    ],
)
def test_a_log_names_no_file_outside_of_its_table(
    spelled: str, store: Store, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    pq.write_table(pa.table({"t": [100]}), tmp_path / "secret.parquet")
    outside(lake, spelled.replace("{root}", str(tmp_path)))
    (lake / "link.parquet").symlink_to(tmp_path / "secret.parquet")
    (lake / "folder").symlink_to(tmp_path)
    for call in (lambda: take(store, lake), lambda: adopt(store, "s", lake, time="t")):
        with pytest.raises(SourceError, match="has files in other places"):
            call()
    assert store.stream_names() == ()


def test_links_within_a_table_and_to_it_are_followed(store: Store, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    outside(lake, "link/b.parquet")
    (lake / "there").mkdir()
    (lake / "a").rename(lake / "there" / "b.parquet")
    (lake / "link").symlink_to("there")
    (tmp_path / "by-link").symlink_to(lake)
    take(store, tmp_path / "by-link")
    assert column(store, "t") == [1]


def test_the_signs_of_unicode_that_end_lines_elsewhere_stand_in_logs(
    store: Store, lake: Path
) -> None:
    take(store, lake)
    sign = "wait\u0085\u2028"
    add = added(lake, "b.parquet", pa.table({"t": [2]}))
    add["add"]["stats"] = json.dumps({"numRecords": 1, "tag": sign}, ensure_ascii=False)
    commit(lake, 1, add)
    take(store, lake)
    assert column(store, "t") == [1, 2]
