"""Read files into batches of typed events, and of records that are none, with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.errors import SchemaError
from chronicle.ingest.cells import (
    Guess,
    as_text,
    is_like_a_name,
    is_number,
    may_lose_digits,
    read_cells,
)
from chronicle.ingest.helper_columns import CELLS, HELPERS, LINE, REASON, RECORD
from chronicle.ingest.local_times import Folds, infer_folds
from chronicle.ingest.raw_text import Place, RecordBatch
from chronicle.ingest.read_options import ReadOptions
from chronicle.ingest.read_plan import ReadPlan, Records, open_records, unknown_field
from chronicle.ingest.sources import SourceFormat
from chronicle.ingest.times import Fault, Times, look_ahead, read_times
from chronicle.ingest.typed_files import read_typed
from chronicle.paths import repeated
from chronicle.time import cut_to_us, to_us
from chronicle.type_names import sql_type
from chronicle.write.quarantine import cells_of_text, to_json

_FAULTS_TOGETHER = 1 << 14


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file that is read from end to end: of Parquet row groups ``first:stop``."""

    position: int
    """Of the file among the sources."""

    path: str
    first: int = 0
    stop: int = 0


@dataclass(slots=True)
class Cut:
    """How many values became others than they are written, counted as files are read."""

    n_values: int = 0
    """Those that lost what is less than a microsecond."""

    n_twice: int = 0
    """Times that clocks show twice, and were taken."""

    def add(self, read: Times) -> None:
        """Count what became of times."""
        self.n_values += read.n_cut
        self.n_twice += read.n_twice


def read_piece(
    piece: Piece, plan: ReadPlan, *, time_only: bool = False, cut: Cut | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a piece: the events' columns, then those of ``HELPERS``.

    Events come in the order of the file. Records that are none come in batches of their own, those
    of text files last. ``time_only`` reads the time column alone, where that spares reading the
    others. An integer column that holds a fraction though nobody stated its type is refused.
    """
    counted = Cut() if cut is None else cut
    batches = _read(piece, plan.in_files, time_only=time_only, cut=counted)
    if not plan.constants or time_only:
        yield from batches
        return
    for batch in batches:
        yield _with_constants(batch, plan, plan.constants[piece.position])


def _with_constants(
    batch: pa.RecordBatch, plan: ReadPlan, constants: Mapping[str, pa.Scalar]
) -> pa.RecordBatch:
    """Put the values beside events that stand in the path of their file."""
    n = batch.num_rows
    columns = [
        repeated(constants[one.name], n, one.type)
        if one.name in constants
        else batch.column(one.name)
        for one in plan.schema
    ]
    helpers = [batch.column(name) for name in HELPERS.names]
    if batch.column(REASON).null_count < n:
        texts = pc.coalesce(batch.column(CELLS), batch.column(RECORD)).to_pylist()
        told = {name: None if one.as_py() is None else str(one) for name, one in constants.items()}
        cells = [json.dumps({**cells_of_text(text or ""), **told}) for text in texts]
        helpers[HELPERS.names.index(CELLS)] = pa.array(cells, pa.string())
    names = [*plan.schema.names, *HELPERS.names]
    return pa.RecordBatch.from_arrays([*columns, *helpers], names=names)


def _read(piece: Piece, plan: ReadPlan, *, time_only: bool, cut: Cut) -> Iterator[pa.RecordBatch]:
    if plan.format in (SourceFormat.PARQUET, SourceFormat.ARROW):
        yield from _read_typed(piece, plan, time_only=time_only, cut=cut)
        return
    records = open_records(Path(piece.path), plan, columns=tuple(plan.schema.names))
    faults: list[tuple[int, str]] = []
    refusals: list[Refusal] = []
    for batch, folds in _in_order(records, plan, lambda batch: batch.cells[plan.time]):
        events, bad = to_events(batch, plan, refusals, cut=cut, folds=folds)
        faults += bad
        if events.num_rows:
            yield with_helpers(events, piece)
    raise_first(refusals, records, plan, piece)
    yield from _faults_of_text(records, faults, plan, piece)


Batch = TypeVar("Batch", RecordBatch, pa.RecordBatch)


def _in_order(
    batches: Iterable[Batch], plan: ReadPlan, time_of: Callable[[Batch], pa.Array]
) -> Iterator[tuple[Batch, Folds | None]]:
    """Yield batches with what the order of their file says of local times, if it is asked."""
    if plan.reading.looks_ahead:
        return infer_folds(batches, lambda batch: look_ahead(time_of(batch), plan.reading))
    return ((batch, None) for batch in batches)


def with_helpers(events: pa.RecordBatch, piece: Piece) -> pa.RecordBatch:
    """Return events with what accompanies them."""
    n = events.num_rows
    helpers = [
        *(pa.nulls(n, one.type) for one in list(HELPERS)[:4]),
        pa.array(np.full(n, piece.position, np.int32)),
        pa.array(np.full(n, piece.first, np.int64)),
    ]
    return pa.RecordBatch.from_arrays(
        [*events.columns, *helpers], names=[*events.schema.names, *HELPERS.names]
    )


def faulty_records(
    rows: Sequence[tuple[str, str, int | None, str | None]], schema: pa.Schema, piece: Piece
) -> pa.RecordBatch:
    """Return records that are no events, given by reason, text, line and cells."""
    n = len(rows)
    empty = pa.RecordBatch.from_arrays([pa.nulls(n, one.type) for one in schema], schema=schema)
    batch = with_helpers(empty, piece)
    names = (REASON, RECORD, LINE, CELLS)
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, name, pa.array(values, HELPERS.field(name).type))
    return batch


# ---------------------------------------------------------------------------------------------
# Text.


@dataclass(frozen=True, slots=True)
class Refusal:
    """A cell for which nothing of its file is taken."""

    number: int
    column: str
    text: str | None
    """None where the stream has no such column."""
    loss: str = ""
    """What it would lose as a number, though it is one; empty if it is none of the column."""


def to_events(
    batch: RecordBatch,
    plan: ReadPlan,
    refusals: list[Refusal],
    *,
    cut: Cut,
    folds: Folds | None = None,
) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
    """Part the events of a batch from what is none, given by number and reason."""
    reasons = np.zeros(batch.n_records, object)
    columns: dict[str, pa.Array] = {}
    if plan.format is SourceFormat.JSON:
        refuse_unknown(batch, plan, refusals)
    for one in plan.schema:
        if one.name == plan.time:
            continue
        cells = batch.cells[one.name]
        values, bad = read_cells(cells, one.type, decimal_comma=plan.options.decimal_comma)
        if one.name in batch.nested:
            deep = batch.nested[one.name].to_numpy(zero_copy_only=False)
            reasons[deep] = f"column '{one.name}' holds an object or an array"
        if one.name in plan.firm:
            _refuse_losses(batch, one.name, values, bad, refusals)
        if bad.any():
            if one.name in plan.firm and pat.is_integer(one.type):
                _refuse_fractions(batch, one.name, bad, plan, refusals)
            why = f"column '{one.name}' does not parse as {sql_type(one.type)}"
            free = bad & (reasons == 0)
            reasons[free] = why
            reasons[free & _has_comma(cells, one.type, plan.options)] = (
                f"{why} (with --decimal-comma it does)"
            )
        columns[one.name] = values
    target = plan.schema.field(plan.time).type
    read = read_times(batch.cells[plan.time], plan.reading, target, folds)
    cut.add(read)
    columns[plan.time] = read.times
    for fault in np.unique(read.faults[read.faults != 0]).tolist():
        here = (read.faults == fault) & (reasons == 0)
        reasons[here] = Fault(fault).reason(plan.time)
    events = pa.RecordBatch.from_arrays(
        [columns[name] for name in plan.schema.names], schema=plan.schema
    )
    wrong = reasons != 0
    if not wrong.any():
        return events, []
    places = np.flatnonzero(wrong)
    found = [(batch.first + row, reasons[row]) for row in places.tolist()]
    return events.filter(pa.array(~wrong)), found


def refuse_unknown(batch: RecordBatch, plan: ReadPlan, refusals: list[Refusal]) -> None:
    """Note the fields of JSON that the plan has no column for."""
    for name in batch.cells.keys() - set(plan.schema.names) - plan.left_out:
        valid = batch.cells[name].is_valid().to_numpy(zero_copy_only=False)
        if name in batch.nested:
            valid = valid | batch.nested[name].to_numpy(zero_copy_only=False)
        if valid.any():
            number = batch.first + int(np.flatnonzero(valid)[0])
            refusals.append(Refusal(number, name, None))


def _has_comma(
    cells: pa.Array, data_type: pa.DataType, options: ReadOptions
) -> npt.NDArray[np.bool_]:
    """Return which cells are numbers if a comma is what precedes their fraction."""
    if options.decimal_comma or not is_number(data_type):
        return np.zeros(len(cells), dtype=bool)
    return ~read_cells(cells, data_type, decimal_comma=True)[1]


def _refuse_losses(
    batch: RecordBatch,
    name: str,
    values: pa.Array,
    bad: npt.NDArray[np.bool_],
    refusals: list[Refusal],
) -> None:
    """Refuse cells that a column of numbers would hold without a sign or digit of theirs."""
    cells = batch.cells[name]
    if pat.is_string(cells.type):
        rows = np.flatnonzero(is_like_a_name(cells) & ~bad)
        if len(rows):
            loss = "digits behind a 0 or + may be a name, as of a town or a telephone"
            row = int(rows[0])
            refusals.append(Refusal(batch.first + row, name, str(cells[row].as_py()), loss))
    if pat.is_floating(values.type):
        for row in np.flatnonzero(may_lose_digits(cells) & ~bad).tolist():
            written, held = int(cells[row].as_py()), int(values[row].as_py())
            if written != held:
                loss = f"as a number it would be {held}"
                refusals.append(Refusal(batch.first + row, name, str(written), loss))
                return


def _refuse_fractions(
    batch: RecordBatch,
    name: str,
    bad: npt.NDArray[np.bool_],
    plan: ReadPlan,
    refusals: list[Refusal],
) -> None:
    """Refuse numbers with a fraction in a column of integers: they are no mere mistakes."""
    texts = as_text(batch.cells[name]).filter(pa.array(bad))
    numbers, wrong = read_cells(texts, pa.float64(), decimal_comma=plan.options.decimal_comma)
    broken = ~wrong & pc.fill_null(pc.is_finite(numbers), False).to_numpy(zero_copy_only=False)
    broken &= pc.match_substring_regex(texts, "[.,eE]").to_numpy(zero_copy_only=False)
    if broken.any():
        row = int(np.flatnonzero(broken)[0])
        number = batch.first + int(np.flatnonzero(bad)[row])
        refusals.append(Refusal(number, name, str(texts[row].as_py())))


def raise_first(
    refusals: Sequence[Refusal], records: Records, plan: ReadPlan, piece: Piece
) -> None:
    """Raise the refusal of the first cell for which nothing of its file is taken, if any is."""
    if not refusals:
        return
    first = min(refusals, key=lambda one: one.number)
    place = next(records.places([first.number]))
    where = plan.names[piece.position]
    if first.text is None:
        raise unknown_field(first.column, place.line, where, plan.schema.names)
    data_type = sql_type(plan.schema.field(first.column).type)
    found = (
        f"line {place.line:,} of '{where}' holds '{first.text}' in column '{first.column}', which "
        f"is {data_type} in the stream"
    )
    if first.loss:
        raise SchemaError(
            f"{found}: {first.loss}; nothing was taken: take the files into a new stream, where "
            f"the column is STRING, or state --schema '{first.column} {data_type}' to take them as "
            "numbers"
        )
    raise SchemaError(
        f"{found}; nothing was taken: take the files into a new stream whose --schema says "
        f"'{first.column} DOUBLE', or state '{first.column} {data_type}' to have such records put "
        "into the quarantine"
    )


def _faults_of_text(
    records: Records, faults: Sequence[tuple[int, str]], plan: ReadPlan, piece: Piece
) -> Iterator[pa.RecordBatch]:
    """Yield what is no event, with its text, its line and the cells that it can be parted into."""
    rejects = (
        (one.reason, one.text, one.line, records.cells_of(one.text, doubtful=plan.time))
        for one in records.rejects()
    )
    places: Iterable[Place] = records.places([number for number, _ in faults]) if faults else ()
    found = (
        (reason, at.text, at.line, records.cells_of(at.text))
        for (_, reason), at in zip(faults, places, strict=True)
    )
    rows = chain(rejects, found)
    while some := list(islice(rows, _FAULTS_TOGETHER)):
        yield faulty_records(some, plan.schema, piece)


def guess_columns(
    path: Path, position: int, plan: ReadPlan, look: Callable[[], object] = lambda: None
) -> dict[str, Guess]:
    """Return what the columns of a text file seem to be, by reading it through.

    ``position`` is that of the file among the sources; of the plan's columns nothing is known yet.
    ``look`` is called between pieces of work, such as to end it.
    """
    guesses: dict[str, Guess] = {}
    records = open_records(path, plan, columns=None)
    for batch in records:
        look()
        for name, cells in batch.cells.items():
            guess = guesses.get(name, Guess())
            where = (position, batch.first)
            if plan.format is SourceFormat.CSV:
                guess = guess.seen(cells, where, decimal_comma=plan.options.decimal_comma)
            else:
                guess = guess.seen_typed(cells, where, batch.kinds.get(name))
                if name in batch.nested:
                    n_nested = guess.n_nested + (pc.sum(batch.nested[name]).as_py() or 0)
                    guess = replace(guess, n_nested=n_nested)
            guesses[name] = guess
    return _with_lines(guesses, records)


def _with_lines(guesses: Mapping[str, Guess], records: Records) -> dict[str, Guess]:
    """Return guesses with lines for the numbers of records, of which somebody may be told."""
    cells = [cell for guess in guesses.values() for cell in guess.cells_told]
    numbers = sorted({cell.line for cell in cells})
    places = records.places(numbers) if numbers else ()
    lines = {number: at.line for number, at in zip(numbers, places, strict=True)}
    return {name: guess.with_lines(lines) for name, guess in guesses.items()}


# ---------------------------------------------------------------------------------------------
# Formats that state their types.


def _read_typed(
    piece: Piece, plan: ReadPlan, *, time_only: bool, cut: Cut
) -> Iterator[pa.RecordBatch]:
    names = [plan.time] if time_only else plan.schema.names
    schema = pa.schema([plan.schema.field(name) for name in names])
    target = schema.field(plan.time).type
    found = read_typed(
        plan.format, Path(piece.path), names, piece.first, piece.stop, schema=plan.table_schema
    )
    at = names.index(plan.time)
    for batch, folds in _in_order(found, plan, lambda batch: batch.column(at)):
        raw = batch.column(at)
        read = read_times(raw, plan.reading, target, folds)
        cut.add(read)
        reasons = np.zeros(batch.num_rows, object)
        for fault in np.unique(read.faults[read.faults != 0]).tolist():
            reasons[read.faults == fault] = Fault(fault).reason(plan.time)
        columns = []
        for name, column in zip(names, batch.columns, strict=True):
            if name == plan.time:
                columns.append(read.times)
                continue
            stored, n_cut, beyond = _to_stored(column, schema.field(name).type)
            cut.n_values += n_cut
            reasons[beyond & (reasons == 0)] = (
                f"column '{name}' holds a time that microseconds cannot"
            )
            columns.append(stored)
        events = pa.RecordBatch.from_arrays(columns, schema=schema)
        wrong = reasons != 0
        if wrong.any():
            yield _faults_of_rows(batch, reasons, events.schema, piece)
            events = events.filter(pa.array(~wrong))
        if events.num_rows:
            yield with_helpers(events, piece)


def _to_stored(
    column: pa.Array, data_type: pa.DataType
) -> tuple[pa.Array, int, npt.NDArray[np.bool_]]:
    """Return a column as it is stored, how many of its times were cut, and which are beyond."""
    micro, n_cut = cut_to_us(column)
    beyond = np.zeros(len(column), bool)
    if pat.is_timestamp(data_type):
        micro, beyond = to_us(micro)
    if pat.is_dictionary(micro.type):
        micro = micro.dictionary_decode()
    return (micro if micro.type == data_type else micro.cast(data_type)), n_cut, beyond


def _faults_of_rows(
    batch: pa.RecordBatch,
    reasons: npt.NDArray[np.object_],
    schema: pa.Schema,
    piece: Piece,
) -> pa.RecordBatch:
    """Return the rows of a batch that have a reason; ``schema`` is that of the events."""
    places = np.flatnonzero(reasons)
    records = to_json(batch.take(pa.array(places)))
    rows = [
        (reason, record, None, None)
        for reason, record in zip(reasons[places].tolist(), records, strict=True)
    ]
    return faulty_records(rows, schema, piece)
