"""The commands by name, and what becomes of their failures."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from chronicle.errors import ChronicleError
from replay.console import (
    ask,
    calibrate,
    indexes,
    quarantine,
    replay_events,
    shell,
    stats,
    take,
    tend,
)
from replay.console.show import INTERRUPTED, say, say_warnings, show_anywhere
from replay.console.startup import collect_seldom, ending_at_sigterm, tell_compiling

_ENDED_EARLY = {
    "calibrate": "interrupted; the weights are as they were",
    "replay": None,
    "shell": None,
    **dict.fromkeys(("query", "streams", "describe", "history", "stats", "check"), "interrupted"),
}
"""What is said of commands that commit nothing; None where they have said it themselves."""

_SECTIONS = {
    "Ask": (
        ("query", ask.query),
        ("shell", shell.shell),
        ("replay", replay_events.replay),
        ("stats", stats.stats),
        ("streams", ask.streams),
        ("describe", ask.describe),
        ("history", ask.history),
        ("demo", ask.demo),
    ),
    "Take events in": (
        ("append", take.append),
        ("ingest", take.ingest),
        ("adopt", take.adopt),
        ("quarantine", quarantine.quarantine),
    ),
    "Keep streams whole and tidy": (
        ("check", tend.check),
        ("repair", tend.repair),
        ("compact", tend.compact),
        ("vacuum", tend.vacuum),
        ("add-column", tend.add_column),
        ("rename", tend.rename),
        ("delete", tend.delete),
        ("drop", tend.drop),
    ),
    "Make queries faster": (
        ("index", None),
        ("calibrate", calibrate.calibrate),
    ),
}
"""Commands as the help groups them; None: a group of its own."""


class _Sections(TyperGroup):
    """Lists the commands by what they are for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [name for commands in _SECTIONS.values() for name, _ in commands]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                names = [name for name, _ in commands]
                helps = [self.commands[name].get_short_help_str(200) for name in names]
                formatter.write_dl(list(zip(names, helps, strict=True)))


_HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="chronicle",
    cls=_Sections,
    help="Keep event streams, and ask what happened in which order, without reading them whole.",
    context_settings=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

index = typer.Typer(
    name="index",
    help="Create, drop, list and compact the indexes of a stream.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

for name, command in (each for commands in _SECTIONS.values() for each in commands):
    if command is not None:
        app.command(name)(command)
index.command()(indexes.create)
index.command()(indexes.drop)
index.command("list")(indexes.show)
index.command()(indexes.compact)
app.add_typer(index)


def _say_version(value: bool) -> None:
    if value:
        from chronicle.version import __version__

        print(f"chronicle {__version__}")
        raise typer.Exit


@app.callback()
def _chronicle(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version."),
    ] = False,
) -> None:
    """Keep event streams, and ask what happened in which order, without reading them whole."""


_COMMENTED = re.compile(r"--(?![a-z-]+=).*[\r\n]")
"""Begins like an option and has further lines: a query whose first line is a comment."""


def _as_argument(word: str) -> str:
    """Return a word of the command line so that a query in it is not taken for an option."""
    return f" {word}" if _COMMENTED.match(word) else word


def main() -> None:
    """Run the command line; stated failures become one sentence on stderr and exit code 1."""
    show_anywhere()
    say_warnings()
    collect_seldom()
    tell_compiling()
    with ending_at_sigterm():
        _run()


def _run() -> None:
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
