"""Words for a person to stderr, answers to stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def print_result(result: Result, rows_max: int = 40) -> None:
    """Print an answer as a table for a person."""
    shown = result.table.slice(0, rows_max)
    rows = [tuple(_cell(value) for value in row.values()) for row in shown.to_pylist()]
    print_table(tuple(result.table.column_names), rows)
    if len(result) > rows_max:
        print(f"… {len(result) - rows_max:,} more rows (--format json shows all)")
    else:
        print(f"{len(result):,} {'row' if len(result) == 1 else 'rows'}", flush=True)


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
