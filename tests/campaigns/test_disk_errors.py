"""An error of the disk at any touch: a stated error or success, and nothing lost or doubled."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings, create_store, open_store
from chronicle.errors import ChronicleError, CorruptBlockError
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.maintenance.check import check_store
from chronicle.maintenance.finding import Severity
from chronicle.maintenance.repair import repair_store
from chronicle.write.append import append
from indexing import clear_caches
from indexing.check import check_runs
from tests.campaigns.kill_worker import STREAM, Job, choose, random_events
from tests.campaigns.seeds import seeds
from tests.crash_points import Fault, failing, random_fault
from tests.store_model import (
    NUMBERED,
    PROBE,
    Row,
    check_answers,
    faults_of,
    in_order,
    plain,
    rows_of,
    writer_of,
)

ERRORS = (
    errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.ENOMEM,
)  # fmt: skip
KINDS = (
    *("append", "append", "late", "files", "compact", "index", "merge runs", "delete"),
    *("repair", "repair at once", "vacuum at once", "query", "check"),
)

Action = Callable[[], Any]


def prepare(path: Path, rng: random.Random) -> list[Row]:
    """Make a store of some files, with an index; return its rows."""
    store = create_store(path)
    knobs = StreamSettings(time="t", block_events=3, file_events=rng.randint(5, 12), fan_out=2)
    stream = store.create_stream(STREAM, NUMBERED, knobs)
    rows: list[Row] = []
    for i in range(4):
        fresh = random_events(rng, 100 * i)
        table = pa.Table.from_pylist(fresh, schema=NUMBERED)
        add = stream.append if i % 2 == 0 else partial(append, stream)  # one tidies, one does not
        add(table, derived=writer_of(stream))
        rows = in_order(rows + fresh)
        if i == 1:
            choose(random.Random(0), stream, _job("index"), 0)[1]()
    return rows


def _job(kind: str) -> Job:
    return Job("", "", 0, 1, 0, None, kinds=(kind,))


def operation(kind: str, store: Store, seed: int, folder: Path) -> tuple[dict[str, Any], Action]:
    """Return what an operation does to the rows, and the operation; the same for a seed."""
    rng = random.Random(seed)
    stream = store.stream(STREAM)
    if kind == "late":
        rows = [row | {"t": rng.randint(-5, 5)} for row in random_events(rng, 5000)]
        table = pa.Table.from_pylist(rows, schema=NUMBERED)
        return {"append": rows}, partial(stream.append, table, derived=writer_of(stream))
    if kind == "files":
        rows = random_events(rng, 5000)
        source = folder / "more.arrow"
        table = pa.Table.from_pylist(rows, schema=NUMBERED)
        with pa.ipc.new_file(str(source), NUMBERED) as writer:
            writer.write_table(table)
        options = AppendOptions(format="arrow")
        return {"append": rows}, partial(
            append_files, store, STREAM, [source], options, derived=writer_of
        )
    if kind == "query":
        plan = rng.choice(("full", "tree", "auto"))
        return {}, partial(replay.query, store, PROBE, plan=plan, skip_damaged=True)
    if kind == "check":
        deep = rng.random() < 0.5
        return {}, partial(check_store, store, deep=deep, derived_checks=(check_runs,))
    return choose(rng, stream, _job(kind), 5000)


def outcome(rows: list[Row], what: dict[str, Any]) -> list[Row]:
    """Return the rows after an operation."""
    if "append" in what:
        return in_order(rows + what["append"])
    if "delete" in what:
        start, stop = what["delete"]
        return [row for row in rows if not start <= row["t"] < stop]
    return rows


def copied(source: Path, target: Path) -> Store:
    """Return the store in a copy of its folder."""
    shutil.copytree(source, target)
    clear_caches()
    return open_store(target)


@pytest.mark.parametrize("seed", seeds(200))
def test_an_error_of_the_disk_is_stated_and_loses_or_doubles_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHRONICLE_SYNC", "on")
    rng = random.Random(seed)
    rows = prepare(tmp_path / "first", rng)
    kind, of_operation = KINDS[seed % len(KINDS)], rng.randrange(1 << 30)
    counted = Fault(None)
    counting = copied(tmp_path / "first", tmp_path / "counted")
    what, act = operation(kind, counting, of_operation, tmp_path)
    with failing(counted, tmp_path / "counted"):
        act()
    fault = random_fault(rng, counted.n_touches, ERRORS)
    store = copied(tmp_path / "first", tmp_path / "store")
    what, act = operation(kind, store, of_operation, tmp_path)
    allowed = [outcome(rows, what)]
    said: ChronicleError | None = None
    try:
        with failing(fault, tmp_path / "store"):
            result = act()
    except ChronicleError as error:
        said = error
        allowed.append(rows)
    assert fault.n_failed > 0 or counted.n_touches <= fault.at, "the error was injected"
    assert not isinstance(said, CorruptBlockError), "nothing is damaged"
    if said is None and kind == "query":
        assert not any("left out" in warning for warning in result.actual.warnings)
        clear_caches()
        expected = replay.query(open_store(store.path), PROBE, plan="full").table
        assert result.table.to_pylist() == expected.to_pylist()
    if said is None and kind == "check":
        told = [f for f in result if f.severity is Severity.FAULT]
        assert [finding for finding in told if not finding.is_unread] == []
    check_afterwards(store, allowed, fault)


def check_afterwards(store: Store, allowed: list[list[Row]], fault: Fault) -> None:
    """Hold the store to its rows, by the process that met the error and by a fresh one."""
    found = rows_of(store.stream(STREAM))
    assert plain(found) in [plain(rows) for rows in allowed], fault
    check_answers(store, STREAM, found, PROBE)
    clear_caches()
    fresh = open_store(store.path)
    assert plain(rows_of(fresh.stream(STREAM))) == plain(found)
    check_answers(fresh, STREAM, found, PROBE)
    repair_store(fresh, derived=writer_of(fresh.stream(STREAM)), derived_checks=(check_runs,))
    assert faults_of(fresh, deep=True) == []
    stream = fresh.stream(STREAM)
    more = {"t": 99, "a": 1, "x": None, "s": None, "f": None, "k": None, "n": 10**6}
    stream.append(pa.Table.from_pylist([more], schema=NUMBERED), derived=writer_of(stream))
    assert plain(rows_of(stream)) == plain(in_order([*found, more]))
