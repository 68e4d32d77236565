"""What an ingest decides before Spark starts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest import IngestOptions, follow
from chronicle.ingest.preparation import (
    Checksums,
    Request,
    check_names,
    check_options,
    prepare,
    to_attributes,
    to_units,
)
from chronicle.ingest.source_memory import Source, read_source, to_transactions
from chronicle.ingest.sources import find_sources
from chronicle.log.stream_metadata import add_metadata
from chronicle.settings import StreamSettings
from chronicle.store import Store, Stream, create_store
from chronicle.write.append import append
from tests.ingest_files import TIES, write_rows


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    store = create_store(tmp_path / "store")
    return store.create_stream("s", TIES, StreamSettings(time="t"))


def put(stream: Stream, name: str, t: int) -> Path:
    return write_rows(stream.path.parent.parent / name, [{"t": t, "n": 0, "pad": ""}], TIES)


def take(stream: Stream, path: Path) -> None:
    """Append a row as if it came from a file."""
    riding = to_transactions({}, [read_source(path)])
    append(stream, pa.table({"t": [1], "n": [0], "pad": [""]}), transactions=riding)


def request(stream: Stream, **given: Any) -> Request:
    more = {name: given.pop(name) for name in ("lateness",) if name in given}
    options = IngestOptions(**{"time": "t", **given})
    return Request(Store(stream.path.parent), "s", options, None, lambda _: None, **more)


def left(asked: Request, paths: list[Path]) -> list[str]:
    with ThreadPoolExecutor(1) as pool:
        found = find_sources(paths, format_name=None)
        return [path.name for path in prepare(asked, found, Checksums(pool)).sources.files]


def test_sources_left_are_those_not_taken(stream: Stream) -> None:
    a, b = put(stream, "a.parquet", 1), put(stream, "b.parquet", 2)
    take(stream, a)
    assert left(request(stream), [a, b]) == ["b.parquet"]
    assert left(request(stream, again=True), [a, b]) == ["a.parquet", "b.parquet"]


def test_indexes_that_were_lost_are_written_with_those_asked_for(stream: Stream) -> None:
    add_metadata(stream.path, tables=["index/n"])
    assert to_attributes(stream, IngestOptions(time="t", index=("pad",))) == ("n", "pad")


def test_source_that_changed_is_an_error_only_under_its_own_path(stream: Stream) -> None:
    a = put(stream, "a.parquet", 1)
    take(stream, a)
    put(stream, "a.parquet", 2)
    with pytest.raises(SourceError, match=r"a\.parquet' was taken into stream 's' before"):
        left(request(stream), [a])
    assert left(request(stream), [put(stream, "b.parquet", 2)]) == ["b.parquet"]


def test_same_content_is_taken_into_another_stream_and_by_name_once(stream: Stream) -> None:
    a, b = put(stream, "a.parquet", 1), put(stream, "b.parquet", 1)
    take(stream, a)
    assert left(request(stream), [a, b]) == []
    assert left(request(stream, again=True), [b]) == ["b.parquet"]
    Store(stream.path.parent).create_stream("other", TIES, StreamSettings(time="t"))
    other = replace(request(stream), stream_name="other")
    assert left(other, [a, b]) == ["a.parquet"]
    assert left(replace(other, stream_name="new"), [a, b]) == ["a.parquet"]


def test_fingerprint_depends_on_size_and_checksum_and_has_63_bits() -> None:
    sources = [Source("/a", 1, "ab"), Source("/a", 2, "ab"), Source("/a", 1, "ac")]
    numbers = [source.fingerprint for source in sources]
    assert len(set(numbers)) == 3
    assert all(0 <= number < 1 << 63 for number in numbers)
    assert Source("/b", 1, "ab").fingerprint == numbers[0]
    assert Source("/b", 1, "ab").application_id != sources[0].application_id


def test_checksum_is_that_of_the_whole_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    found = read_source(tmp_path / "a")
    # FIPS 180-2, appendix B.1.
    assert found.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (found.path, found.size_bytes) == (str(tmp_path / "a"), 3)
    with pytest.raises(SourceError, match="cannot be read"):
        read_source(tmp_path / "b")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"time": "n"}, "ordered by 't', not by 'n'", id="time"),
        pytest.param({"derive": ("delta(n)",)}, r"does not derive 'delta\(n\)'", id="derived"),
        pytest.param({"key": "n"}, "has key None, not 'n'", id="key"),
        pytest.param({"block_events": 7}, "has block events .*, not 7", id="block"),
        pytest.param({"file_events": 7}, "has file events .*, not 7", id="file"),
    ],
)
def test_settings_of_a_stream_never_change(
    stream: Stream, given: dict[str, Any], message: str
) -> None:
    a = put(stream, "a.parquet", 1)
    with pytest.raises(SchemaError, match=message):
        left(request(stream, **given), [a])
    has = {"time": "t", "block_events": stream.settings.block_events}
    same = {name: value for name, value in has.items() if name in given}
    assert left(request(stream, **same), [a]) == ["a.parquet"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"key": "z"}, "no key column 'z'", id="key"),
        pytest.param({"index": ("n+z",)}, "no column to index 'z'", id="part of an index"),
        pytest.param({"index": ("nn",)}, "no column to index 'nn'.*did you mean 'n'", id="index"),
    ],
)
def test_columns_with_a_role_must_be_there(
    stream: Stream, given: dict[str, Any], message: str
) -> None:
    asked = replace(request(stream, **given), stream_name="new")
    with ThreadPoolExecutor(1) as pool:
        found = find_sources([put(stream, "a.parquet", 1)], format_name=None)
        job = prepare(asked, found, Checksums(pool))
    with pytest.raises(SchemaError, match=message):
        check_names(job, TIES)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"late": "merg"}, r"treated as 'merg'.*did you mean 'merge'", id="policy"),
        pytest.param({"late": "reject", "lateness": 3}, "not to be merged", id="nothing merged"),
        pytest.param({"lateness": -3}, "none below zero", id="negative"),
        pytest.param({"lateness": timedelta(-1)}, "none below zero", id="negative duration"),
    ],
)
def test_lateness_that_says_nothing_is_refused(
    stream: Stream, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        check_options(request(stream, **given))


def test_lateness_becomes_the_unit_of_the_time() -> None:
    assert to_units(timedelta(seconds=2), "timestamp") == 2_000_000
    assert to_units(7, "integer") == 7
    assert to_units(None, "timestamp_utc") is None
    with pytest.raises(SchemaError, match="is an integer"):
        to_units(timedelta(1), "integer")
    with pytest.raises(SchemaError, match="give it as a duration"):
        to_units(7, "timestamp")


# ---------------------------------------------------------------------------------------------
# Following, as far as it gets without Spark.


@pytest.mark.parametrize("folder", ["kafka:prices", "kafka://host/prices", "s3://bucket/in"])
def test_what_is_no_folder_cannot_be_followed(stream: Stream, folder: str) -> None:
    with pytest.raises(SourceError, match="Kafka neither; have its records written to files"):
        follow(Store(stream.path.parent), "s", folder, IngestOptions(time="t"))


def test_following_asks_for_a_folder_and_takes_nothing_again(
    stream: Stream, tmp_path: Path
) -> None:
    store = Store(stream.path.parent)
    with pytest.raises(SourceError, match="no folder"):
        follow(store, "s", tmp_path / "none", IngestOptions(time="t"))
    with pytest.raises(SourceError, match="leave --again out"):
        follow(store, "s", tmp_path, IngestOptions(time="t", again=True))
