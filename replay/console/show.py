"""Words for a person to stderr, answers to stdout."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from chronicle.errors import ChronicleError
from chronicle.words import visible
from replay.console.table_layout import (
    NULL,
    Grid,
    expanded,
    footer,
    lay_out,
    left_out,
    with_equal_fractions,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from replay import Result


ROWS_SHOWN = 40
"""Rows of an answer that are shown unless more are asked for."""

TERMINATED = 143
"""Exit code of a command that SIGTERM ended, as shells tell it."""

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended."""


_PLAIN = str.maketrans("─│├└…█", "-|+`.#")
"""Signs of tables and trees, and what stands for one where a terminal lacks it."""


class ForPeople:
    """A stream of words, in which what steers a terminal is shown instead of sent.

    All text goes to people; data for programs are bytes, which go to its ``buffer`` as they are.
    """

    def __init__(self, stream: TextIO) -> None:
        self.as_it_is = stream

    def write(self, text: str) -> int:
        """Write words."""
        self.as_it_is.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write words."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return whatever else the stream has."""
        return getattr(self.as_it_is, name)


class _Closed(io.RawIOBase):
    """Stands for a standard output that is not open: what is written there would be lost."""

    def writable(self) -> bool:
        """Return that it can be tried."""
        return True

    def write(self, _: Any) -> int:
        """Refuse it."""
        raise _AnswerLostError


class _AnswerLostError(ChronicleError):
    """An answer has nowhere to go."""

    def __init__(self) -> None:
        super().__init__("standard output is closed, so what was asked for cannot be written")


def show_anywhere() -> None:
    """Have words shown on any terminal, whatever signs are in them, and answers never lost.

    Terminals may lack UTF-8, and streams may not be open: words are swallowed then.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:  # else a file of a store would be it
        pass
    os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed(), "utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error(_to_plain.__name__, _to_plain)
    if isinstance(sys.stdout, io.TextIOWrapper):  # tests have others
        sys.stdout.reconfigure(errors=_to_plain.__name__)
    sys.stdout = ForPeople(undisguised(sys.stdout))
    sys.stderr = ForPeople(undisguised(sys.stderr))


def undisguised(stream: TextIO) -> TextIO:
    """Return a standard stream as it is, for what draws in a terminal."""
    return stream.as_it_is if isinstance(stream, ForPeople) else stream


def _to_plain(error: UnicodeError) -> tuple[str, int]:
    """Return plain signs for those that an encoding lacks, as ``codecs.register_error`` asks."""
    assert isinstance(error, UnicodeEncodeError)
    plain = error.object[error.start : error.end].translate(_PLAIN)
    return plain.encode("ascii", "backslashreplace").decode(), error.end


def say(text: str) -> None:
    """Write words for a person to stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def say_warnings() -> None:
    """Have Python's warnings shown as words: who runs a command has not written its code."""
    warnings.showwarning = lambda message, *_: say(f"warning: {message}")


def warn(fault: str | None) -> None:
    """Write a warning to stderr about what failed once the events were in; None is none."""
    if fault is not None:
        say(f"warning: the events are in the stream, do not add them again; {fault}")


def own_name() -> str:
    """Return what the user typed to get here, for commands to try next."""
    typed = Path(sys.argv[0])
    return str(typed) if typed.name == "chronicle" else "chronicle"


def print_result(result: Result) -> None:
    """Print an answer as a table for a person."""
    print_rows([result.table])


def print_rows(
    tables: Iterable[pa.Table], rows_max: int = ROWS_SHOWN, *, as_columns: bool = False
) -> None:
    """Print the first rows of an answer, at least one table, and what there is besides.

    ``as_columns`` prints each row as one column a line.
    """
    coming = iter(tables)
    shown = next(coming)
    n_rows = shown.num_rows
    shown = shown.slice(0, rows_max)
    for table in coming:
        n_rows += table.num_rows
        if shown.num_rows < rows_max:
            shown = _joined(shown, table.slice(0, rows_max - shown.num_rows))
    grid, width = to_grid(shown), terminal_width()
    laid = None if as_columns else lay_out(grid, width)
    lines = expanded(grid) if laid is None else laid.lines
    print("\n".join([*lines, *footer(n_rows, shown.num_rows, laid, width)]), flush=True)


def to_grid(table: pa.Table) -> Grid:
    """Return the cells of an answer as text: values as in JSON, times of a column alike, NULL."""
    import pyarrow.types as pat

    from replay.formats import values_as_texts

    columns = [values_as_texts(column) for column in table.columns]
    cells = [[NULL if text is None else text for text in column] for column in columns]
    for at, kind in enumerate(table.schema.types):
        if pat.is_timestamp(kind):
            cells[at] = with_equal_fractions(cells[at])
    is_number = tuple(
        pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind)
        for kind in table.schema.types
    )
    return Grid(tuple(table.column_names), list(zip(*cells, strict=True)), is_number)


def _joined(one: pa.Table, other: pa.Table) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables([one, other])


def print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of texts under their heads, all of them."""
    width = terminal_width()
    laid = lay_out(Grid.of_texts(head, rows), width)
    print("\n".join(laid.lines))
    if laid.left_out:
        print(left_out(laid, width))


def terminal_width() -> int | None:
    """Return the characters of a line of the terminal; None where a program reads the lines."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
