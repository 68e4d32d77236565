"""Merge small data files: which neighbours become one, and making them one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from chronicle import config
from chronicle.append_report import AppendReport
from chronicle.config import EVENTS_TABLE
from chronicle.derived import DerivedWriter
from chronicle.disk_errors import reason_of
from chronicle.errors import CommitConflictError
from chronicle.jobs import Runner, run_locally
from chronicle.snapshot import Snapshot
from chronicle.store import Stream, watched
from chronicle.words import number_of
from chronicle.write.commit import (
    COMPACT,
    OPERATION,
    Change,
    commit_change,
    commit_tidy,
    remove_uncommitted,
)
from chronicle.write.rewrite import Rewrite, rewrite_files

_ATTEMPTS_MAX = 5
"""Times a full compaction chooses anew because others rewrote its files first."""

EVERYTHING = 2**63 - 1
"""Budget of a compaction that writes whatever its tiers ask for."""


def merged(before: int, after: int, what: str) -> str:
    """Return in words how many things became how many. Pure."""
    return f"{number_of(before, what)} {'is' if before == 1 else 'are'} {after:,} now"


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What a compaction did."""

    n_files_before: int
    n_files_after: int
    n_events_rewritten: int
    n_runs_merged: int
    """Runs of indexes that were replaced."""

    n_runs_written: int
    """Runs that took their place."""

    fault: str | None = None
    """What failed; what was committed before stays, and the next compaction goes on."""

    def __str__(self) -> str:
        lines = [f"{number_of(self.n_files_after, 'file')}, none to merge"]
        if self.n_events_rewritten:
            files = merged(self.n_files_before, self.n_files_after, "file")
            lines = [f"{files}, {number_of(self.n_events_rewritten, 'event')} rewritten"]
        if self.n_runs_merged:
            lines.append(merged(self.n_runs_merged, self.n_runs_written, "run"))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Merge:
    """Files ``first:stop``, by position in stream order, that become one."""

    first: int
    stop: int


@dataclass(slots=True)
class _Group:
    """Neighbouring files that are one file once the choice is carried out."""

    first: int
    stop: int
    n_events: int
    tier: int

    @property
    def n_merged(self) -> int:
        """Files it saves."""
        return self.stop - self.first - 1


def choose_merges(
    n_events: Sequence[int], *, file_events: int, fan_in: int, budget: int | None
) -> list[Merge]:
    """Choose which neighbours to merge, each group into one file.

    Pure. O(n) for n files.

    Parameters
    ----------
    n_events
        Events of every data file, each at least 1, in stream order.
    file_events
        Most events of a file; no group exceeds it.
    fan_in
        So many files of one tier become one; at least 2.
    budget
        Events that may be rewritten: the automatic mode. None: the full one.

    Returns
    -------
    list of Merge
        Disjoint, ascending, each of at least two files.

    Notes
    -----
    *Full mode.* From the front on, neighbours are taken together as long as they fit into one
    file. Afterwards no two neighbours fit, so n events lie in at most ``2 n / file_events + 1``
    files, and a second run finds nothing to do.

    *Automatic mode.* Let ``cap = min(file_events, budget)``; a file is *large* beyond ``cap / 2``,
    and the tier of another is the number of times ``fan_in`` divides into its size: tier k
    begins at ``fan_in ** k``, so there are ``T = floor(log(cap / 2, fan_in)) + 1`` tiers. Files
    arrive in stream order, at the open end of a segment:

    - A segment closes when a large file follows, or one that would take it beyond ``cap``; a
      closed segment becomes one file. Beyond ``cap`` that one is large.
    - Within the open segment ``fan_in`` files of a tier with none of a higher tier between them
      become one, and smaller ones between them go along.
    - Files of lower tiers caught between two higher ones, or before the first, become one.

    Done again and again until it finds nothing, which the appends between two calls of it do not
    outrun (each adds a file, and is given the budget), this keeps

    - the number of files at most ``2 l + 2 (fan_in - 1) T`` for l large ones, of which n events
      have less than ``2 n / cap``; after appends of one size s it is at most
      ``l + (fan_in - 1) t`` where t counts the tiers from that of s on;
    - the rewriting of each event at most ``2 T + 1`` times: each lifts it by a tier, gathers it
      between two files of a higher tier, or closes its segment. Appends of one size rewrite it at
      most ``t + 1`` times. What late events split in two comes on top: once as much as they
      rewrote themselves.

    Of choices that together exceed the budget, those that save most files per event are taken;
    the rest is found again by the next call.

    Examples
    --------
    Four files of tier 0 become one of tier 1, the fourth of that tier: one merge for both steps.

    >>> choose_merges([9, 4, 4, 5, 1, 1, 1, 1], file_events=100, fan_in=4, budget=100)
    [Merge(first=0, stop=8)]

    In full mode what fits into a file of 10 becomes one; the full file stays as it is.

    >>> choose_merges([4, 6, 10, 3, 3, 3, 3], file_events=10, fan_in=4, budget=None)
    [Merge(first=0, stop=2), Merge(first=3, stop=6)]
    """
    if fan_in < 2:
        raise ValueError(f"fan_in is {fan_in}; at least 2 files become one")
    if budget is None:
        groups = _fit_together(n_events, file_events)
    else:
        cap = min(file_events, budget)
        groups = _within(_arrive_all(n_events, cap, fan_in), budget)
    return [Merge(group.first, group.stop) for group in groups if group.n_merged]


def _tier_of(n_events: int, fan_in: int) -> int:
    tier = 0
    while n_events >= fan_in:
        n_events //= fan_in
        tier += 1
    return tier


def _fit_together(n_events: Sequence[int], file_events: int) -> list[_Group]:
    groups: list[_Group] = []
    for position, n in enumerate(n_events):
        if groups and groups[-1].n_events + n <= file_events:
            groups[-1].stop = position + 1
            groups[-1].n_events += n
        else:
            groups.append(_Group(position, position + 1, n, 0))
    return groups


def _arrive_all(n_events: Sequence[int], cap: int, fan_in: int) -> list[_Group]:
    """Return all files as groups, after every one arrived behind those before it."""
    closed: list[_Group] = []
    segment: list[_Group] = []
    n_segment = 0
    for position, n in enumerate(n_events):
        is_large = 2 * n > cap
        if is_large or n_segment + n > cap:
            _join(segment, 0, fan_in)
            closed += segment
            segment, n_segment = [], 0
        arrived = _Group(position, position + 1, n, 0 if is_large else _tier_of(n, fan_in))
        if is_large:
            closed.append(arrived)
            continue
        segment.append(arrived)
        n_segment += n
        _settle(segment, fan_in)
    return closed + segment


def _settle(segment: list[_Group], fan_in: int) -> None:
    """Restore, after a group came to the end of a segment, what holds of all before it."""
    while True:
        tier = segment[-1].tier
        first_lower = len(segment) - 1
        while first_lower and segment[first_lower - 1].tier < tier:
            first_lower -= 1
        if len(segment) - 1 - first_lower > 1:
            last = segment.pop()
            _join(segment, first_lower, fan_in)
            segment.append(last)
            _settle_before_last(segment, fan_in)
            continue
        first, n_alike = len(segment), 0
        for position in range(len(segment) - 1, -1, -1):
            if segment[position].tier > tier:
                break
            if segment[position].tier == tier:
                first, n_alike = position, n_alike + 1
        if n_alike < fan_in:
            return
        _join(segment, first, fan_in)


def _settle_before_last(segment: list[_Group], fan_in: int) -> None:
    last = segment.pop()
    _settle(segment, fan_in)
    segment.append(last)


def _join(groups: list[_Group], first: int, fan_in: int) -> None:
    """Make one group of those from ``first`` on."""
    if len(groups) - first < 2:
        return
    n_events = sum(group.n_events for group in groups[first:])
    joined = _Group(groups[first].first, groups[-1].stop, n_events, _tier_of(n_events, fan_in))
    groups[first:] = [joined]


def _within(groups: list[_Group], budget: int) -> list[_Group]:
    """Return the groups of several files that the budget allows, in stream order."""
    merged = [group for group in groups if group.n_merged]
    if sum(group.n_events for group in merged) <= budget:
        return merged
    chosen: list[_Group] = []
    for group in sorted(merged, key=lambda group: group.n_events / group.n_merged):
        if group.n_events <= budget:
            budget -= group.n_events
            chosen.append(group)
    return sorted(chosen, key=lambda group: group.first)


@watched
def compact_events(
    stream: Stream,
    *,
    derived: DerivedWriter | None,
    budget: int = EVERYTHING,
    full: bool = False,
    runner: Runner = run_locally,
    progress: Callable[[str], None] = lambda _: None,
) -> CompactionReport:
    """Merge small data files, then runs.

    Every few merges are a commit, so what was done survives a kill. No answer changes: the events
    stay in their order. The files replaced stay on disk for older versions until vacuum, as do
    those of merges that failed.

    Parameters
    ----------
    stream
        Its files.
    derived
        Writes runs of the new files and merges runs; None leaves the new files without.
    budget
        Events that may be rewritten, and entries of runs; not asked in full mode.
    full
        Whether to merge all there is to merge instead of what keeps the number of files small;
        see ``choose_merges``.
    runner
        Carries out several merges at once, here or on a cluster.
    progress
        Told what is being done, in words.

    Raises
    ------
    CommitConflictError
        In full mode, if other processes rewrite the same files first again and again.
    CorruptBlockError
        If a file to merge cannot be read.
    StorageError
        If the store cannot be written. What was committed before stays.
    """
    stream.check_writable()
    before = stream.snapshot()
    n_rewritten, fault = 0, None
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        tasks = _to_tasks(stream.snapshot(), budget=None if full else budget)
        try:
            for n_events, failed in _carry_out(stream, tasks, derived, runner, progress):
                n_rewritten += n_events
                fault = failed or fault
            break
        except CommitConflictError:
            if not full:
                break
            if attempt == _ATTEMPTS_MAX:
                raise
    n_merged, n_written = tidy_derived(stream, derived, budget=EVERYTHING if full else budget)
    return CompactionReport(
        n_files_before=len(before.files),
        n_files_after=len(stream.snapshot().files),
        n_events_rewritten=n_rewritten,
        n_runs_merged=n_merged,
        n_runs_written=n_written,
        fault=fault,
    )


def tidied(stream: Stream, report: AppendReport, derived: DerivedWriter | None) -> AppendReport:
    """Keep files and runs few after an append; return its report with what failed meanwhile."""
    if report.fault is not None:
        return report
    after = tidy_after(stream, derived, new_runs=report.n_runs > 0)
    return report if after is None or after.fault is None else replace(report, fault=after.fault)


def tidy_after(
    stream: Stream,
    derived: DerivedWriter | None,
    *,
    budget: int = config.AUTO_COMPACT_EVENTS,
    new_runs: bool = True,
) -> CompactionReport | None:
    """Keep the number of files and runs small after events were added.

    Reads nothing but the snapshot where there is nothing to do. What was added is committed and
    stays so: a fault of the store stops the compaction and is reported, not raised.

    ``new_runs`` says whether runs were written since the last call: if not, there are none to merge
    unless files are. Returns None if there was nothing to do.
    """
    n_files = 0
    try:
        snapshot = stream.snapshot()
        n_files = len(snapshot.files)
        if _to_tasks(snapshot, budget=budget):
            return compact_events(stream, derived=derived, budget=budget)
        if derived is None or not new_runs:
            return None
        n_merged, n_written = tidy_derived(stream, derived, budget=budget)
        return CompactionReport(n_files, n_files, 0, n_merged, n_written) if n_merged else None
    except Exception as error:  # noqa: BLE001 - whatever it is, the events are in
        fault = f"small files or runs were left as they are ({reason_of(error)})"
        return CompactionReport(n_files, n_files, 0, 0, 0, fault=fault)


def tidy_derived(stream: Stream, derived: DerivedWriter | None, *, budget: int) -> tuple[int, int]:
    """Merge and commit derived files; return how many were replaced, and by how many."""
    if derived is None:
        return 0, 0
    live = [file.name for file in stream.snapshot().files]
    n_merged = n_written = 0
    for change in derived.tidy(stream.path, live, budget=budget):
        commit_tidy(stream, [change])
        n_merged += len(change.removed)
        n_written += len(change.added)
    return n_merged, n_written


def _to_tasks(snapshot: Snapshot, *, budget: int | None) -> list[Rewrite]:
    merges = choose_merges(
        [file.n_events for file in snapshot.files],
        file_events=snapshot.settings.file_events,
        fan_in=config.COMPACTION_FAN_IN,
        budget=budget,
    )
    return [
        Rewrite(
            tuple(file.name for file in snapshot.files[merge.first : merge.stop]),
            snapshot.files[merge.first].ordinal,
        )
        for merge in merges
    ]


def _carry_out(
    stream: Stream,
    tasks: Sequence[Rewrite],
    derived: DerivedWriter | None,
    runner: Runner,
    progress: Callable[[str], None],
) -> Iterator[tuple[int, str | None]]:
    """Rewrite and commit, some tasks at a time; yield events and fault of each commit."""
    size = config.COMPACT_MERGES_PER_COMMIT
    for first in range(0, len(tasks), size):
        batch = tasks[first : first + size]
        n_files = sum(len(task.files) for task in batch)
        progress(
            f"merging {number_of(n_files, 'file')} ({first + len(batch):,} of "
            f"{number_of(len(tasks), 'merge')})"
        )
        job = partial(
            rewrite_files,
            events_dir=stream.path / EVENTS_TABLE,
            target_dir=stream.path,
            schema=stream.schema,
            settings=stream.settings,
            derived=derived,
        )
        written = list(chain(*runner(job, batch)))
        removed = tuple(name for task in batch for name in task.files)
        fault = _replace(stream, Change(tuple(written), removed, rearranges=True))
        yield sum(file.n_events for file in written), fault


def _replace(stream: Stream, change: Change) -> str | None:
    """Commit a merge; takes its files out again if others rewrote what it merged.

    Returns what failed once the merge was committed.
    """
    # The newest version will do: data files never change, so those that live can be merged.
    now = stream.snapshot()
    try:
        gone = set(change.removed) - {file.name for file in now.files}
        if gone:
            raise CommitConflictError(
                f"another process rewrote '{min(gone)}' of stream '{stream.name}' while it was "
                "merged; nothing of this merge is visible, run it again"
            )
        committed = commit_change(
            stream, change, read_version=now.version, metadata={OPERATION: COMPACT}
        )
    except BaseException:
        remove_uncommitted(stream, change.added, since=now.version)
        raise
    return committed.fault
