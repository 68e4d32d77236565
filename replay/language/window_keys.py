"""What rows of windows are grouped by."""

from __future__ import annotations

from replay.language import syntax
from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    Attribute,
    CumulateWindows,
    Expression,
    RowWindows,
    SessionWindows,
    Windows,
    attributes,
)
from replay.language.outer_binder import Keys
from replay.language.relation_binder import BoundReference
from replay.language.source import Source
from replay.language.syntax import SelectQuery


class WindowKeys:
    """Checks what GROUP BY names where there are windows, and completes it."""

    def __init__(self, query: SelectQuery, read: BoundReference, source: Source) -> None:
        self._query = query
        self._windows = read.windows
        self._columns = read.columns
        self._source = source

    def complete(self, keys: Keys) -> Keys:
        """Return the keys, both columns of the windows first.

        Raises
        ------
        BindError
            If GROUP BY does not name the window, or not all that it is partitioned by.
        NotSupportedError
            If a key is computed of a window and a row.
        """
        windows = self._windows
        if windows is None:
            return keys
        start, end = (self._window(name) for name in (WINDOW_START, WINDOW_END))
        given = keys or ()
        self._check_window_given(windows, start in given, end in given)
        others = tuple(key for key in given if key not in (start, end))
        for key in others:
            self._check_unmixed(key)
        for name in _partition_by(windows):
            if name not in (key.name for key in others if isinstance(key, Attribute)):
                raise self._source.error(
                    f"the windows are partitioned by '{name}'; write it in GROUP BY, too",
                    self._place(),
                )
        return (start, end, *others)

    def _window(self, name: str) -> Attribute:
        identifier = syntax.Identifier(name, True)
        return self._columns.attribute(name, syntax.Column(identifier))

    def _check_window_given(self, windows: Windows, start: bool, end: bool) -> None:
        remedy = "write GROUP BY window_start, window_end"
        if isinstance(windows, CumulateWindows) and not (start and end):
            raise self._source.error(
                f"windows of CUMULATE start together and are grouped by start and end; {remedy}",
                self._place(),
            )
        if not (start or end):
            raise self._source.error(
                f"a query over windows is grouped by them; {remedy}", self._place()
            )

    def _check_unmixed(self, key: Expression) -> None:
        read = {attribute.name for attribute in attributes(key)}
        if read & {WINDOW_START, WINDOW_END} and read - {WINDOW_START, WINDOW_END}:
            raise self._source.not_supported(
                "a key of GROUP BY computed from a window and a row", self._place()
            )

    def _place(self) -> syntax.Node:
        return self._query.group_by[0] if self._query.group_by else self._query.source


def _partition_by(windows: Windows) -> tuple[str, ...]:
    if isinstance(windows, SessionWindows | RowWindows):
        return windows.partition_by
    return ()
