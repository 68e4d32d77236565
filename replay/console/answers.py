"""Write an answer where it is wanted: to the terminal, to a pipe, or whole to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer

from replay.console.progress import Progress, Share
from replay.console.show import ROWS_SHOWN, print_rows

if TYPE_CHECKING:
    import pyarrow as pa

TABLE, EXPANDED = "table", "expanded"
FOR_PEOPLE = (TABLE, EXPANDED)
OF_FILES = ("parquet", "arrow")
FORMATS = (*FOR_PEOPLE, "json", "jsonl", "csv", *OF_FILES)

STANDARD_OUTPUT = Path("-")

ROWS_HELD = 1 << 16
"""Rows of an answer that are found before the first of them is written."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where an answer goes, and how.

    Attributes
    ----------
    output_format
        One of `FORMATS`.
    out
        File to write; None: standard output.
    rows_max
        Rows that formats for people show.
    is_one_of_several
        Whether a file is in a folder, made for it and others.
    """

    output_format: str
    out: Path | None = None
    rows_max: int = ROWS_SHOWN
    is_one_of_several: bool = False

    @property
    def is_streamed_to_terminal(self) -> bool:
        """Whether rows appear on the terminal while further ones are found."""
        return self.out is None and self.output_format not in FOR_PEOPLE and sys.stdout.isatty()


def read_target(
    output_format: str | None,
    out: Path | None,
    rows_max: int = ROWS_SHOWN,
    *,
    is_expanded: bool = False,
) -> Target:
    """Return where an answer goes by the options given; a file's ending names its format.

    A format there is not, or not for files, and a file that cannot be written are refused.
    """
    from replay.formats import format_of

    if is_expanded and output_format not in (None, *FOR_PEOPLE):
        raise typer.BadParameter(f"it is not for --format {output_format}", param_hint="-x")
    if is_expanded:
        output_format = EXPANDED
    if output_format not in (None, *FORMATS):
        raise typer.BadParameter(f"use one of {', '.join(FORMATS)}", param_hint="--format")
    if out is None or out == STANDARD_OUTPUT:
        return Target(output_format or TABLE, None, rows_max)
    chosen = output_format or format_of(out.name)
    if chosen is None or chosen in FOR_PEOPLE:
        raise typer.BadParameter(
            f"what format has '{out}'? End it with .csv, .json, .jsonl, .parquet or .arrow, or "
            "give --format json, jsonl, csv, parquet or arrow",
            param_hint="--out",
        )
    check_target(out)
    return Target(chosen, out, rows_max)


def read_targets(
    n_answers: int,
    output_format: str | None,
    out: Path | None,
    rows_max: int = ROWS_SHOWN,
    *,
    is_expanded: bool = False,
) -> list[Target]:
    """Return where each of some answers goes by the options given, see `read_target`.

    Of several, ``out`` is a folder, which is made when the first is written.
    """
    if n_answers == 1:
        return [read_target(output_format, out, rows_max, is_expanded=is_expanded)]
    out = None if out == STANDARD_OUTPUT else out
    target = read_target(output_format, None, rows_max, is_expanded=is_expanded)
    chosen = target.output_format
    if out is None:
        if chosen in OF_FILES:
            raise typer.BadParameter(
                f"{n_answers} answers in {chosen} cannot stand one after the other; name a folder "
                "with --out",
                param_hint="--format",
            )
        return [target] * n_answers
    if out.is_file() or (out.suffix and not out.is_dir()):
        raise typer.BadParameter(
            f"'{out}' is the name of a file, and {n_answers} statements have as many answers; name "
            "a folder",
            param_hint="--out",
        )
    if chosen in FOR_PEOPLE:
        raise typer.BadParameter(
            f"what format have the {n_answers} answers in '{out}'? Give --format json, jsonl, csv, "
            "parquet or arrow",
            param_hint="--out",
        )
    if not out.is_dir():
        check_target(out)
    width = len(str(n_answers))
    files = [out / f"{n:0{width}}.{chosen}" for n in range(1, n_answers + 1)]
    return [Target(chosen, file, is_one_of_several=True) for file in files]


def check_target(target: Path) -> None:
    """Check that a file can be written here, before the query takes its time."""
    from chronicle.paths import kind_of_special

    if target.is_dir():
        raise typer.BadParameter(f"cannot write '{target}': it is a folder")
    special = kind_of_special(target)
    if special is not None:
        raise typer.BadParameter(
            f"cannot write '{target}': it is {special}, not a file; write to standard output "
            "(--out -), and send that there"
        )
    if not target.parent.is_dir():
        raise typer.BadParameter(f"cannot write '{target}': there is no folder '{target.parent}'")


def write_to(
    target: Target, tables: Iterator[pa.Table], share: Callable[[], Share] = lambda: (0, 0)
) -> None:
    """Write an answer as it is found; ``share`` says how far it is, for a bar meanwhile."""
    from replay.formats import write_answer

    if not target.is_streamed_to_terminal:  # where a bar would stand among the rows
        tables = Progress("reading", share).over(tables)
    rows = _first_rows_held(tables)
    if target.output_format in FOR_PEOPLE:
        print_rows(rows, target.rows_max, as_columns=target.output_format == EXPANDED)
    elif target.out is not None:
        with _whole_file(target.out) as stream:
            write_answer(rows, target.output_format, stream)
    else:
        sys.stdout.flush()
        write_answer(rows, target.output_format, sys.stdout.buffer)
        sys.stdout.buffer.flush()


@contextmanager
def _whole_file(out: Path) -> Iterator[BinaryIO]:
    """Open a file that takes its place once all is written; until then what was there stays.

    What an error cuts off would look whole in most formats.
    """
    target = out.resolve()
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with _open_nameless(draft) as stream:
            yield stream
            if isinstance(stream.name, int):
                stream.flush()
                _give_name(stream.fileno(), draft)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _open_nameless(draft: Path) -> BinaryIO:
    """Open a file without a name in the draft's folder; where there is no such thing, the draft.

    Signals end a query at once, Ctrl-C too, and a file without a name is gone with its process.
    """
    try:
        return os.fdopen(os.open(draft.parent, os.O_TMPFILE | os.O_WRONLY, 0o666), "wb")
    except (AttributeError, OSError):  # not on this system, or in this folder
        return draft.open("wb")


def _give_name(descriptor: int, draft: Path) -> None:
    """Let the file of a descriptor have its name."""
    draft.unlink(missing_ok=True)  # of a process that had the same number
    folder = os.open(draft.parent, os.O_RDONLY)
    try:
        # With the folder, Python makes the call that follows the link in /proc.
        os.link(f"/proc/self/fd/{descriptor}", draft.name, dst_dir_fd=folder)
    finally:
        os.close(folder)


def _first_rows_held(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Return the tables, the first of which are found by now.

    So an error among the first `ROWS_HELD` rows leaves nothing written.
    """
    held, n_rows = [], 0
    for table in tables:
        held.append(table)
        n_rows += table.num_rows
        if n_rows >= ROWS_HELD:
            break
    return chain(held, tables)
