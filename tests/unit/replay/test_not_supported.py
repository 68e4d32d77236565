"""What docs/queries.md lists as not supported yet is refused by name, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings, create_store
from replay.errors import NotSupportedError, PlanError

DOCUMENT = Path(__file__).parents[3] / "docs" / "queries.md"
EVENTS = pa.table({"t": [1, 2, 3], "x": [1, 5, 2], "k": ["a", "b", "a"]})


def listed() -> list[tuple[str, str]]:
    """Return what each row of the table says, and its example."""
    section = DOCUMENT.read_text(encoding="utf-8").split("## Not supported yet\n")[1]
    rows = [line.strip("| ") for line in section.splitlines() if line.startswith("| ")]
    assert len(rows) > 12
    return [tuple(row.split(" | ")) for row in rows[2:]]  # type: ignore[misc]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = create_store(tmp_path_factory.mktemp("refused") / "store")
    store.create_stream("s", EVENTS.schema, StreamSettings(time="t")).append(EVENTS)
    return store


@pytest.mark.parametrize(("what", "example"), listed(), ids=[what for what, _ in listed()])
def test_each_line_is_refused(store: Store, what: str, example: str) -> None:
    *options, sql = re.findall(r"`([^`]+)`", example)
    given = dict(option.replace('"', "").split("=") for option in options)
    refused = PlanError if "plan" in given else NotSupportedError
    for source in (store, {"s": EVENTS}):
        with pytest.raises(refused):
            replay.query(source, sql, **given)  # type: ignore[arg-type]
