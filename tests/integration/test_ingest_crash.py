"""An ingest that is interrupted at any step of its commits is done or undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chronicle.ingest import pipeline
from chronicle.ingest.pipeline import ingest
from chronicle.log import delta_log
from chronicle.store import Store
from chronicle.write import commit
from indexing import RunWriter
from tests.ingest_files import TIES, Row, options, read_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


# Crashes.

STEPS: tuple[tuple[Any, str], ...] = (
    (pipeline, "commit_quarantine"),
    (commit, "commit_events"),
    (commit, "commit_tree"),
    (commit, "commit_derived"),
)


def interrupted(step: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    """Return a step after (or before) which the process is interrupted."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if not before:
            step(*args, **kwargs)
        raise KeyboardInterrupt

    return run


def crash_rows(first: int) -> list[Row]:
    rows: list[Row] = [{"t": first + i, "n": i, "pad": "x"} for i in range(5)]
    return [*rows, {"t": None, "n": 99, "pad": "faulty"}]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(("module", "step"), STEPS, ids=[name for _, name in STEPS])
def test_interrupted_append_is_done_or_undone(
    tmp_path: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    step: str,
    before: bool,
) -> None:
    paths = [write_rows(tmp_path / f"{t}.parquet", crash_rows(t), TIES) for t in (0, 10, 20)]
    given = options(index=("n",))
    ingest(store, "s", paths[:1], given, derived=RunWriter)
    with monkeypatch.context() as patch:
        patch.setattr(module, step, interrupted(getattr(module, step), before=before))
        with pytest.raises(KeyboardInterrupt):
            ingest(store, "s", paths[1:2], given, derived=RunWriter)
    landed = step in ("commit_tree", "commit_derived") or (step == "commit_events" and not before)
    times = [*range(5), *(range(10, 15) if landed else ())]
    assert [row["t"] for row in read_rows(store)] == times
    assert not list(store.path.glob(".ingest-*"))
    live = {file.name for file in store.stream("s").snapshot().files}
    assert {path.name for path in (store.path / "s" / "events").glob("*.parquet")} == live

    ingest(store, "s", paths[2:], given, derived=RunWriter)
    snapshot = store.stream("s").snapshot()
    assert [row["t"] for row in read_rows(store)] == [*times, *range(20, 25)]
    assert all(file.has_tree for file in snapshot.files)
    runs = {file.name for file in delta_log.live_files(store.path / "s" / "index" / "n")}
    assert runs == {file.name for file in snapshot.files}


@pytest.mark.parametrize(
    ("module", "step"), [*STEPS, (pipeline, "move_stream")], ids=lambda part: str(part)[-20:]
)
def test_interrupted_first_ingest_leaves_no_stream(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    path = write_rows(tmp_path / "a.parquet", crash_rows(0), TIES)
    with monkeypatch.context() as patch:
        patch.setattr(module, step, interrupted(getattr(module, step), before=True))
        with pytest.raises(KeyboardInterrupt):
            ingest(store, "s", [path], options())
    assert store.stream_names() == ()
    assert [entry.name for entry in store.path.iterdir()] == ["chronicle-store.json"]
    ingest(store, "s", [path], options())
    assert len(read_rows(store)) == 5
