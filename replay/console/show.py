"""Words for a person to stderr, answers to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from replay import Result


INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended."""


def say(text: str) -> None:
    """Write words for a person to stderr."""
    print(text, file=sys.stderr, flush=True)


def own_name() -> str:
    """Return what the user typed to get here, for commands to try next."""
    typed = Path(sys.argv[0])
    return str(typed) if typed.name == "chronicle" else "chronicle"


def print_result(result: Result) -> None:
    """Print an answer as a table for a person."""
    print_rows([result.table])


def print_rows(tables: Iterable[pa.Table], rows_max: int = 40) -> None:
    """Print the first rows of an answer, at least one table, and how many there are besides."""
    coming = iter(tables)
    shown = next(coming)
    n_rows = shown.num_rows
    shown = shown.slice(0, rows_max)
    for table in coming:
        n_rows += table.num_rows
        if shown.num_rows < rows_max:
            shown = _joined(shown, table.slice(0, rows_max - shown.num_rows))
    rows = [tuple(_cell(value) for value in row.values()) for row in shown.to_pylist()]
    print_table(tuple(shown.column_names), rows)
    if n_rows > rows_max:
        print(f"… {n_rows - rows_max:,} more rows (--format json shows all)")
    else:
        print(f"{n_rows:,} {'row' if n_rows == 1 else 'rows'}", flush=True)


def _joined(one: pa.Table, other: pa.Table) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables([one, other])


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows under their heads."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for name in head:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        # As text: brackets and colons in values are no markup, and no names of pictures.
        table.add_row(*map(Text, row))
    # Not a terminal: no wrapping, so that other programs can read the lines.
    console = Console() if sys.stdout.isatty() else Console(width=240)
    console.print(table)
