"""One sorted run of entries, in a file or in memory, read by group.

Nothing that is read is believed because its checksum is right: what a loop uses as a number of an
event, of a key or of an object is compared, each time, with how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from chronicle.tree.column_file import ColumnFile, open_columns, stretches_of
from indexing.config import MERGE_GROUPS
from indexing.cover import Segments
from indexing.entries import Entries, LooseEntries, spread
from indexing.errors import CorruptRunError
from indexing.fences import Fences, Selection
from indexing.key_range import Bounds
from indexing.keys import KeyKind, to_comparable
from indexing.lookup import Lookup
from indexing.objects import code_words
from indexing.row_mask import RowMask
from indexing.run_format import FILE_KIND, GROUP_ENTRIES_MAX, NUMBERS, CoveredFile, RunHead
from indexing.scratch import Scratch

# What is read and decoded at once never outlives the lookup, so the next may overwrite it.
_raw, _decoded, _places = Scratch(), Scratch(), Scratch()

_MEMORY = Path("memory")  # of runs that have no file

_UNSIGNED = (1 << 64) - 1
_NONE_ADMITTED = np.empty(0, np.bool_)
_NO_STRINGS = pa.nulls(0, pa.string())  # PyArrow's array() would load pandas


@dataclass(frozen=True, slots=True)
class _MemoryColumns:
    """Columns in memory, read as those of a `ColumnFile` are."""

    numbers: Mapping[str, np.ndarray]
    strings: Mapping[str, pa.StringArray]

    def read(
        self,
        *wanted: tuple[str, int, int],
        borrow: Callable[[int], np.ndarray] | None = None,  # noqa: ARG002
    ) -> list[np.ndarray]:
        return [self.numbers[name][start:stop] for name, start, stop in wanted]

    def read_strings(self, name: str, start: int, stop: int) -> pa.StringArray:
        return self.strings[name].slice(start, stop - start)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of which groups can be read. Thread-safe.

    What reads it raises `CorruptRunError` if the file is gone, damaged, or says what no run can.
    """

    head: RunHead
    fences: Fences
    cuts: np.ndarray
    """Group g has the entries ``cuts[g]:cuts[g + 1]``."""
    key_cuts: np.ndarray
    """Which words of keys each group has, likewise."""
    object_cuts: np.ndarray | None
    """Which words of objects, if it holds any."""
    columns: ColumnFile | _MemoryColumns = field(repr=False)
    path: Path = _MEMORY
    size_bytes: int = 0

    @classmethod
    def in_memory(cls, head: RunHead, entries: Entries) -> Run:
        """Return the run of some entries."""
        keys, objects = entries.keys, entries.objects
        columns = {"t": head.scale.to_steps(entries.t), "position": entries.position}
        types = head.entry_columns()
        numbers = {name: column.astype(types[name]) for name, column in columns.items()}
        numbers["key"] = keys.codes
        strings: dict[str, pa.StringArray] = {}
        size = keys.nbytes + sum(column.nbytes for column in numbers.values())
        parts = {"key_word": keys}
        if objects is not None:
            parts["object_word"] = objects
            numbers["object"] = objects.codes
            size += objects.nbytes
        for name, part in parts.items():
            if pa.types.is_string(part.words.type):
                strings[name] = part.words
            else:
                numbers[name] = part.words.to_numpy(zero_copy_only=False)
        fences = Fences(*keys.ends(), np.diff(keys.cuts))
        object_cuts = None if objects is None else objects.word_cuts
        held = _MemoryColumns(numbers, strings)
        return cls(head, fences, keys.cuts, keys.word_cuts, object_cuts, held, _MEMORY, size)

    @property
    def kind(self) -> KeyKind:
        """How the keys are held."""
        return self.head.kind

    @property
    def object_kind(self) -> KeyKind | None:
        """How the objects are held, if the entries carry any."""
        return self.head.object_kind

    @property
    def cover(self) -> tuple[CoveredFile, ...]:
        """Data files whose entries the run holds."""
        return self.head.cover

    def check_keys(self, attribute: str, kind: KeyKind) -> None:
        """Raise `CorruptRunError` unless its keys are of an attribute, and held as those are."""
        if self.head.attribute != attribute or self.kind is not kind:
            found = f"it holds {self.kind.value} keys of '{self.head.attribute}'"
            raise CorruptRunError(str(self.path), found)

    @property
    def memory_bytes(self) -> int:
        """Estimate of what the opened run holds in memory, its columns left out."""
        fences = self.fences
        keys = [k for k in (fences.low, fences.high) if k.dtype == object]
        strings = sum(len(key) for column in keys for key in column)
        return strings + 300 * (1 + len(fences)) + 200 * len(self.cover)

    def find(
        self, selection: Selection, bounds: Bounds, segments: Segments, *, with_objects: bool
    ) -> Lookup:
        """Return the entries of the selected groups, at least one, with keys in ``bounds``.

        ``segments`` say where the run's positions lie in the stream.
        """
        with self.stated():
            every, some = (_Part.of(self, g) for g in (selection.groups, selection.at_rim))
            rows, steps, codes = _read(self, (every, "position"), (every, "t"), (some, "key"))
            seq, t = np.empty((2, every.n_entries), np.int64)
            kept = selection.rim, _admit(self, some, codes, bounds)
            cuts = _place(self, every, rows, segments.shift, seq, kept)
            _time(self, every, steps, t, kept)
            objects = _read_objects(self, every) if with_objects else None
        if objects is not None and len(some.groups):
            objects = objects.filter(pa.array(_spread_kept(every, *kept)))
        seq, t = seq[: cuts[-1]], t[: cuts[-1]]
        if 2 * len(seq) < every.n_entries:  # else memory of all would be kept with them
            seq, t = seq.copy(), t.copy()
        n_bytes = rows.nbytes + steps.nbytes + codes.nbytes if self.path is not _MEMORY else 0
        found = Lookup(seq, t, every.n_entries, n_bytes, objects, cuts)
        if segments.is_one:
            return found
        segments.place(seq)
        live = seq >= 0
        return found if live.all() else found.take(live)

    def find_within(
        self,
        selection: Selection,
        bounds: Bounds,
        segments: Segments,
        rows: RowMask,
        *,
        with_times: bool,
        with_objects: bool,
    ) -> Lookup:
        """Return the entries of the selected groups with keys in ``bounds`` that ``rows`` leaves.

        Times, keys and objects are read of groups alone that have rows of interest. ``segments``
        say where the run's positions lie in the stream.
        """
        with self.stated():
            every = _Part.of(self, selection.groups)
            [rows_read] = _read(self, (every, "position"))
            n_bytes = rows_read.nbytes
            seq = _decoded.borrow(8 * every.n_entries).view(np.int64)
            _place(self, every, rows_read, segments.shift, seq)
            if not segments.is_one:
                segments.place(seq)
            places = rows.places_of(seq, _places.borrow(8 * (len(seq) + 1)).view(np.int64))
            cuts = np.searchsorted(places, every.cuts)
            touched = cuts[1:] > cuts[:-1]
            some, rim = _Part.of(self, selection.groups[touched]), selection.rim[touched]
            # The same entries, counted over the groups that are read on.
            moved = (every.cuts[:-1][touched] - some.cuts[:-1]).repeat(np.diff(cuts)[touched])
            at, seq = places - moved, seq[places]
            if rim.any():
                at_rim = _Part.of(self, some.groups[rim])
                [codes] = _read(self, (at_rim, "key"))
                n_bytes += codes.nbytes
                kept = _spread_kept(some, rim, _admit(self, at_rim, codes, bounds))[at]
                at, seq = at[kept], seq[kept]
                cuts = np.concatenate(([0], np.cumsum(kept)))[cuts]
            t = None
            if with_times:
                [steps] = _read(self, (some, "t"))
                n_bytes += steps.nbytes
                times = np.empty(some.n_entries, np.int64)
                _time(self, some, steps, times)
                t = times[at]
            objects = _read_objects(self, some).take(pa.array(at)) if with_objects else None
        n_bytes = n_bytes if self.path is not _MEMORY else 0
        return Lookup(seq, t, some.n_entries, n_bytes, objects, cuts)

    def read(self, groups: np.ndarray) -> LooseEntries:
        """Return the entries of ``groups`` (ascending), one group after the other."""
        with self.stated():
            every = _Part.of(self, groups)
            rows, steps = _read(self, (every, "position"), (every, "t"))
            position, t = np.empty((2, every.n_entries), dtype=np.int64)
            _place(self, every, rows, 0, position)
            _time(self, every, steps, t)
            keys = _read_keys(self, every)
            objects = None if self.object_kind is None else _read_objects(self, every)
        return LooseEntries(keys, t, position, objects)

    def check(self) -> None:
        """Read all entries, some groups at a time."""
        for first in range(0, len(self.fences), MERGE_GROUPS):
            self.read(np.arange(first, min(len(self.fences), first + MERGE_GROUPS)))

    @contextmanager
    def stated(self) -> Iterator[None]:
        """Turn what goes wrong with the file into one error."""
        try:
            yield
        except FileNotFoundError as error:
            raise CorruptRunError(str(self.path), "the file is missing") from error
        except (OSError, ValueError) as error:
            raise CorruptRunError.of(self.path, error) from error


class _Part(NamedTuple):
    """Some groups of a run.

    Attributes
    ----------
    groups
        int64 array, ascending.
    stretches
        Groups that follow each other, half-open.
    cuts
        int64 array: where among the entries of all of them those of each begin and end.
    """

    groups: np.ndarray
    stretches: list[tuple[int, int]]
    cuts: np.ndarray

    @classmethod
    def of(cls, run: Run, groups: np.ndarray) -> _Part:
        return cls(groups, stretches_of(groups), _count_on(run.cuts, groups))

    @property
    def n_entries(self) -> int:
        return int(self.cuts[-1])


def _count_on(cuts: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return where things are cut that are cut at ``cuts``, if those of some groups are taken."""
    taken = np.zeros(len(groups) + 1, np.int64)
    np.cumsum(cuts[groups + 1] - cuts[groups], out=taken[1:])
    return taken


def _read(run: Run, *wanted: tuple[_Part, str]) -> list[np.ndarray]:
    """Return columns of entries, in memory that the next reading of the thread overwrites."""
    cuts, stretches, counts = run.cuts, [], []
    for part, name in wanted:
        found = [(name, int(cuts[a]), int(cuts[b])) for a, b in part.stretches]
        stretches += found
        counts.append(len(found))
    read = iter(run.columns.read(*stretches, borrow=_raw.borrow))
    return [_joined([next(read) for _ in range(n)], np.uint16) for n in counts]


def _joined(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _place(
    run: Run,
    part: _Part,
    rows: np.ndarray,
    shift: int,
    position: np.ndarray,
    kept: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Write rows plus ``shift`` to ``position`` (int64), and return where groups are cut there.

    Of groups at the rim only admitted entries are kept, if ``kept`` says which they are. Raises
    `ValueError` if rows do not ascend in each group, or are not those of the files covered.
    """
    limits = False, np.uint64(max(0, run.head.n_events - 1))
    return _decode(part, rows, kept, limits, (1, shift), position)


def _time(
    run: Run,
    part: _Part,
    steps: np.ndarray,
    t: np.ndarray,
    kept: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Write the times that steps stand for to ``t`` (int64).

    Raises `ValueError` if they fall in a group, or are not on the run's scale.
    """
    scale = run.head.scale
    limits = True, np.uint64(scale.steps_max)
    _decode(part, steps, kept, limits, (scale.divisor, scale.first), t)


def _decode(
    part: _Part,
    numbers: np.ndarray,
    kept: tuple[np.ndarray, np.ndarray] | None,
    limits: tuple[bool, np.uint64],
    line: tuple[int, int],
    out: np.ndarray,
) -> np.ndarray:
    from indexing.kernels import decode

    cuts = np.empty_like(part.cuts)
    if kept is None:
        kept = np.zeros(len(part.groups), np.bool_), _NONE_ADMITTED
    scale, shift = (np.uint64(number & _UNSIGNED) for number in line)
    if not decode(numbers, part.cuts, kept, limits, (scale, shift), out, cuts):
        raise ValueError("entries of its groups are not in the order of events, or of none")
    return cuts


def _spread_kept(part: _Part, rim: np.ndarray, admitted: np.ndarray) -> np.ndarray:
    """Return which entries are kept, of groups at the rim those admitted."""
    kept = np.ones(part.n_entries, np.bool_)
    kept[rim.repeat(np.diff(part.cuts))] = admitted
    return kept


def _admit(run: Run, part: _Part, codes: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Return which entries have keys in ``bounds``; `ValueError` if a key is not one of its group.

    Whether a key is admitted is decided once for all entries of a group that have it.
    """
    from indexing.kernels import admit

    if not len(codes):
        return _NONE_ADMITTED
    admitted = np.empty(len(codes), np.bool_)
    words, word_cuts = _read_words(run, part, "key_word", run.kind, run.key_cuts)
    if not admit(codes, part.cuts, word_cuts, bounds.contains(words), admitted):
        raise ValueError("its entries have keys that their group does not have")
    return admitted


def _read_keys(run: Run, part: _Part) -> pa.Array:
    """Return the keys of all entries; of strings a dictionary array.

    Raises `ValueError` if keys lie outside their group's fence, or those of a group do not ascend.
    """
    [codes] = _read(run, (part, "key"))
    words, word_cuts = _read_words(run, part, "key_word", run.kind, run.key_cuts)
    _check_codes(codes, part, np.diff(word_cuts) - 1)
    values = to_comparable(words)
    rises = np.asarray(values[1:] > values[:-1], np.bool_)
    rises[word_cuts[1:-1] - 1] = True
    low, high = run.fences.low[part.groups], run.fences.high[part.groups]
    inside = (values[word_cuts[:-1]] >= low) & (values[word_cuts[1:] - 1] <= high)
    if not rises.all() or not inside.all():
        raise ValueError("keys of its groups are not in order")
    places = spread(codes, word_cuts, part.cuts)
    if run.kind is KeyKind.STRING:
        return code_words(places, np.zeros(len(places), np.bool_), words)
    return pa.array(values[places])


def _read_objects(run: Run, part: _Part) -> pa.Array:
    """Return the objects of all entries; of strings a dictionary array.

    Raises `ValueError` if an entry has an object that its group does not have.
    """
    kind = run.object_kind
    assert kind is not None, "asked of runs with objects only"
    assert run.object_cuts is not None
    [codes] = _read(run, (part, "object"))
    words, word_cuts = _read_words(run, part, "object_word", kind, run.object_cuts)
    _check_codes(codes, part, np.diff(word_cuts))
    nulls = codes == 0
    places = spread(codes, word_cuts, part.cuts) - 1
    if kind is KeyKind.STRING:
        return code_words(places, nulls, words)
    values = np.append(to_comparable(words), 0)  # what the place -1 finds
    places[nulls] = -1
    return pa.array(values[places], mask=nulls if nulls.any() else None)


def _check_codes(codes: np.ndarray, part: _Part, most: np.ndarray) -> None:
    if len(codes) and (np.maximum.reduceat(codes, part.cuts[:-1]) > most).any():
        raise ValueError("its entries have values that their group does not have")


def _read_words(
    run: Run, part: _Part, name: str, kind: KeyKind, word_cuts: np.ndarray
) -> tuple[pa.Array, np.ndarray]:
    """Return the words of some groups and their cuts."""
    stretches = [(int(word_cuts[a]), int(word_cuts[b])) for a, b in part.stretches]
    cuts = _count_on(word_cuts, part.groups)
    if kind is KeyKind.STRING:
        found = [run.columns.read_strings(name, a, b) for a, b in stretches]
        words = found[0] if len(found) == 1 else pa.concat_arrays([*found, _NO_STRINGS])
        return words, cuts
    read = run.columns.read(*((name, a, b) for a, b in stretches))
    return pa.array(_joined(read, kind.numpy_type)), cuts


def open_run(path: Path) -> Run:
    """Return the run in a file, its head and fences checked, no entry read.

    Raises `CorruptRunError` if the file is missing, is no run, or is damaged.
    """
    try:
        file = open_columns(path, kind=FILE_KIND, subject=path.name)
        head = RunHead.from_json(file.about)
        fences, cuts, key_cuts, object_cuts = _read_groups(file, head)
    except FileNotFoundError as error:
        raise CorruptRunError(str(path), "the file is missing") from error
    except (OSError, ValueError) as error:
        raise CorruptRunError.of(path, error) from error
    return Run(head, fences, cuts, key_cuts, object_cuts, file, path, file.size_bytes)


def _read_groups(
    file: ColumnFile, head: RunHead
) -> tuple[Fences, np.ndarray, np.ndarray, np.ndarray | None]:
    """Read what a run says of its groups; check lengths of its columns and that fences ascend."""
    n = file.n_rows("count", "u4")
    is_string = head.kind is KeyKind.STRING
    n_keys = [
        file.n_strings(name) if is_string else file.n_rows(name, NUMBERS[head.kind])
        for name in ("low", "high", "key_word")
    ]
    n_of = {name: file.n_rows(name, t) for name, t in head.entry_columns().items()}
    with_objects = head.object_kind is not None
    names = ["count", "key_words", *(["object_words"] if with_objects else [])]
    if any(file.n_rows(name, "u4") != n for name in names) or n_keys[:2] != [n, n]:
        raise ValueError("its columns of groups differ in length")
    if set(n_of.values()) != {head.n_entries}:
        raise ValueError("its columns of entries differ in length")
    count, *words = (column.astype(np.int64) for column in file.read_all(*names))
    cuts, key_cuts, *object_cuts = (
        np.concatenate(([0], np.cumsum(column))) for column in (count, *words)
    )
    if n and not 1 <= int(count.min()) <= int(count.max()) <= GROUP_ENTRIES_MAX:
        raise ValueError("it has groups of no size")
    if int(cuts[-1]) != head.n_entries or int(key_cuts[-1]) != n_keys[2]:
        raise ValueError("its groups differ in number from its entries")
    if (words[0] < 1).any() or any((column > count).any() for column in words):
        raise ValueError("its groups have more values than entries")
    if head.object_kind is not None:
        kind = head.object_kind
        is_text = kind is KeyKind.STRING
        if kind is KeyKind.DOUBLE:
            raise ValueError("its objects are of no type that tells them apart")
        n_objects = file.n_strings("object_word") if is_text else file.n_rows("object_word", "i8")
        if int(object_cuts[0][-1]) != n_objects:
            raise ValueError("its groups differ in number from its objects")
    if is_string:
        low, high = (to_comparable(file.read_strings(name, 0, n)) for name in ("low", "high"))
    else:
        low, high = file.read_all("low", "high")
    # Low ends of long strings are cut down and high ends up, so that neighbours may overlap.
    follows = low[1:] >= low[:-1] if is_string else low[1:] >= high[:-1]
    if not (low <= high).all() or not follows.all() or (high[1:] < high[:-1]).any():
        raise ValueError("its fences do not ascend")
    return Fences(low, high, count), cuts, key_cuts, object_cuts[0] if with_objects else None
