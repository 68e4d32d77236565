"""CSV files of any line ends, quotes and widths hold the same rows, whichever door reads them.

The oracle is Python's csv module. What is no record is put aside by `append` and `ingest`, so that
events and quarantine are all records, and refused with its line by ``--table`` and FROM.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
import typer

import replay
from chronicle.ingest import raw_text
from chronicle.ingest.helper_columns import REASON
from chronicle.ingest.local import read_files
from chronicle.ingest.read_files import Piece, read_piece
from chronicle.ingest.read_options import ReadOptions
from chronicle.ingest.read_plan import inspect_sources, make_plan
from chronicle.ingest.sources import find_sources
from chronicle.ingest.tasks import survey_task
from replay.console.options import tables_of
from replay.errors import QueryError
from tests.campaigns.seeds import seeds
from tests.csv_texts import csv_records, csv_text

FILES = 100
"""Files of a seed."""

Cells = list[str | None]


@pytest.mark.parametrize("seed", seeds(200, fast=1))
def test_every_door_takes_the_same_rows(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    path = tmp_path / "a.csv"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(raw_text, "_CHUNK_BYTES", random.choice((5, 200, *[1 << 20] * 8)))
    for _ in range(FILES if seed else FILES // 5):
        text, n_columns = csv_text(random, has_time=True)
        path.write_bytes(text.encode())
        records = csv_records(text, n_columns)
        events = [cells for _, cells in records if cells is not None and is_event(cells)]
        due = typed(events, stream_schema(n_columns)), len(records) - len(events)
        for take in (by_append, by_ingest):
            assert take(path, n_columns) == due, (take, text)
        bad_lines = [line for line, cells in records if cells is None]
        rows = [cells for _, cells in records if cells is not None]
        for read in (by_table, by_from):
            if not bad_lines:
                table = read(path)
                assert as_cells(table) == typed(rows, table.schema), (read, text)
            else:
                with pytest.raises((QueryError, typer.BadParameter)) as caught:
                    read(path)
                assert re.search(rf"line {bad_lines[0]:,} of 'a.csv'", str(caught.value)), text


def is_event(cells: Cells) -> bool:
    """Return whether the time of a record, its first cell, is a whole number."""
    try:
        int(cells[0] or "")
    except ValueError:
        return False
    return True


def stream_schema(n_columns: int) -> pa.Schema:
    """Return the columns of a stream to append to: a time, and texts."""
    return pa.schema([("a", pa.int64()), *((name, pa.string()) for name in "bc"[: n_columns - 1])])


def typed(rows: list[Cells], schema: pa.Schema) -> list[Cells]:
    """Return rows as a table holds them: whole numbers lose the blanks around them."""
    are_numbers = [pa.types.is_integer(kind) for kind in schema.types]
    return [
        [
            str(int(x)) if is_number and x else x
            for x, is_number in zip(row, are_numbers, strict=True)
        ]
        for row in rows
    ]


def as_cells(table: pa.Table | pa.RecordBatch) -> list[Cells]:
    """Return rows as their cells are written."""
    return [[None if x is None else str(x) for x in row.values()] for row in table.to_pylist()]


def by_append(path: Path, n_columns: int) -> tuple[list[Cells], int]:
    """Return the events, and how many records are put aside, as `append` takes a file."""
    found = read_files([path], ReadOptions(), time="a", schema=stream_schema(n_columns))
    return as_cells(found.events), found.put_aside.num_rows


def by_ingest(path: Path, n_columns: int) -> tuple[list[Cells], int]:
    """Return the same as Spark's workers take it: what they survey, and what they write."""
    sources = find_sources([path], format_name=None)
    schema, options = stream_schema(n_columns), ReadOptions()
    found = inspect_sources(sources, options, time="a", stream_schema=schema)
    plan = make_plan(found, options, time="a", stream_schema=schema, guess=dict)
    pieces = (Piece(0, str(path)),)
    splits, _ = survey_task(pieces, plan=plan, stream_end=None)
    batches = list(read_piece(pieces[0], plan))
    events = [batch for batch in batches if batch.column(REASON).null_count == len(batch)]
    rows = [row for batch in events for row in as_cells(batch.select(schema.names))]
    n_bad = sum(map(len, batches)) - len(rows)
    assert [(one.n_usable, one.n_bad) for one in splits] in ([], [(len(rows), n_bad)])
    return rows, n_bad


def by_table(path: Path) -> pa.Table:
    """Return the rows of ``--table n=file``."""
    return tables_of([f"n={path.name}"])["n"]


def by_from(path: Path) -> pa.Table:
    """Return the rows of ``FROM 'file'``."""
    return replay.query({}, f"SELECT * FROM '{path.name}'").table
