"""Size-tiered compaction of runs: which to merge, and merging them within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chronicle.derived import DerivedChange, DerivedFile
from chronicle.disk import discard
from chronicle.errors import StorageError
from chronicle.log import delta_log
from indexing.config import FENCE_ENTRIES, RUN_FAN_IN, RUN_MERGE_WIDTH
from indexing.cover import choose_runs
from indexing.coverage import RunListing, list_runs
from indexing.errors import CorruptRunError
from indexing.kway_merge import merge_runs
from indexing.run import open_run
from indexing.run_format import CoveredFile
from indexing.tables import index_table, merged_run_name


@dataclass(frozen=True, slots=True)
class RunState:
    """A run as the chooser sees it."""

    name: str
    cover: tuple[CoveredFile, ...]


@dataclass(frozen=True, slots=True)
class RunMerge:
    """Runs that one new run replaces."""

    names: tuple[str, ...]
    """One or more; of a single one only the dead entries are dropped."""

    n_entries: int
    """Entries of the new run, or more where two of them cover the same file."""


@dataclass(frozen=True, slots=True)
class RunChoice:
    """What to do to the runs of one index."""

    merges: tuple[RunMerge, ...] = ()

    redundant: tuple[str, ...] = ()
    """Runs to take out: others hold every file they cover. Two processes that merge the same runs
    at once leave such a run behind."""

    @property
    def n_entries(self) -> int:
        """Most entries to write."""
        return sum(merge.n_entries for merge in self.merges)


@dataclass(frozen=True, slots=True)
class _Group:
    """Runs that will be one."""

    names: tuple[str, ...]
    first: int
    """Place of its first live file in the stream."""

    n_entries: int
    """Entries of live files."""

    n_dead: int
    is_merge: bool = False
    """Whether its entries are to be written anew anyway."""

    @property
    def cost(self) -> int:
        """Entries to write if the group becomes part of a merge, beyond those counted."""
        return 0 if self.is_merge else self.n_entries


def tier_of(n_entries: int, *, fan_in: int = RUN_FAN_IN) -> int:
    """Return the tier of a run: k if it has from ``fan_in ** k`` entries on, -1 if it has none.

    Examples
    --------
    >>> [tier_of(n, fan_in=4) for n in (0, 1, 3, 4, 15, 16)]
    [-1, 0, 0, 1, 1, 2]
    """
    tier = -1
    while n_entries:
        n_entries //= fan_in
        tier += 1
    return tier


def choose_run_merges(
    runs: Sequence[RunState],
    live: Sequence[str],
    *,
    budget: int | None = None,
    full: bool = False,
    fan_in: int = RUN_FAN_IN,
    width: int = RUN_MERGE_WIDTH,
) -> RunChoice:
    """Return which runs of one index, all whole, to merge into one, and which are of no use. Pure.

    A run of n entries of live files is of tier k = floor(log(n) / log(fan_in)). While a tier holds
    ``fan_in`` runs, those next to each other in the stream are merged, into a run of a higher tier;
    what is merged again by that is written once. A run of whose entries more than half are dead is
    written anew without them. Runs without a live file serve older versions and are left to
    ``vacuum``.

    Parameters
    ----------
    live
        Names of the live data files, in stream order.
    budget
        Most entries to write; None for any number. A merge that costs more is left out.
    full
        Whether to merge all of them, whatever their sizes.
    width
        Most runs that are read at once, at least ``fan_in``. Where more should become one, it takes
        another round.

    Notes
    -----
    Laws, for n entries in all, held by ``tests/unit/indexing/test_run_compaction.py``:

    * Once nothing is left to choose there are at most ``(fan_in - 1) * (2 + log(n))`` runs with a
      live file (log to base ``fan_in``), so that is what a lookup touches.
    * While events are only appended, an entry is written at most ``log(n)`` times after its first
      run: each merge lifts it by a tier.
    * With a budget b whenever a run was added, the first law holds for the runs of fewer than
      ``b / fan_in**2`` entries; of larger ones there are at most ``n * fan_in**2 / b``.
    """
    groups, redundant = _to_groups(runs, live)
    total = sum(group.n_entries for group in groups)
    left = total if budget is None else budget
    groups = _merge_all(groups, left, width) if full else _merge_tiers(groups, left, fan_in, width)
    merges = [group for group in groups if group.is_merge]
    left -= sum(group.n_entries for group in merges)
    for group in groups:
        if not group.is_merge and group.n_dead > group.n_entries and group.n_entries <= left:
            left -= group.n_entries
            merges.append(group)
    return RunChoice(tuple(RunMerge(g.names, g.n_entries) for g in merges), redundant)


def _to_groups(
    runs: Sequence[RunState], live: Sequence[str]
) -> tuple[list[_Group], tuple[str, ...]]:
    """Return the runs that live files are taken from, each alone, and the redundant ones."""
    place = {name: i for i, name in enumerate(live)}
    n_events = {c.name: c.n_events for run in runs for c in run.cover if c.name in place}
    chosen = [set(taken) for taken in choose_runs([run.cover for run in runs], n_events)]
    needed = {c.name for run, taken in zip(runs, chosen, strict=True) for c in run.cover if taken}
    groups, redundant = [], []
    for run, taken in zip(runs, chosen, strict=True):
        if taken:
            # A file that two runs cover counts for both, as it does if they are merged apart.
            n_entries = sum(c.n_entries for c in run.cover if c.name in place)
            n_dead = sum(c.n_entries for c in run.cover) - n_entries
            first = min(place[name] for name in taken)
            groups.append(_Group((run.name,), first, n_entries, n_dead))
        elif all(c.name in needed for c in run.cover):
            redundant.append(run.name)
    return groups, tuple(redundant)


def _merge_all(groups: list[_Group], left: int, width: int) -> list[_Group]:
    """Return one group of all, or as few as ``width`` allows; a single clean run stays alone."""
    groups = sorted(groups, key=lambda group: group.first)
    parts = [groups[i : i + width] for i in range(0, len(groups), width)]
    merged = []
    for part in parts:
        whole = _join(part)
        if (len(part) > 1 or whole.n_dead) and whole.n_entries <= left:
            left -= whole.n_entries
            merged.append(whole)
        else:
            merged += part
    return merged


def _merge_tiers(groups: list[_Group], left: int, fan_in: int, width: int) -> list[_Group]:
    """Return the groups after merging every tier that is full, the lowest first."""
    tier, highest = -1, tier_of(sum(group.n_entries for group in groups), fan_in=fan_in)
    while tier <= highest:
        members = [g for g in groups if tier_of(g.n_entries, fan_in=fan_in) == tier]
        members.sort(key=lambda group: group.first)
        picked = _pick(members, left, fan_in, width)
        if picked:
            groups = [group for group in groups if group not in picked] + [_join(picked)]
            left -= sum(group.cost for group in picked)
        else:
            tier += 1
    return groups


def _pick(members: list[_Group], left: int, fan_in: int, width: int) -> list[_Group]:
    """Return the groups of one tier to merge: at least ``fan_in`` of them, or none."""
    cheapest = sorted(members, key=lambda group: group.cost)
    sizes = range(min(len(members), width), fan_in - 1, -1)
    for picked in (*(members[:size] for size in sizes), cheapest[:fan_in]):
        n_runs, cost = sum(len(g.names) for g in picked), sum(g.cost for g in picked)
        if fan_in <= len(picked) and n_runs <= width and cost <= left:
            return picked
    return []


def _join(groups: Sequence[_Group]) -> _Group:
    return _Group(
        tuple(name for group in groups for name in group.names),
        min(group.first for group in groups),
        sum(group.n_entries for group in groups),
        sum(group.n_dead for group in groups),
        is_merge=True,
    )


def merge_indexes(
    stream_dir: Path,
    attributes: Sequence[str],
    live: Sequence[str],
    *,
    budget: int | None = None,
    full: bool = False,
    keyed: bool = False,
    fence_entries: int = FENCE_ENTRIES,
) -> Iterator[DerivedChange]:
    """Carry out what ``choose_run_merges`` says, an index after the other; commit nothing.

    Runs that prove to be damaged are taken out: no lookup can use them, and their data files are
    lacking a run from then on, so that the next ingest writes one. If merging an index fails,
    nothing of it is left behind.

    Parameters
    ----------
    live
        Names of the live data files, in stream order.
    budget
        Most entries to write, all indexes together, shared evenly; None for any number.
    full
        Whether to merge the runs of each index into one.
    keyed
        Whether the stream has a key column, see ``list_runs``.
    """
    for i, attribute in enumerate(attributes):
        share = None if budget is None else budget // (len(attributes) - i)
        try:
            listing = list_runs(stream_dir, attribute, frozenset(live), keyed=keyed)
            merger = _Merger(stream_dir, attribute, live, listing, fence_entries)
            spent = merger.run(budget=share, full=full)
        except (FileNotFoundError, StorageError):
            if delta_log.table_exists(stream_dir / index_table(attribute)):
                raise
            continue  # another process dropped the index meanwhile
        budget = None if budget is None else budget - spent
        yield from merger.changes()


class _Merger:
    """Merges the runs of one index, round by round until nothing is left to choose."""

    def __init__(
        self,
        stream_dir: Path,
        attribute: str,
        live: Sequence[str],
        listing: RunListing,
        fence_entries: int,
    ) -> None:
        self._stream_dir = stream_dir
        self._attribute = attribute
        self._live = live
        self._fence_entries = fence_entries
        self._covers: dict[str, tuple[CoveredFile, ...]] = {
            name: run.cover for name, run in listing.whole.items()
        }
        self._added: dict[str, DerivedFile] = {}
        self._removed: list[str] = sorted(listing.damaged)

    def run(self, *, budget: int | None, full: bool) -> int:
        """Merge what fits the budget; return the entries written."""
        spent = 0
        try:
            while True:
                left = None if budget is None else budget - spent
                runs = [RunState(name, cover) for name, cover in self._covers.items()]
                choice = choose_run_merges(runs, self._live, budget=left, full=full)
                if not choice.merges and not choice.redundant:
                    return spent
                for name in choice.redundant:
                    self._drop(name)
                spent += self._carry_out(choice.merges)
        except BaseException:
            _remove(self._stream_dir, self._added.values())
            raise

    def changes(self) -> list[DerivedChange]:
        """Return what was done, as one change or none."""
        if not self._added and not self._removed:
            return []
        table = index_table(self._attribute)
        return [DerivedChange(table, tuple(self._added.values()), tuple(self._removed))]

    def _carry_out(self, merges: Sequence[RunMerge]) -> int:
        """Merge until a run proves to be damaged, which changes what should be merged."""
        spent = 0
        for merge in merges:
            target = merged_run_name()
            try:
                file = merge_runs(
                    self._stream_dir, self._attribute, merge.names, live=self._live, target=target,
                    fence_entries=self._fence_entries,
                )  # fmt: skip
            except CorruptRunError as error:
                if error.unread is not None:
                    raise
                self._drop(Path(error.path).name)
                return spent
            spent += file.n_rows
            for name in merge.names:
                self._drop(name)
            self._added[target] = file
            self._covers[target] = open_run(self._stream_dir / file.table / target).cover
        return spent

    def _drop(self, name: str) -> None:
        """Take a run out: out of its table, or off the disk if no table knows it yet."""
        del self._covers[name]
        own = self._added.pop(name, None)
        if own is None:
            self._removed.append(name)
        else:
            _remove(self._stream_dir, [own])


def _remove(stream_dir: Path, files: Iterable[DerivedFile]) -> None:
    """Remove files that were never committed."""
    discard(stream_dir / file.table / file.name for file in files)
