"""Read CSV and JSON files as tables, by the rules by which streams take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.errors import SourceError
from chronicle.ingest.cells import Guess, join_guesses, read_cells
from chronicle.ingest.raw_text import RecordBatch
from chronicle.ingest.read_files import guess_columns
from chronicle.ingest.read_options import ReadOptions
from chronicle.ingest.read_plan import (
    ReadPlan,
    Records,
    inspect_sources,
    open_records,
    text_plan,
    type_notes,
)
from chronicle.ingest.sources import (
    SourceFormat,
    SourceSet,
    check_column_names,
    format_of,
)
from chronicle.type_names import sql_type
from chronicle.words import number_of


def text_format(path: str | Path) -> SourceFormat | None:
    """Return the format of a text file by its ending; None for others."""
    name = Path(path)
    found = format_of(name) or format_of(Path(str(name).lower().replace(".txt", ".csv")))
    return found if found in (SourceFormat.CSV, SourceFormat.JSON) else None


@dataclass(frozen=True, slots=True)
class TextTable:
    """Text files as one table, whose types were found out by reading them through."""

    plan: ReadPlan
    paths: tuple[Path, ...]
    look: Callable[[], object]

    @property
    def schema(self) -> pa.Schema:
        """The columns, each of the narrowest type that all its cells fit."""
        return self.plan.schema

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of how the files were read."""
        return self.plan.notes

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the order of the files.

        Raises
        ------
        SourceError
            If something in a file is no record: there is no quarantine to put it into.
        """
        names = tuple(self.schema.names)
        for path, shown in zip(self.paths, self.plan.names, strict=True):
            records = open_records(path, self.plan, columns=names)
            for batch in records:
                self.look()
                columns = [self._column(one, batch, records, shown) for one in self.schema]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
            _check_all_taken(records, shown)

    def _column(self, one: pa.Field, batch: RecordBatch, records: Records, shown: str) -> pa.Array:
        """Return the values of a column, each of whose cells has one."""
        values, bad = read_cells(batch.cells[one.name], one.type)
        why = f"does not parse as {sql_type(one.type)}"
        if one.name in batch.nested:
            bad = batch.nested[one.name].to_numpy(zero_copy_only=False)
            why = "holds an object or an array, and plain values elsewhere"
        if bad.any():
            line = next(iter(records.places([batch.first + int(np.argmax(bad))]))).line
            raise SourceError(f"line {line:,} of '{shown}': column '{one.name}' {why}; {_REMEDY}")
        return values


_REMEDY = (
    "mend the file, or take it into a stream ('chronicle append'), which puts such records aside"
)


def open_text_table(
    paths: Sequence[Path],
    format_: SourceFormat,
    *,
    names: Sequence[str] | None = None,
    look: Callable[[], object] = lambda: None,
) -> TextTable:
    """Find out the columns and types of text files that are one table.

    Parameters
    ----------
    paths
        Files of one header, all of them CSV or JSON.
    names
        What people call them; the paths if None.
    look
        Called between pieces of work, such as to end it.
    """
    options = ReadOptions()
    shown = tuple(names or map(str, paths))
    sizes = tuple(path.stat().st_size for path in paths)
    for name, size in zip(shown, sizes, strict=True):
        if not size:
            raise SourceError(f"'{name}' is empty, and has no columns; leave it out")
    found = inspect_sources(
        SourceSet(format_, tuple(paths), sizes), options, time=None, names=shown
    )
    plan = text_plan(found, options)
    guesses = join_guesses(
        guess_columns(path, position, plan, look) for position, path in enumerate(paths)
    )
    if not guesses and not found.columns:
        raise SourceError(f"'{shown[0]}' holds no record, and so no columns; leave it out")
    columns = {**dict.fromkeys(found.columns, Guess()), **guesses}
    nested = [name for name, one in columns.items() if one.is_nested]
    taken = {name: one for name, one in columns.items() if name not in nested}
    if not taken:
        raise SourceError(f"all fields of '{shown[0]}' hold objects or arrays; flatten them")
    check_column_names(tuple(taken), time=None, where=f"'{shown[0]}'")
    left_out = [f"{name} left out, since it holds objects or arrays" for name in nested]
    notes = (*left_out, *type_notes(taken, shown, has_points=False))
    schema = pa.schema([(name, one.data_type) for name, one in taken.items()])
    plan = replace(plan, schema=schema, left_out=frozenset(nested), notes=notes)
    return TextTable(plan, tuple(paths), look)


def _check_all_taken(records: Records, shown: str) -> None:
    """Refuse a file in which something is no record."""
    rejects = iter(records.rejects())
    first = next(rejects, None)
    if first is None:
        return
    n_more = sum(1 for _ in rejects)
    more = f" (and {number_of(n_more, 'further record')})" if n_more else ""
    raise SourceError(f"line {first.line:,} of '{shown}'{more}: {first.reason}; {_REMEDY}")
