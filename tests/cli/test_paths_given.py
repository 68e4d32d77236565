"""Paths on the command line: URLs and ``~``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Commands, assert_refused, write


def test_a_store_or_an_answer_at_a_url_is_refused_and_makes_no_folder(
    command: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = write(tmp_path / "x.csv", "t\n1\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    at_url = ("--stream", "n", "--time", "t", "--store", "s3://bucket/x")
    assert_refused(command("append", events, *at_url, store=False), "is a URL")
    assert_refused(command("check", "s", "--store", "s3://bucket/x", store=False), "is a URL")
    answer = command("query", "SELECT a FROM s", "--format", "csv", "--out", "gs://b/x.csv")
    assert_refused(answer, "is a URL")
    assert list((tmp_path / "here").iterdir()) == []


def test_the_home_folder_is_expanded_where_no_shell_did(
    command: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert command("describe", "s", "--store=~/store", store=False).code == 0
