"""Which data files have a tree file, as long as the log of the tree table can be read."""

from __future__ import annotations

from pathlib import Path

from chronicle.errors import ExhaustedError, StorageError, UnreadFileError
from chronicle.log.delta_log import FollowedTable


class TreeLog:
    """The newest version of a stream's tree table. Not thread-safe.

    A log that is missing or damaged costs time, never an answer: no data file has a tree file
    then, and ``fault`` says so.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log: FollowedTable | None = None
        self.names: frozenset[str] = frozenset()
        self.fault: str | None = None
        self.refresh()

    def refresh(self) -> bool:
        """Take in what was committed since; return whether anything changed.

        One ``stat`` if not; a log that could not be read is tried again.
        """
        try:
            if self._log is not None and not self._log.refresh():
                return False
            log = self._log or FollowedTable(self._path)
        except ExhaustedError:
            raise
        except StorageError as error:
            return self._lose(error)
        self._log = log
        self.names = frozenset(file.name for file in log.state.files)
        self.fault = None
        return True

    def _lose(self, error: StorageError) -> bool:
        is_news = self.fault is None
        self._log, self.names = None, frozenset()
        mended = ", 'chronicle repair' writes them anew"
        if isinstance(error, UnreadFileError):
            mended = ""  # they may be whole
        self.fault = (
            f"the tree files of '{self._path.parent}' are not known ({error}); answers stay right "
            f"without them{mended}"
        )
        return is_news
