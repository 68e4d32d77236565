"""The jobs that fill and merge indexes, from JSON text to JSON text."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from chronicle.config import EVENTS_TABLE
from chronicle.derived import DerivedChange, DerivedFile
from chronicle.time import to_int64
from chronicle.tree.blocks import BlockReader
from indexing.attributes import columns_to_index
from indexing.compaction import merge_indexes
from indexing.writer import RunWriter


@dataclass(frozen=True, slots=True)
class RunTask:
    """A data file and the attributes it lacks runs of."""

    stream_dir: str
    data_file: str
    attributes: tuple[str, ...]
    time: str
    key: str | None
    schema: str
    """Columns of the stream: Arrow's message of them, in base64."""

    @classmethod
    def of(
        cls,
        stream_dir: Path,
        data_file: str,
        attributes: Sequence[str],
        *,
        time: str,
        key: str | None,
        schema: pa.Schema,
    ) -> RunTask:
        """Return the task for a stream of ``schema``."""
        message = base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")
        return cls(str(stream_dir), data_file, tuple(attributes), time, key, message)

    def to_json(self) -> str:
        """Return the value as JSON text, to send it between processes."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RunTask:
        """Read back what ``to_json`` gave."""
        fields = json.loads(text)
        fields["attributes"] = tuple(fields["attributes"])
        return cls(**fields)

    def read_schema(self) -> pa.Schema:
        """Return the columns of the stream."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.schema)))


@dataclass(frozen=True, slots=True)
class MergeTask:
    """An index whose runs are to be merged."""

    stream_dir: str
    attribute: str
    live: tuple[str, ...]
    """Live data files in stream order."""

    full: bool
    keyed: bool
    """Whether the stream has a key column."""

    def to_json(self) -> str:
        """Return the value as JSON text, to send it between processes."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> MergeTask:
        """Read back what ``to_json`` gave."""
        fields = json.loads(text)
        fields["live"] = tuple(fields["live"])
        return cls(**fields)


def write_runs(text: str) -> str:
    """Write the runs of a :class:`RunTask`; return the files for ``read_files``."""
    task = RunTask.from_json(text)
    stream_dir = Path(task.stream_dir)
    schema = task.read_schema()
    reader = BlockReader(stream_dir / EVENTS_TABLE, schema)
    counts = reader.block_counts(task.data_file)
    key = () if task.key is None else (task.key,)
    needed = columns_to_index(schema, task.attributes, task.key)
    columns = list(dict.fromkeys((*needed, task.time, *key)))
    events = reader.read(task.data_file, range(len(counts)), columns)
    time = to_int64(events.column(task.time), name=task.time)
    files = RunWriter(task.attributes, task.time, key=task.key).write(
        stream_dir, task.data_file, events, time, counts
    )
    return json.dumps([asdict(file) for file in files])


def read_files(text: str) -> list[DerivedFile]:
    """Read back what ``write_runs`` gave."""
    return [DerivedFile(**fields) for fields in json.loads(text)]


def merge_index(text: str) -> str:
    """Merge the runs of a :class:`MergeTask`; return the change for ``read_change``."""
    task = MergeTask.from_json(text)
    changes = merge_indexes(
        Path(task.stream_dir), [task.attribute], task.live, full=task.full, keyed=task.keyed
    )
    return json.dumps([asdict(change) for change in changes])


def read_change(text: str) -> DerivedChange | None:
    """Read back what ``merge_index`` gave; None if nothing is to be done."""
    for fields in json.loads(text):
        added = tuple(DerivedFile(**file) for file in fields["added"])
        return DerivedChange(fields["table"], added, tuple(fields["removed"]))
    return None
