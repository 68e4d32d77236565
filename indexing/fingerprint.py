"""Fingerprints of index entries: equal for equal sets of entries, whatever their order."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from chronicle.maintenance.finding import CheckedEvents
from chronicle.time import to_int64
from indexing.attributes import columns_to_index, keys_of, with_derived
from indexing.entries import LooseEntries
from indexing.objects import to_objects

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_STEPS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)


@dataclass(slots=True)
class EntryFingerprint:
    """Number of entries and sum of their hashes, modulo 2^64, of each file a run covers."""

    n_entries: np.ndarray
    total: np.ndarray

    @classmethod
    def none(cls, n_files: int) -> EntryFingerprint:
        """Return the fingerprint of no entries."""
        return cls(np.zeros(n_files, np.int64), np.zeros(n_files, np.uint64))

    def add(self, other: EntryFingerprint) -> None:
        """Take in further entries of the same run."""
        self.n_entries += other.n_entries
        self.total += other.total


def fingerprint_entries(read: LooseEntries, ends: np.ndarray) -> EntryFingerprint:
    """Return the fingerprint of some entries of a run; covered files end at positions ``ends``."""
    file = np.searchsorted(ends, read.position, side="right")
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    objects = None if read.objects is None else _hash_values(read.objects)
    hashes = _combine(_hash_values(read.keys), read.t, read.position - starts[file], objects)
    found = EntryFingerprint.none(len(ends))
    np.add.at(found.total, file, hashes)
    found.n_entries += np.bincount(file, minlength=len(ends))
    return found


def fingerprint_file(
    events: CheckedEvents, name: str, attribute: str, *, with_objects: bool
) -> tuple[int, int]:
    """Return number and fingerprint of the entries that the events of one data file give."""
    time, key = events.settings.time, events.settings.key
    columns = columns_to_index(events.schema, [attribute], key)
    wanted = dict.fromkeys((*columns, time, *([key] if with_objects and key else [])))
    n_blocks = len(events.reader.block_counts(name))
    table = events.reader.read(name, range(n_blocks), list(wanted))
    keys = keys_of(with_derived(table, [attribute], key), attribute)
    t = to_int64(table.column(time), name=time).to_numpy()
    objects = None
    if with_objects and key:
        objects = _hash_values(to_objects(table.column(key), key).take(pa.array(keys.rows)))
    hashes = _combine(_hash_values(keys.values), np.asarray(t)[keys.rows], keys.rows, objects)
    return len(hashes), int(hashes.sum(dtype=np.uint64))


def _combine(
    keys: np.ndarray, t: np.ndarray, offset: np.ndarray, objects: np.ndarray | None
) -> np.ndarray:
    mixed = _mix(_mix(_mix(keys) + _bits(t)) + _bits(offset))
    return mixed if objects is None else _mix(mixed + objects)


def _mix(values: np.ndarray) -> np.ndarray:
    """Return the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) of each value."""
    values = values + _GOLDEN
    for shift, factor in _STEPS:
        values = (values ^ (values >> shift)) * factor
    return np.asarray(values ^ (values >> np.uint64(31)))


def _bits(numbers: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(numbers).view(np.uint64)


def _hash_values(values: pa.Array) -> np.ndarray:
    """Return a hash of each value, null being one of them."""
    if not values.null_count and pa.types.is_primitive(values.type):
        return _bits(values.to_numpy())
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    words = encoded.dictionary
    is_text = pa.types.is_string(words.type)
    hashed = _hash_words(words) if is_text else _bits(words.to_numpy(zero_copy_only=False))
    codes = encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
    return np.asarray(np.append(hashed, _GOLDEN)[codes])


def _hash_words(words: pa.StringArray) -> np.ndarray:
    digests = b"".join(
        hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for word in words.to_pylist()
    )
    return np.frombuffer(digests, np.uint64)
