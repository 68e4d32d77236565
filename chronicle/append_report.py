"""What an append did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chronicle.words import number_of, quarantine_lines, time_lines


@dataclass(frozen=True, slots=True)
class AppendReport:
    """What an append did."""

    n_events: int
    """Events added, late ones among them."""

    n_late: int
    """Events added that were older than the end of the stream."""

    n_rewritten: int
    """Data files that late events were merged into."""

    n_quarantined: int
    version: int
    """Version of the events table that holds the events."""

    reasons: Mapping[str, int] = field(default_factory=dict)
    """Records in quarantine by reason."""

    n_runs: int = 0
    """Runs written beside the events."""

    fault: str | None = None
    """What failed once the events were in the stream; they are, and must not be appended again."""

    first_time: str | None = None
    """Time of the first event added, by its time; None if none was."""

    last_time: str | None = None

    def __str__(self) -> str:
        files = number_of(self.n_rewritten, "file")
        late = f", {self.n_late:,} of them late into {files} rewritten"
        added = f"{number_of(self.n_events, 'event')} added{late if self.n_late else ''}"
        lines = [f"{added}, version {self.version}", *time_lines(self.first_time, self.last_time)]
        lines += quarantine_lines(self.n_quarantined, self.reasons)
        return "\n".join(lines)
