"""Entries on their way from runs to a merged one, with keys as numbers that sort as they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexing.keys import KeyKind
from indexing.objects import join_objects
from indexing.run import GroupEntries
from indexing.run_format import RunHead

_ALL_BUT_SIGN = np.int64((1 << 63) - 1)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Entries in any order.

    Attributes
    ----------
    kind
        How their keys are held.
    rank
        int64 array: sorts as the keys do. Integers themselves; the bits of doubles, those of
        negative ones but the sign turned over; places of strings in ``words``.
    words
        The strings, ascending, none twice; None for other keys.
    position, t
        int64 arrays: row over the files of the merged run, and time.
    objects
        Their objects, if the merged run holds any.
    """

    kind: KeyKind
    rank: np.ndarray
    words: pa.StringArray | None
    position: np.ndarray
    t: np.ndarray
    objects: pa.Array | None

    def __len__(self) -> int:
        return len(self.rank)

    @classmethod
    def of(cls, read: GroupEntries, kind: KeyKind, *, with_objects: bool) -> Ranked:
        """Return what was read of a run; strings are not in order before :func:`align`."""
        rank = _to_rank(read.numbers) if kind is KeyKind.DOUBLE else read.numbers
        objects = read.objects if with_objects else None
        return cls(kind, rank, read.words, read.position, read.t, objects)

    @classmethod
    def nothing(cls, head: RunHead) -> Ranked:
        """Return no entries of a run."""
        none = np.empty(0, dtype=np.int64)
        words = pa.array([], pa.string()) if head.kind is KeyKind.STRING else None
        objects = head.object_kind and pa.array([], head.object_kind.arrow_type)
        return cls(head.kind, none, words, none, none, objects)

    def take(self, places: np.ndarray) -> Ranked:
        """Return the entries at ``places``, in that order."""
        objects = self.objects
        return replace(
            self,
            rank=self.rank[places],
            position=self.position[places],
            t=self.t[places],
            objects=None if objects is None else objects.take(pa.array(places)),
        )

    def order(self) -> np.ndarray:
        """Return the places of the entries in order of (key, position), an int64 array."""
        from indexing.kernels import stable_order

        order: np.ndarray = stable_order(self.position)
        return np.asarray(order[stable_order(self.rank[order])])

    def last(self) -> tuple[int, int]:
        """Return (rank, position) of the entry that comes last."""
        rank = self.rank.max()
        return int(rank), int(self.position[self.rank == rank].max())

    def split(self, bound: tuple[int, int] | None) -> tuple[Ranked, Ranked | None]:
        """Return what does not come after (rank, position), and the rest if there is any."""
        if bound is None:
            return self, None
        rank, position = bound
        early = (self.rank < rank) | ((self.rank == rank) & (self.position <= position))
        if early.all():
            return self, None
        return self.take(np.flatnonzero(early)), self.take(np.flatnonzero(~early))

    def key_words(self, rank: np.ndarray) -> pa.Array:
        """Return the keys that ranks stand for: int64, double or string array."""
        if self.words is not None:
            return self.words.take(pa.array(rank))
        return pa.array(_from_rank(rank) if self.kind is KeyKind.DOUBLE else rank)

    def plain(self) -> Ranked:
        """Return the same entries, whose objects share no dictionary with others."""
        if self.objects is None or not pa.types.is_dictionary(self.objects.type):
            return self
        return replace(self, objects=self.objects.cast(self.objects.type.value_type))


def align(parts: Sequence[Ranked]) -> list[Ranked]:
    """Return parts whose ranks can be compared with each other, at least one.

    Words that no entry has any more are dropped.
    """
    if parts[0].words is None:
        return list(parts)
    slim = [_slimmed(part) for part in parts]
    encoded = pa.concat_arrays([part.words for part in slim]).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    rank_of_word = rank[encoded.indices.to_numpy()]
    words = encoded.dictionary.take(order)
    starts = np.cumsum([0, *(len(part.words or ()) for part in slim)])
    return [
        replace(part, rank=rank_of_word[start + part.rank], words=words)
        for part, start in zip(slim, starts.tolist(), strict=False)
    ]


def join(parts: Sequence[Ranked]) -> Ranked:
    """Return the entries of all parts, at least one, that are aligned."""
    objects = None
    if parts[0].objects is not None:
        objects = join_objects([part.objects for part in parts], is_unique=False)
    return Ranked(
        parts[0].kind,
        np.concatenate([part.rank for part in parts]),
        parts[0].words,
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.t for part in parts]),
        objects,
    )


def _slimmed(part: Ranked) -> Ranked:
    assert part.words is not None
    used = np.bincount(part.rank, minlength=len(part.words)) > 0
    if used.all():
        return part
    places = np.cumsum(used) - 1
    return replace(part, rank=places[part.rank], words=part.words.filter(pa.array(used)))


def _to_rank(doubles: np.ndarray) -> np.ndarray:
    bits = doubles.view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & _ALL_BUT_SIGN))


def _from_rank(rank: np.ndarray) -> np.ndarray:
    return np.asarray(rank ^ ((rank >> 63) & _ALL_BUT_SIGN)).view(np.float64)
