"""Write docs/cli.md from the commands' own help: `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.testing import CliRunner

from replay.console.app import app

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"

HEAD = """# Command line

Written by `make docs` from the commands' own help; a test fails when this page is stale. Data goes
to stdout, words to stderr. Exit code 0: done; 1: a stated failure, in one sentence; 2: wrong usage;
130: Ctrl-C; 143: SIGTERM. What fails once events are in the stream is a warning on stderr, with
exit code 0.

`CHRONICLE_STORE` names the store where no `--store` is given. `chronicle --install-completion` lets
the shell (bash, zsh, fish, PowerShell) complete commands and options.
"""

PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "LANG": "C.UTF-8"}
"""Makes help look the same on every terminal."""


Words = tuple[str, ...]


def commands(group: Any = None, words: Words = ()) -> Iterator[tuple[Words, Any]]:
    """Yield every command that does something, as its words and its object, in order of help."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def help_of(words: Words) -> str:
    """Return what ``chronicle WORDS --help`` prints, without blanks at line ends."""
    shown = CliRunner().invoke(app, [*words, "--help"], env=PLAIN, prog_name="chronicle")
    if shown.exit_code != 0:
        raise RuntimeError(f"'chronicle {' '.join(words)} --help' fails: {shown.output}")
    return "\n".join(line.rstrip() for line in shown.output.strip().splitlines())


def reference() -> str:
    """Return the whole page."""
    pages: list[Words] = [(), *(words for words, _ in commands())]
    parts = [
        f"## {' '.join(['chronicle', *words])}\n\n```text\n{help_of(words)}\n```\n"
        for words in pages
    ]
    return "\n".join([HEAD, *parts])


if __name__ == "__main__":
    REFERENCE.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"wrote {REFERENCE.name}\n")
