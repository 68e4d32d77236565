"""What carrying out a plan took, in numbers that add up over the parts of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from replay.engines.evidence import BlocksRead, FoundSpans


@dataclass(frozen=True, slots=True)
class ExecutionStats:
    """What was read and done; that of the parts of a query adds up."""

    n_blocks: int = 0
    n_blocks_total: int = 0
    n_rows: int = 0
    n_rows_total: int = 0
    n_entries: int = 0
    n_candidates: int = 0
    n_intervals: int = 0
    n_faults: int = 0
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Numbers of what a class of query did, by its name."""
    switched: str | None = None
    warnings: tuple[str, ...] = ()
    index_s: float = 0.0
    """Seconds that lookups took."""
    read_s: float = 0.0
    """Seconds spent waiting for events."""
    byte_counters: tuple[Callable[[], int], ...] = ()
    """Each counts the compressed bytes of something that was read, once it is asked for."""
    reads: tuple[BlocksRead, ...] = ()
    """Which blocks of which streams were read."""
    found: tuple[FoundSpans, ...] = ()
    """Where what was found lies."""

    def below(self) -> ExecutionStats:
        """Return the work of what stands below an operator: rows of the answer are not its rows."""
        return replace(self, found=tuple(replace(one, row_offset=None) for one in self.found))

    def __add__(self, other: ExecutionStats) -> ExecutionStats:
        """Return the work of both."""
        switched = "; ".join(text for text in (self.switched, other.switched) if text)
        return ExecutionStats(
            self.n_blocks + other.n_blocks,
            self.n_blocks_total + other.n_blocks_total,
            self.n_rows + other.n_rows,
            self.n_rows_total + other.n_rows_total,
            self.n_entries + other.n_entries,
            self.n_candidates + other.n_candidates,
            self.n_intervals + other.n_intervals,
            self.n_faults + other.n_faults,
            _sum_of(self.counts, other.counts),
            switched or None,
            tuple(dict.fromkeys((*self.warnings, *other.warnings))),
            self.index_s + other.index_s,
            self.read_s + other.read_s,
            (*self.byte_counters, *other.byte_counters),
            (*self.reads, *other.reads),
            (*self.found, *other.found),
        )


def _sum_of(
    one: Mapping[str, Mapping[str, int]], other: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Return the numbers of both, by their names."""
    total: dict[str, dict[str, int]] = {}
    for counts in (one, other):
        for kind, numbers in counts.items():
            known = total.setdefault(kind, {})
            for name, n in numbers.items():
                known[name] = known.get(name, 0) + n
    return total
