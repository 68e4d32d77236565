"""Every default of the secondary indexes, in one place, with its unit and its reason."""

from __future__ import annotations

FENCE_ENTRIES = 4096
"""Most entries of a group of a run. A group of 4,096 reads in about 40 µs where 8,192 take
60, and whole runs cost the same per entry, so the smaller one makes narrow lookups cheaper."""

FENCE_KEY_CHARS = 256
"""Longest string a fence holds; longer keys are bounded by their prefix."""

MEMTABLE_EVENTS = 1 << 16
"""Largest data file of the tail, in events, whose entries are sorted and kept in memory."""

MEMTABLE_CACHE_BYTES = 64 << 20
"""Memory for memtables of the tail, all streams together."""

RUN_CACHE_BYTES = 64 << 20
"""Memory for fences and footers of opened runs, all streams together."""

INDEX_SETS_KEPT = 8
"""Snapshots whose choice of runs stays in memory, so that a repeated query lists no folder."""

SCAN_EVENTS = 1 << 18
"""Events of the tail read at once where it is scanned."""

ANSWER_CACHE_BYTES = 64 << 20
"""Memory for answers of lookups, all indexes together: four million entries."""

SCRATCH_BYTES = 8 << 20
"""Largest buffer of each kind a thread keeps for lookups: half a million entries."""

SCATTER_SPAN_MAX = 256
"""Entries of groups that interleave are put in order by a compiled scatter, 3 ns an entry. It
visits their whole span of sequence numbers, 64 at a time: up to this many numbers per entry.
Thinner ones are sorted, 10 ns an entry and more."""

ROW_MASK_BITS_MAX = 25
"""Binary logarithm of the bits of a mask of rows: 4 MiB, a row each up to 33 million events,
several rows a bit beyond. It is cleared once a lookup, at some 10 GB/s."""

MERGE_GROUPS = 16
"""Groups of each run held in memory while runs are merged."""

RUN_FAN_IN = 4
"""Runs of like size that are merged into one: a lookup then touches at most three per power of four
of the entries, and an entry is written once per power of four."""

RUN_MERGE_WIDTH = 64
"""Most runs merged at once: each holds ``MERGE_GROUPS`` groups in memory, about 2 MB."""

TAIL_FILE_EVENTS = 1 << 15
"""Smaller data files get no run at an append and are answered from memtables."""

FILES_PER_COMMIT = 64
"""Data files whose runs are committed together while an index is created: a crash loses no more."""

COMPOSITE_PARTS_MAX = 4
"""Most columns of a composite index. More are narrower than any of its keys is common."""

COMPOSITE_POINTS_MAX = 64
"""Most keys of the leading parts of a composite index whose combinations are looked up one by one,
before a range of the next part is: IN lists of a query are about as long."""

COMPOSITE_RANGES_MAX = 1024
"""Most ranges several leading keys of a composite index become by the next part; beyond, what is
said of that part is left to the events."""
