"""What was acknowledged survives a power failure at any moment, and the stream opens.

At each step that leaves something on the disk, several images are made of what the disk may hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chronicle import StreamSettings, create_store, open_store
from chronicle.errors import StorageError
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.repair import repair_store
from chronicle.write.lifecycle import delete_range
from indexing.check import check_runs
from indexing.lifecycle import create_index
from tests.campaigns.kill_worker import random_events
from tests.crash_points import Disk, dying_at, watched_disk
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

N_SEEDS, N_SEEDS_FAST = 40, 2
N_OPERATIONS = 7


def check_image(image: Path, allowed: list[list[Row]]) -> None:
    """Hold what a power failure left to what may be there, after a repair and by every plan."""
    store = open_store(image)
    repair_store(store, derived_checks=(check_runs,))
    store = open_store(image)
    found = rows_of(store.stream("s"))
    assert plain(found) in [plain(rows) for rows in allowed]
    check_answers(store, "s", found, PROBE)
    stream = store.stream("s")
    derived = writer_of(stream)
    fresh = {"t": 100, "a": 1, "x": None, "s": None, "f": None, "k": None, "n": 10**6}
    stream.append(pa.Table.from_pylist([fresh], schema=NUMBERED), derived=derived)
    repair_store(store, derived=derived, derived_checks=(check_runs,))
    assert faults_of(store, deep=True) == []
    assert plain(rows_of(open_store(image).stream("s"))) == plain(in_order([*found, fresh]))


class Images:
    """Makes images at some of the steps that change the disk."""

    def __init__(self, disk: Disk, root: Path, folder: Path, rng: random.Random) -> None:
        self._disk, self._root, self._folder, self._rng = disk, root, folder, rng
        self.allowed: list[list[Row]] = []
        self.n_made = 0
        self.share = 0.05

    def make(self) -> None:
        if not self.allowed or self._rng.random() > self.share:
            return
        image = self._folder / str(self.n_made)
        self.n_made += 1
        self._disk.after_power_failure(self._root, image, self._rng)
        # Opening it flushes what a repair writes, which is not of this disk.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("os.fsync", lambda _: None)
            check_image(image, self.allowed)


def operations(rng: random.Random, stream: Any, n: int) -> tuple[Callable[[], Any], Any]:
    kind = rng.choice(("append", "append", "append", "compact", "delete", "index"))
    runs = writer_of(stream)
    if kind == "append":
        rows = random_events(rng, n)
        table = pa.Table.from_pylist(rows, schema=NUMBERED)
        return partial(stream.append, table, derived=runs), lambda old: in_order(old + rows)
    if kind == "delete":
        start = rng.randint(0, 60)
        return partial(delete_range, stream, start, start + 5, derived=runs), lambda old: [
            row for row in old if not start <= row["t"] < start + 5
        ]
    if kind == "index":
        what = [rng.choice("axs")]
        return partial(create_index, stream, what, least_events=0), lambda old: old
    return partial(compact_events, stream, derived=runs, full=True), lambda old: old


@pytest.mark.parametrize(
    "seed",
    [
        *range(N_SEEDS_FAST),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(N_SEEDS_FAST, N_SEEDS)),
    ],
)
def test_what_was_acknowledged_survives_a_power_failure(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with watched_disk() as disk:
        disk.flush(tmp_path)
        store = create_store(tmp_path / "store")
        knobs = StreamSettings(time="t", block_events=3, file_events=9, fan_out=2)
        stream = store.create_stream("s", NUMBERED, knobs)
        images = Images(disk, store.path, tmp_path, rng)
        rows: list[Row] = []
        for i in range(N_OPERATIONS):
            act, to_rows = operations(rng, stream, 1000 * i)
            images.allowed = [rows, to_rows(rows)]
            with dying_at(None, lambda: None, at_each=images.make):
                act()
            rows = to_rows(rows)
            images.allowed = [rows]
            images.make()
        images.share = 1.0
        images.make()
        assert images.n_made > 0


def test_regression_without_flushing_acknowledged_events_can_be_lost(tmp_path: Path) -> None:
    """The harness sees what is not flushed: else the test above would show nothing."""
    with watched_disk() as disk, pytest.MonkeyPatch.context() as patch:
        store = create_store(tmp_path / "store")
        knobs = StreamSettings(time="t", block_events=3, file_events=9, fan_out=2)
        stream = store.create_stream("s", NUMBERED, knobs)
        patch.setenv("CHRONICLE_SYNC", "off")
        rows = random_events(random.Random(0), 0)
        stream.append(pa.Table.from_pylist(rows, schema=NUMBERED))
        lost = 0
        for seed in range(10):
            image = tmp_path / str(seed)
            disk.after_power_failure(store.path, image, random.Random(seed))
            try:
                lost += plain(rows_of(open_store(image).stream("s"))) != plain(in_order(rows))
            except StorageError:
                lost += 1
        assert lost > 0
