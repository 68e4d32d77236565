"""How far a command has come: words on stderr, and in a terminal a bar for what takes a second.

Nothing is drawn where stderr is no terminal. Rich is imported by the thread that draws, once the
second is over.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from replay.console.show import say, undisguised

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_S = 1.0
"""Seconds after which a bar appears."""

EACH_S = 0.2
"""Seconds between looks at how far it is."""

Share = tuple[int, int]
"""What is done, and of how much; of 0: nobody knows."""

_shown: list[Progress] = []
"""The bars there are; the last one is drawn."""


class Progress:
    """What is told while a command works: called with words, which stay, and `count`, which go.

    ``what`` is being done, in words. ``look`` is asked how far it is, for work that does not tell.
    """

    def __init__(self, what: str, look: Callable[[], Share] | None = None) -> None:
        self._what = what
        self._look = look
        self._share: Share = (0, 0)
        self._step: str | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, words: str) -> None:
        """Say what is being done."""
        say(words)

    def count(self, done: int, total: int) -> None:
        """Tell how far it is; a part is told from 0 to its own total."""
        self._share = (done, total)

    def step(self, words: str | None) -> None:
        """Show what is being done for a moment, in the place of what is done as a whole."""
        self._step = words

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._thread = threading.Thread(target=self._draw, daemon=True)
            self._thread.start()
            _shown.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            _shown.remove(self)
            self._thread.join()
            self._thread = None

    def over(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield tables; what is told ends with the last of them."""
        with self:
            yield from tables

    def _draw(self) -> None:
        if self._over.wait(FIRST_S):
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            SpinnerColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
        )
        from rich.progress import Progress as Bar

        console = Console(file=undisguised(sys.stderr))
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        with Bar(*columns, console=console, transient=True, redirect_stdout=False) as bar:
            console.show_cursor()  # a query ends with Ctrl-C at once, and would take it away
            task = bar.add_task(self._what, total=None)
            while not self._over.wait(EACH_S):
                bar.update(task, description=self._step or self._what, **self._how_far())

    def _how_far(self) -> dict[str, Any]:
        if self._look is not None:
            try:
                self._share = self._look()
            except Exception:  # noqa: BLE001 - a picture of the work must not end it
                self._look = None
        done, total = self._share
        return {"completed": done, "total": total} if total else {"total": None}


def shown() -> Progress | None:
    """Return the bar that is drawn in the terminal; None if there is none."""
    return _shown[-1] if _shown else None
