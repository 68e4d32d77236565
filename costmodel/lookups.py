"""Lookups: what they take, and when asking in part of the rows is worth it."""

from __future__ import annotations

from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray
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

CANDIDATE_ENTRIES: Final = 4.0
"""Entries that take as long to read as one candidate takes until its interval is known: measured
25 to 60 ns beside 8 ns."""

KEYED_ENTRIES: Final = 5.0
"""Entries that take as long to read as one whose key is read, numbered and agreed on too: 25 to
35 ns were measured beside 5 to 9 ns for reading it, 40 to 65 ns beside 3 to 10 ns for the rest."""

LOOKUP_JUMPS: Final = 5.0
"""Jumps that take as long as a lookup, however little it finds: a run is opened and its pages are
found for each of them. Measured 0.15 to 0.2 ms beside 30 µs."""


def lookup_cost(
    n_entries: FloatArray, in_order: BoolArray, parameters: CostParameters, *, keyed: bool
) -> FloatArray:
    """Return the seconds of lookups asked in full, without intervals, of the shape given.

    ``in_order`` says whose entries stand in the order of the stream, as those of one key do;
    ``keyed`` whether entries have keys that have to agree.
    """
    n = np.maximum(n_entries, 1.0)
    times = KEYED_ENTRIES if keyed else 1.0
    return np.asarray(
        parameters.entry_s * times * n_entries
        + parameters.sort_s * np.where(in_order, 0.0, n * np.log2(n))
        + parameters.seek_s * LOOKUP_JUMPS
    )


def within_cost(n_entries: FloatArray, parameters: CostParameters, *, keyed: bool) -> FloatArray:
    """Return the seconds of lookups of which next to nothing is left by row filters."""
    entry_s = parameters.entry_s * (KEYED_ENTRIES if keyed else 1.0)
    return np.asarray(LOOKUP_JUMPS * parameters.seek_s + WITHIN_SHARE * entry_s * n_entries)


def chain_cost(
    used: BoolArray,
    n_entries: FloatArray,
    in_order: BoolArray,
    parameters: CostParameters,
    *,
    keyed: bool,
) -> FloatArray:
    """Return the seconds of lookups asked one after the other, without intervals, shape (P,).

    The one with fewest entries is asked in full, the others in the rows that it leaves. ``used``
    says which lookups are asked by each of P chains, shape (P, L); the rest is as in `lookup_cost`.
    """
    whole = lookup_cost(n_entries, in_order, parameters, keyed=keyed)
    within = np.where(
        n_entries >= ENTRIES_MIN, within_cost(n_entries, parameters, keyed=keyed), whole
    )
    order = np.argsort(n_entries, kind="stable")
    ordered = used[:, order]
    is_first = ordered & (np.cumsum(ordered, axis=1) == 1)
    return np.asarray(used @ within + is_first @ (whole - within)[order])


def interval_cost(n_candidates: FloatArray, parameters: CostParameters) -> FloatArray:
    """Return the seconds to compute the intervals of so many candidates, of the shape given."""
    return np.asarray(CANDIDATE_ENTRIES * parameters.entry_s * n_candidates)
