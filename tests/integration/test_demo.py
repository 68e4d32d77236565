"""The demo on the bundled data: its answers, its proof, and what it leaves behind."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from chronicle import create_store, open_store
from chronicle.errors import StoreExistsError
from datasets import tour
from replay import Result


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_demo_answers_three_questions_and_leaves_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour, "ROUNDS", 1)
    path = tmp_path / "demo-store"
    create_store(path)  # as if an earlier demo had stopped early: it is replaced
    said: list[str] = []
    shown: list[Result] = []
    tour.run_tour(path, command="chronicle", say=said.append, show=shown.append)

    words = "\n".join(said)
    assert "2,190 left out" in words
    assert words.count("the full replay gives the same answer") == 3
    robbery, homicides, thefts = shown
    # One match by a self-join over the same file: 00:30, 00:35 and 01:00 on 12 April 2008.
    night = dt.datetime(2008, 4, 12)
    assert [list(row.values()) for row in robbery.table.to_pylist()] == [
        [night.replace(minute=30), night.replace(minute=35), night.replace(hour=1),
         dt.timedelta(minutes=30)]
    ]  # fmt: skip
    for skips in (robbery, homicides):
        assert skips.actual.blocks_read < skips.actual.blocks_total // 2
    assert thefts.stats["plan"] == "full"
    assert thefts.actual.blocks_read == thefts.actual.blocks_total
    assert open_store(path).stream("crimes").snapshot().n_events == 641_866
    assert said[-1].count("  chronicle ") == 3
    assert not (path / "source").exists()


def test_demo_replaces_no_folder_but_its_own(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreExistsError, match="something else"):
        tour.run_tour(tmp_path, command="chronicle", say=print, show=print)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
