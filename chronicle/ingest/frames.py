"""Files as tasks for Spark, and their records as a frame where they must be sorted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronicle.ingest.columns import BLOCK_START, HELPERS, POSITION, ROW_ID, TIME
from chronicle.ingest.read_files import Cut, Piece, guess_columns, read_piece
from chronicle.ingest.read_plan import ReadPlan
from chronicle.ingest.sources import SourceFormat, SourceSet
from chronicle.ingest.survey import survey_batches
from chronicle.ingest.typed_files import rows_of_groups
from chronicle.ingest.types import to_spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_BYTES_MIN = 4 << 20
"""Small files share a task, up to about so many bytes."""

FILES_ALONE_MAX = 64
"""Up to so many files each has a task of its own, however small."""

_TASK_ROWS_MAX = 1 << 23
"""A task's work: many data files, and few enough rows that doing it again costs little."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Files that are to be read, and how."""

    plan: ReadPlan
    tasks: tuple[str, ...]
    """Pieces that one task reads, as JSON; in the order of arrival."""

    @property
    def schema(self) -> pa.Schema:
        """Of the events, as a stream stores them."""
        return self.plan.schema


def plan_tasks(sources: SourceSet, *, n_tasks: int) -> tuple[str, ...]:
    """Cut files into tasks of consecutive pieces: Parquet between row groups, others not at all.

    Parameters
    ----------
    sources
        The files.
    n_tasks
        Tasks that large files are cut into, at least.
    """
    files = list(enumerate(sources.files))
    if sources.format is SourceFormat.PARQUET and len(files) <= FILES_ALONE_MAX:
        rows = [rows_of_groups(path) for path in sources.files]
        return tuple(map(_to_text, ([one] for one in cut_files(sources.files, rows, n_tasks))))
    pieces = [Piece(position, str(path), 0, _n_groups(sources, path)) for position, path in files]
    if len(files) <= FILES_ALONE_MAX:
        return tuple(_to_text([piece]) for piece in pieces)
    numbers = np.cumsum(sources.sizes_bytes) // TASK_BYTES_MIN
    grouped = groupby(pieces, key=lambda piece: numbers[piece.position])
    return tuple(_to_text(list(group)) for _, group in grouped)


def cut_files(
    paths: Sequence[Path], group_rows: Sequence[Sequence[int]], n_tasks: int
) -> list[Piece]:
    """Cut Parquet files between row groups into at least about ``n_tasks`` like pieces. Pure.

    Parameters
    ----------
    paths
        The sources, in the order of arrival.
    group_rows
        Rows of every row group, for each of them.
    n_tasks
        Tasks that run at once.
    """
    n_rows = sum(map(sum, group_rows))
    size = max(1, min(_TASK_ROWS_MAX, -(-n_rows // n_tasks)))
    pieces = []
    for position, (path, rows) in enumerate(zip(paths, group_rows, strict=True)):
        before = np.concatenate(([0], np.cumsum(rows)))[: len(rows)]
        cuts = [0, *(np.flatnonzero(np.diff(before // size)) + 1).tolist(), len(rows)]
        pieces += [Piece(position, str(path), a, b) for a, b in pairwise(cuts) if a < b]
    return pieces


def _n_groups(sources: SourceSet, path: Path) -> int:
    return len(rows_of_groups(path)) if sources.format is SourceFormat.PARQUET else 0


def _to_text(pieces: Sequence[Piece]) -> str:
    return json.dumps([piece.to_plain() for piece in pieces])


def _to_pieces(text: str) -> list[Piece]:
    return [Piece(**fields) for fields in json.loads(text)]


# ---------------------------------------------------------------------------------------------
# What a task does; each is a ``chronicle.jobs.Job`` over the text of its pieces.


def guess_task(text: str, *, plan: ReadPlan) -> str:
    """Find out what the columns of text files seem to be; returns JSON by column."""
    from chronicle.ingest.cells import join_guesses, to_plain

    pieces = _to_pieces(text)
    guesses = join_guesses(guess_columns(Path(one.path), one.position, plan) for one in pieces)
    return json.dumps({name: to_plain(guess) for name, guess in guesses.items()})


def survey_task(text: str, *, plan: ReadPlan, stream_end: int | None) -> str:
    """Look at the times of all records; returns rows of a survey and the number of times cut."""
    cut = Cut()

    def batches() -> Iterator[pa.RecordBatch]:
        for piece in _to_pieces(text):
            for batch in read_piece(piece, plan, time_only=not plan.is_fine, cut=cut):
                yield batch.select([plan.time, POSITION, BLOCK_START]).rename_columns(
                    [TIME, POSITION, BLOCK_START]
                )

    found = survey_batches(batches(), stream_end=stream_end)
    rows = [row for batch in found for row in batch.to_pylist()]
    return json.dumps({"splits": rows, "n_cut": cut.n_values})


def read_task(text: str, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """Yield the records of all pieces of a task, see ``read_piece``."""
    for piece in _to_pieces(text):
        yield from read_piece(piece, plan)


# ---------------------------------------------------------------------------------------------
# The frame.


def sorted_frame(spark: SparkSession, reading: Reading, *, n_partitions: int) -> DataFrame:
    """Return all records sorted by time and arrival.

    The events' columns come first, by number instead of name, because ``mapInArrow`` stumbles
    over names with dots and backticks; then those of ``HELPERS``.
    """
    from pyspark.sql import functions as F  # noqa: N812 -- the name everyone knows
    from pyspark.sql.types import LongType, StructField, StructType

    spark.conf.set("spark.sql.shuffle.partitions", str(n_partitions))
    numbered = [pa.field(f"c{number}", one.type) for number, one in enumerate(reading.schema)]
    columns = [StructField(one.name, to_spark_type(one.type)) for one in [*numbered, *HELPERS]]
    wanted = StructType([*columns, StructField(ROW_ID, LongType())])
    read = partial(_read_numbered, plan=reading.plan, tasks=reading.tasks)
    # One row, one partition, one task each; the texts travel with the function.
    n_tasks = len(reading.tasks)
    frame = spark.range(0, n_tasks, 1, n_tasks).mapInArrow(read, wanted)
    time = f"c{reading.schema.get_field_index(reading.plan.time)}"
    ordered = frame.orderBy(*map(F.col, (time, POSITION, BLOCK_START, ROW_ID)))
    return ordered.select([one.name for one in [*numbered, *HELPERS]])


def _read_numbered(
    batches: Iterable[pa.RecordBatch], *, plan: ReadPlan, tasks: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the tasks whose numbers come in; runs in a worker."""
    names = [f"c{number}" for number in range(len(plan.schema))]
    n_rows = 0
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for records in read_task(tasks[number], plan):
                ids = pa.array(np.arange(n_rows, n_rows + records.num_rows))
                n_rows += records.num_rows
                yield pa.RecordBatch.from_arrays(
                    [*records.columns, ids], names=[*names, *HELPERS.names, ROW_ID]
                )
