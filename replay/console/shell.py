"""The command that answers one query after the other in one process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TextIO

import typer

from chronicle.errors import ChronicleError
from replay.console import ask
from replay.console.answers import Target, write_to
from replay.console.options import StoreOption, limits, store_of
from replay.console.shell_input import (
    HELP,
    Settings,
    completions,
    is_blank,
    read_command,
    split_statements,
)
from replay.console.show import say
from replay.console.startup import keep_heavy_libraries_out

if TYPE_CHECKING:
    from chronicle import Store

PROMPT, CONTINUED = "chronicle> ", "      ...> "

HISTORY_MAX = 10_000
"""Lines that are remembered from one session to the next."""


def shell(store: StoreOption) -> None:
    """Ask one query after the other, in one process; or those of a file, by a pipe.

    Example: chronicle shell --store data
    """
    keep_heavy_libraries_out()
    session = Session(store_of(store))
    if not sys.stdin.isatty():
        n_failed = session.run_script(sys.stdin)
        raise typer.Exit(1 if n_failed else 0)
    say("End a query with ; and see .help for more.")
    with _line_editing(session):
        session.run_interactively()


class Session:
    """Answers what is typed, by settings that last.

    Parameters
    ----------
    store
        Whose streams are asked.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._settings = Settings()
        self._has_ended = False
        self._names: list[str] | None = None

    def run_interactively(self) -> None:
        """Ask for lines until .quit or Ctrl-D; Ctrl-C ends a query, or forgets what was typed."""
        pending = ""
        while not self._has_ended:
            try:
                line = input(CONTINUED if pending else PROMPT)
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print()
                pending = ""
                continue
            pending, _ = self._take(pending, line + "\n")

    def run_script(self, lines: TextIO) -> int:
        """Answer what comes in, one after the other; return how many statements failed.

        The last statement needs no ``;``.
        """
        pending, n_failed, number = "", 0, 0
        for number, line in enumerate(lines, 1):  # the last one is asked for below
            pending, failed = self._take(pending, line.rstrip("\n") + "\n", number)
            n_failed += failed
            if self._has_ended:
                return n_failed
        if not is_blank(pending):
            n_failed += self._count_failed(
                [pending.strip()], pending, number + 1 - pending.count("\n")
            )
        return n_failed

    def names(self) -> list[str]:
        """Return the names of streams and columns, and of functions."""
        if self._names is None:
            from replay.language.functions import FUNCTIONS

            found = set(FUNCTIONS)
            for name in self._store.stream_names():
                found.add(name)
                with suppress(ChronicleError, OSError):
                    found.update(self._store.stream(name).schema.names)
            self._names = sorted(found)
        return self._names

    def _take(self, pending: str, line: str, number: int | None = None) -> tuple[str, int]:
        """Take a line; return what is not ended yet, and how many statements failed.

        ``number`` is that of a line of a script.
        """
        if is_blank(pending) and line.lstrip().startswith("."):
            return "", not self._guarded(self._command, line, number)
        first = None if number is None else number - pending.count("\n")
        statements, rest = split_statements(pending + line)
        n_failed = self._count_failed(statements, pending + line, first)
        return "" if is_blank(rest) else rest, n_failed

    def _count_failed(self, statements: list[str], text: str, first: int | None) -> int:
        """Answer statements of a text whose first line has this number; return how many failed."""
        n_failed, at = 0, 0
        for statement in statements:
            at = text.index(statement, at)
            line = None if first is None else first + text.count("\n", 0, at)
            n_failed += not self._answered(statement, line)
            at += len(statement)
        return n_failed

    def _answered(self, statement: str, line: int | None) -> bool:
        self._names = None  # it may create a stream
        began = perf_counter()
        is_done = self._guarded(self._answer, statement, line)
        if self._settings.timing:
            say(f"{perf_counter() - began:.3f} s")
        return is_done

    def _guarded(self, work: Callable[[str], None], text: str, line: int | None) -> bool:
        """Do something with a text; return whether it went well. What goes wrong is said.

        ``line`` is the one of a script in which the text begins.
        """
        error_in = "error" if line is None else f"error in the statement at line {line}"
        try:
            work(text)
        except KeyboardInterrupt:
            say("interrupted")
        except typer.Exit as ended:
            return not ended.exit_code
        except typer.BadParameter as error:
            say(f"{error_in}: {error.message}")
        except ChronicleError as error:
            say(f"{error_in}: {error}")
        else:
            return True
        return False

    def _command(self, line: str) -> None:
        action = read_command(line, self._settings)
        match action.name:
            case "help":
                print(HELP)
            case "quit":
                self._has_ended = True
            case "streams":
                ask.streams(self._store.path)
            case "params":
                for name, value in self._settings.params.items():
                    print(f":{name} = {json.dumps(value, ensure_ascii=False)}")
            case "describe":
                ask.describe(action.value, self._store.path)
            case "set":
                assert action.settings is not None
                limits(action.settings.timeout, None, None)  # refuses what is no time
                self._settings = action.settings

    def _answer(self, statement: str) -> None:
        import replay
        from replay.query import answer_in_pieces

        chosen = self._settings
        if chosen.explain:
            explanation = replay.explain(
                self._store, statement, params=chosen.params, plan=chosen.plan
            )
            ask.print_explained(explanation, chosen.output_format)
            return
        bounds = limits(chosen.timeout, None, None)
        answer = answer_in_pieces(
            self._store, statement, params=chosen.params, plan=chosen.plan, limits=bounds
        )
        write_to(Target(chosen.output_format, None, chosen.rows), answer.tables, answer.share)
        for warning in answer.told().actual.warnings:
            say(f"warning: {warning}")


def history_file() -> Path | None:
    """Return where the lines typed are remembered; None where the user has no folder."""
    folder = os.environ.get("XDG_STATE_HOME")
    if folder and Path(folder).is_absolute():
        return Path(folder) / "chronicle" / "shell-history"
    try:
        return Path.home() / ".local" / "state" / "chronicle" / "shell-history"
    except RuntimeError:  # no HOME
        return None


@contextmanager
def _line_editing(session: Session) -> Iterator[None]:
    """Let lines be edited, recalled and completed, where Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    found: list[str] = []

    def complete(begun: str, state: int) -> str | None:
        if state == 0:
            found[:] = completions(begun, session.names())
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,;()[]{}=<>+-*/|'\"")
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    path = history_file()
    if path is not None:
        with suppress(OSError):  # none yet, or not readable: nothing to recall
            readline.read_history_file(path)
    try:
        yield
    finally:
        readline.set_history_length(HISTORY_MAX)
        if path is not None:
            _remember(path, readline.write_history_file)


def _remember(path: Path, write: Callable[[Path], None]) -> None:
    """Write the history to a file that nobody else can read: queries hold names and values."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        path.chmod(0o600)
        write(path)
    except OSError as error:
        say(f"warning: the history is not kept ('{path}': {error.strerror})")
