"""Which runs of an index are whole, which data files lack one, and which runs none needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from chronicle.config import EVENTS_TABLE
from chronicle.log import delta_log
from chronicle.schema import normalise_schema
from indexing.attributes import indexed_field
from indexing.errors import CorruptRunError
from indexing.keys import KeyKind, key_kind
from indexing.run import Run, open_run
from indexing.tables import index_table, is_of_one_file


@dataclass(frozen=True, slots=True)
class RunListing:
    """The runs one version of an index table lists, as they are found on disk."""

    whole: Mapping[str, Run]
    """By name, footers checked, and entries where that was asked for."""

    damaged: Mapping[str, CorruptRunError]
    """By name: missing, damaged, of another format or of another type of key."""

    def covered(self, files: Mapping[str, int]) -> set[str]:
        """Return which of ``files`` (number of events by name) whole runs cover."""
        return {
            covered.name
            for run in self.whole.values()
            for covered in run.cover
            if files.get(covered.name) == covered.n_events
        }

    def lacking(self, files: Mapping[str, int], *, least_events: int) -> set[str]:
        """Return the files of at least ``least_events`` events that no whole run covers."""
        large = {name for name, n_events in files.items() if n_events >= least_events}
        return large - self.covered(files)


def list_runs(
    stream_dir: Path,
    attribute: str,
    live: Collection[str],
    *,
    keyed: bool = False,
    deep: bool = False,
) -> RunListing:
    """Open the runs of an index that may cover files of ``live``, whose test of membership is fast.

    Runs of one data file that is not among them stay unopened and are left out: they serve older
    versions, and after many rewrites there are many of them. Without an index table there are none.

    Parameters
    ----------
    keyed
        Whether entries are to carry the value of the stream's key column: runs without it then
        count as damaged.
    deep
        Whether to read all entries for their checksums: a footer tells nothing of them.
    """
    folder = stream_dir / index_table(attribute)
    whole: dict[str, Run] = {}
    damaged: dict[str, CorruptRunError] = {}
    if not delta_log.table_exists(folder):
        return RunListing(whole, damaged)
    state = delta_log.load_table(folder)
    schema = normalise_schema(delta_log.load_table(stream_dir / EVENTS_TABLE).schema)
    kind = key_kind(indexed_field(schema, attribute).type, attribute)
    for name in sorted(file.name for file in state.files):
        if is_of_one_file(name) and name not in live:
            continue
        try:
            run = _open(folder / name, attribute, kind, keyed=keyed)
            if deep:
                run.check()
            whole[name] = run
        except CorruptRunError as error:
            if error.unread is not None:
                raise  # it may be whole, and must not be taken out of its table
            damaged[name] = error
    return RunListing(whole, damaged)


def _open(path: Path, attribute: str, kind: KeyKind, *, keyed: bool) -> Run:
    run = open_run(path)
    if keyed and run.object_kind is None:
        raise CorruptRunError(str(path), "it lacks the values of the key column")
    run.check_keys(attribute, kind)
    return run


def expired_runs(stream_dir: Path, attribute: str, kept: Collection[str]) -> tuple[str, ...]:
    """Return the runs of an index that cover none of the data files in ``kept``, sorted.

    A merged run that cannot be read is not among them: nobody knows what it covers, and ``repair``
    replaces it.
    """
    folder = stream_dir / index_table(attribute)
    if not delta_log.table_exists(folder):
        return ()
    names = sorted(file.name for file in delta_log.live_files(folder))
    return tuple(name for name in names if not _covers_any(folder / name, kept))


def _covers_any(run: Path, kept: Collection[str]) -> bool:
    if is_of_one_file(run.name):
        return run.name in kept
    try:
        return any(covered.name in kept for covered in open_run(run).cover)
    except CorruptRunError:
        return True
