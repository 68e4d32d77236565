"""Lookups: what those of a plan take, asked one after the other where those before leave room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray
from costmodel.coverage import condition_sets
from costmodel.features import PlanFeatures
from costmodel.parameters import CostParameters

ENTRIES_MIN: Final = 100_000
"""Lookups of fewer entries are asked in full: reading them takes half a millisecond, and so does
finding windows however few candidates there are."""

CANDIDATES_MAX: Final = 0.25
"""Candidates per entry of the next lookup up to which windows are worth finding: a sweep takes 5 to
35 ns for each event found, reading an entry 8 to 15. Half and a fifth of it gained nothing."""

GIVEN_MAX: Final = 1.5
"""Events found so far per entry of the next lookup up to which they may be swept: where a sweep
left most of them, it would do so again after each lookup."""

COVER_MAX: Final = 0.5
"""Share of the stream's rows in windows above which a lookup is asked in full: little is left out,
and holding each row against the windows takes as long as reading its time."""

SATURATED: Final = 1.0
"""How often windows would cover the stream, were candidates even in it, above which they are not
computed: most of the stream is in them, and a sweep of 670,000 events takes 130 ms, asking the
next lookup, of 460,000 entries, 8."""

ROWS_MAX: Final = 3.0
"""Rows known per entry of a lookup up to which it is asked in these rows: marking one takes about a
third of what reading a time and joining an entry does."""

WITHIN_SHARE: Final = 0.6
"""Share of an entry's weight that one takes that is read in windows: most are left out as soon as
their row is known, before their time is read and before they are joined with others. Measured 4 to
5.5 ns beside 8 ns."""

LIMITS: Final = (
    ENTRIES_MIN,
    CANDIDATES_MAX,
    GIVEN_MAX,
    COVER_MAX,
    SATURATED,
    ROWS_MAX,
    WITHIN_SHARE,
)
"""As the kernel takes them."""

CANDIDATE_ENTRIES: Final = 4.0
"""Entries that take as long to read as one candidate takes until its interval is known: measured
25 to 60 ns beside 8 ns."""

KEYED_ENTRIES: Final = 5.0
"""Entries that take as long to read as one whose key is read, numbered and agreed on too: 25 to
35 ns were measured beside 5 to 9 ns for reading it, 40 to 65 ns beside 3 to 10 ns for the rest."""

LOOKUP_JUMPS: Final = 5.0
"""Jumps that take as long as a lookup, however little it finds: a run is opened and its pages are
found for each of them. Measured 0.15 to 0.2 ms beside 30 µs."""


@dataclass(frozen=True, slots=True, eq=False)
class LookupWork:
    """What the lookups of each plan take; arrays of shape (n_plans,)."""

    entries: FloatArray
    """Entries read and joined, those left out by windows as the part of one that they take."""
    compared: FloatArray
    """Comparisons of bringing entries in the order of the stream."""
    decoded: FloatArray
    """Entries decoded, left out or not."""
    asked: FloatArray
    """Lookups."""


def estimate_lookups(features: PlanFeatures, selected: BoolArray) -> LookupWork:
    """Estimate what the lookups of each plan take, not counting intervals.

    Parameters
    ----------
    features
        The query and the stream.
    selected
        Conditions each plan uses, shape (n_plans, n_conditions).

    Notes
    -----
    As the engine asks them (``docs/planning.md``, "Windows of lookups"): the rarest of the rarest
    basic block in full, then the others, rarest first, in the windows that those before leave by
    chance. In windows of few rows a lookup of one key decodes only the row groups they lie in.
    Not in the thesis, where lookups are asked in full and their costs add up.
    """
    from costmodel.kernels import ASKED, COMPARED, DECODED, DENSITY_MAX, DENSITY_MIN, ENTRIES, ask

    n_basic = len(features.block_lengths)
    lifts = features.lifts or (np.empty(0),) * n_basic
    n_events = max(features.remaining_events, 1.0)
    density = features.segment_events @ features.density / n_events
    codes, bit = condition_sets(features, selected)
    found = np.zeros((4, len(selected)))
    ask(
        np.ascontiguousarray(selected),
        codes,
        features.basic_block,
        bit,
        features.lookup,
        np.log(np.clip(density, DENSITY_MIN, DENSITY_MAX)),
        np.concatenate((np.empty(0), *lifts)),
        np.cumsum([0, *map(len, lifts)]),
        (features.starts_exact, features.ends_exact),
        features.lookup_entries,
        features.is_in_order,
        features.group_entries,
        np.argsort(features.lookup_entries),
        n_events,
        features.mean_window,
        LIMITS,
        np.empty((2, n_basic)),
        np.empty((3, max(n_basic, len(features.lookup_entries))), np.int64),
        found,
    )
    outside = _outside(features, selected)
    entries = found[ENTRIES] + WITHIN_SHARE * outside
    return LookupWork(entries, found[COMPARED], found[DECODED] + outside, found[ASKED])


def _outside(features: PlanFeatures, selected: BoolArray) -> FloatArray:
    """Return the entries each plan decodes of events outside the segments, shape (n_plans,)."""
    outside = np.zeros(len(selected))
    for lookup, n_entries in enumerate(features.outside_entries.tolist()):
        outside += n_entries * selected[:, features.lookup == lookup].any(axis=1)
    return outside


def lookups_cost(
    work: LookupWork, candidates: FloatArray, parameters: CostParameters, *, keyed: bool
) -> FloatArray:
    """Return the seconds of lookups and of computing intervals, shape (n_plans,).

    Parameters
    ----------
    work
        Of the lookups.
    candidates
        Of each plan, shape (n_plans,).
    parameters
        Weights.
    keyed
        Whether entries have keys that have to agree.
    """
    times = KEYED_ENTRIES if keyed else 1.0
    return np.asarray(
        parameters.entry_s * (times * work.entries + CANDIDATE_ENTRIES * candidates)
        + parameters.sort_s * work.compared
        + parameters.seek_s * LOOKUP_JUMPS * work.asked
    )


def full_costs(
    n_entries: FloatArray, in_order: BoolArray, parameters: CostParameters, *, keyed: bool
) -> FloatArray:
    """Return the seconds of lookups that are asked in full, of the shape given.

    Parameters
    ----------
    n_entries
        Entries each reads.
    in_order
        Whether they stand in the order of the stream, of the same shape.
    parameters, keyed
        As in `lookups_cost`.
    """
    n = np.maximum(n_entries, 1.0)
    compared = np.where(in_order, 0.0, n * np.log2(n))
    work = LookupWork(n_entries, compared, n_entries, np.ones_like(n_entries))
    return lookups_cost(work, np.zeros_like(n_entries), parameters, keyed=keyed)


def within_cost(n_entries: float, parameters: CostParameters, *, keyed: bool) -> float:
    """Return the seconds of one lookup of which next to nothing is left by windows.

    Parameters
    ----------
    n_entries
        Entries decoded to find that out.
    parameters, keyed
        As in `lookups_cost`.
    """
    entry_s = parameters.entry_s * (KEYED_ENTRIES if keyed else 1.0)
    return LOOKUP_JUMPS * parameters.seek_s + WITHIN_SHARE * entry_s * n_entries


def least_costs(
    features: PlanFeatures, parameters: CostParameters
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the most seconds each lookup takes, shape (n_lookups,).

    A set of lookups takes at least the least of all of them and, as the first is asked in full,
    what any of them can take more.
    """
    entries, in_order = features.lookup_entries, features.is_in_order
    keyed = features.is_keyed
    most = full_costs(entries, in_order, parameters, keyed=keyed)
    none, one = np.zeros(len(entries)), np.ones(len(entries))
    narrowed = np.where(in_order, 0.0, WITHIN_SHARE * entries)
    least = lookups_cost(LookupWork(narrowed, none, narrowed, one), none, parameters, keyed=keyed)
    return np.where(entries >= ENTRIES_MIN, np.minimum(least, most), most), most
