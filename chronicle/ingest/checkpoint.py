"""What a followed folder has been read up to, kept beside the streams it goes into."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chronicle.config import EVENTS_TABLE
from chronicle.disk import flush, writing
from chronicle.errors import StorageError
from chronicle.log import delta_log
from chronicle.store import Store

FOLLOW_FOLDER = ".follow"
"""Folder at the root of a store with the checkpoints of its streams, by name."""

FOLLOW_PREFIX = "chronicle.follow."
"""Delta application ids of this prefix stand for checkpoints, their numbers for batches."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that this process alone holds."""

    id: str
    """Tells it from any other, also from one that lay at the same place before."""

    spark_dir: Path
    """Where Spark keeps which files belong to which batch."""

    @property
    def application_id(self) -> str:
        """What stands for it in commits."""
        return FOLLOW_PREFIX + self.id


def default_place(store: Store, stream_name: str, folder: Path) -> Path:
    """Return where the checkpoint of a folder followed into a stream lies; moves with the store."""
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return store.path / FOLLOW_FOLDER / stream_name / name


@contextmanager
def open_checkpoint(place: Path, store: Store, stream_name: str) -> Iterator[Checkpoint]:
    """Lend the checkpoint at ``place``, a new one if there is none that fits the stream.

    A checkpoint that is ahead of its stream belongs to one that was dropped or restored: what it
    holds for done is not in the stream, so it is begun anew. Files that the stream has all the
    same are then skipped as sources that were taken.

    Raises
    ------
    StorageError
        If another process holds it.
    """
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place / "lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(
                f"another process follows with checkpoint '{place}'; stop it first, or name "
                "another checkpoint"
            ) from error
        yield _load(place, store, stream_name)
    finally:
        os.close(descriptor)


def _load(place: Path, store: Store, stream_name: str) -> Checkpoint:
    identity, spark_dir = place / "checkpoint.json", place / "spark"
    if identity.exists():
        found = Checkpoint(json.loads(identity.read_text(encoding="utf-8"))["id"], spark_dir)
        if last_batch(spark_dir) <= last_committed(found, store, stream_name):
            return found
    shutil.rmtree(spark_dir, ignore_errors=True)
    fresh = Checkpoint(uuid.uuid4().hex, spark_dir)
    draft = place / "checkpoint.json.draft"
    with writing(identity):
        draft.write_text(json.dumps({"id": fresh.id}) + "\n", encoding="utf-8")
        flush([draft])
        draft.replace(identity)
    flush([place])
    return fresh


def last_batch(spark_dir: Path) -> int:
    """Return the number of the last batch Spark holds for done, -1 if none."""
    return max((int(path.name) for path in spark_dir.glob("commits/[0-9]*")), default=-1)


def last_committed(checkpoint: Checkpoint, store: Store, stream_name: str) -> int:
    """Return the number of the last batch that is in the stream, -1 if none."""
    events = store.path / stream_name / EVENTS_TABLE
    if not delta_log.table_exists(events):
        return -1
    number = delta_log.transaction_version(events, checkpoint.application_id)
    return -1 if number is None else number
