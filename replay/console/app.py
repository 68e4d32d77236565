"""The commands by name, and what becomes of their failures."""

from __future__ import annotations

import re
import sys

import typer

from chronicle.errors import ChronicleError
from replay.console import ask, calibrate, indexes, replay_events, stats, take, tend
from replay.console.show import INTERRUPTED, say

_ENDED_EARLY = {
    "calibrate": "interrupted; the weights are as they were",
    "replay": None,
    **dict.fromkeys(("streams", "describe", "history", "stats", "check"), "interrupted"),
}
"""What is said of commands that commit nothing; None where they have said it themselves."""

app = typer.Typer(
    name="chronicle",
    help="Keep event streams, and ask what happened in which order, without reading them whole.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

index = typer.Typer(
    name="index",
    help="Create, drop, list and compact the indexes of a stream.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

for command in (
    take.ingest,
    take.append,
    ask.streams,
    ask.describe,
    ask.history,
    stats.stats,
    ask.query,
    replay_events.replay,
    calibrate.calibrate,
    tend.compact,
    tend.vacuum,
    tend.check,
    tend.repair,
    tend.delete,
    tend.rename,
    tend.drop,
):
    app.command()(command)
app.command("add-column")(tend.add_column)
index.command()(indexes.create)
index.command()(indexes.drop)
index.command("list")(indexes.show)
index.command()(indexes.compact)
app.add_typer(index)
app.command()(ask.demo)


_COMMENTED = re.compile(r"--(?![a-z-]+=).*[\r\n]")
"""Begins like an option and has further lines: a query whose first line is a comment."""


def _as_argument(word: str) -> str:
    """Return a word of the command line so that a query in it is not taken for an option."""
    return f" {word}" if _COMMENTED.match(word) else word


def main() -> None:
    """Run the command line; stated failures become one sentence on stderr and exit code 1."""
    try:
        app(args=[_as_argument(word) for word in sys.argv[1:]])
    except ChronicleError as error:
        say(f"error: {error}")
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        where = f"'{error.filename}'" if error.filename else "the disk"
        reason = error.strerror or str(error)
        say(f"error: {where} cannot be used ({reason}); check path, permissions and space")
        sys.exit(1)
    except SystemExit as ended:
        # Typer makes this of Ctrl-C, and says nothing.
        if ended.code == INTERRUPTED:
            usual = (
                "interrupted; every commit is whole or not there, 'chronicle history' lists them"
            )
            said = _ENDED_EARLY.get(next(iter(sys.argv[1:]), ""), usual)
            if said is not None:
                say(said)
        raise
