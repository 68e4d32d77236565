"""--report: a page beside the answer, of a plan, of a stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Commands

SQL = "SELECT t, a FROM s WHERE x > 9"


def test_query_writes_a_page_and_the_answer_as_without(command: Commands, tmp_path: Path) -> None:
    plain = command.succeeds("query", SQL, "--format", "json")
    target = tmp_path / "answer.html"
    done = command.succeeds("query", SQL, "--format", "json", "--report", target)
    assert (done.out, done.err) == (plain.out, plain.err)
    page = target.read_text()
    assert "3 rows" in page
    assert "<pre>SELECT t, a FROM s WHERE x &gt; 9</pre>" in page


def test_plan_and_stream_are_written_beside_what_is_printed(
    command: Commands, tmp_path: Path
) -> None:
    for words in (("query", SQL, "--explain"), ("describe", "s")):
        target = tmp_path / f"{words[0]}.html"
        plain = command.succeeds(*words)
        assert command.succeeds(*words, "--report", target).out.split()[:3] == plain.out.split()[:3]
        assert target.read_text().startswith("<!doctype html>")


def test_query_that_fails_leaves_no_page(command: Commands, tmp_path: Path) -> None:
    target = tmp_path / "answer.html"
    assert command("query", SQL, "--max-rows", "1", "--report", target).code == 1
    assert list(tmp_path.glob("*.html*")) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("answer.csv", "is to be a page; end it with .html"),
        ("nowhere/answer.html", "there is no folder"),
        ("s3://bucket/a.html", "s3"),
    ],
)
def test_page_that_cannot_be_written_is_refused_before_the_query(
    command: Commands, tmp_path: Path, name: str, says: str
) -> None:
    place = name if ":" in name else str(tmp_path / name)
    done = command("query", "SELECT nonsense FROM s", "--report", place)
    assert done.code in (1, 2)
    assert says in done.words
    assert "nonsense" not in done.words
