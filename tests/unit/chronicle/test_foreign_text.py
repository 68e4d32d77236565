"""Text that came from outside: what ends a line, and JSON that nobody can have meant."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings, check_store, open_store
from chronicle.errors import StorageError
from chronicle.foreign_text import actions_of, first_line, parse_json, split_lines
from chronicle.maintenance.finding import faults_of
from chronicle.write.evolve import add_column
from replay.language.tokens import place

LOOKS_LIKE_A_LINE_END = "\u0085\u2028\u2029\v\f\x1c\x1d\x1e"


def test_lines_end_in_line_feeds_alone() -> None:
    text = f"a{LOOKS_LIKE_A_LINE_END}b\r\n\nc"
    assert split_lines(text) == [f"a{LOOKS_LIKE_A_LINE_END}b", "", "c"]
    assert split_lines(f"{text}\n") == split_lines(text)
    assert first_line(text) == f"a{LOOKS_LIKE_A_LINE_END}b"
    actions = [{"txn": {"appId": "\u0085\u2028"}}, {"add": {}}]
    lines = [json.dumps(action, ensure_ascii=False) for action in actions]
    assert actions_of("\n".join(lines)) == actions_of("\n".join([*lines, ""])) == actions


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "{", ""])
def test_json_that_cannot_be_read_is_a_value_error_however_deep(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


@pytest.mark.parametrize("sign", list("\u0085\u2028\u2029"))
def test_names_and_texts_with_such_signs_are_kept_by_logs(sign: str, store: Store) -> None:
    events = pa.table({"t": [1, 2], f"n{sign}m": ["a", "b"]})
    stream = store.create_stream("s", events.schema, StreamSettings(time="t"))
    stream.append(events)
    add_column(stream, f"x{sign}y", pa.int64())
    stream.append(events.append_column(f"x{sign}y", pa.array([5, 6])))
    replay.query(store, f"CREATE STREAM c AS SELECT * FROM s -- two{sign}lines")
    assert faults_of(check_store(store)) == []
    found = replay.query(open_store(store.path), "SELECT * FROM c").table
    assert found.column_names == ["t", f"n{sign}m", f"x{sign}y"]
    assert found.column(2).to_pylist() == [None, 5, None, 6]


def test_the_place_of_a_fault_in_a_query_counts_line_feeds(store: Store) -> None:
    text = f"SELECT '{LOOKS_LIKE_A_LINE_END}'\n  FROM"
    where = place(text, text.index("FROM"))
    assert (where["line"], where["column"]) == (2, 3)


def test_a_marker_of_many_brackets_is_a_damaged_marker(store: Store) -> None:
    Path(store.path, "chronicle-store.json").write_text("[" * 200_000)
    with pytest.raises(StorageError, match=r"marker file .* is damaged"):
        open_store(store.path)
    assert "marker" in str(faults_of(check_store(store.path))[0].what)
