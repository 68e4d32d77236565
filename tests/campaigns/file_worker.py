"""Reads streams whose run and tree files are damaged or crafted, one after the other.

Run as ``python -m tests.campaigns.file_worker STORE KIND FIRST LAST``; prints the number of a case
before it, so that whoever watches knows at which one it died, and at last a summary as JSON.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import indexing
import replay
from chronicle import Snapshot, open_store
from chronicle.errors import ChronicleError
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.finding import Severity
from chronicle.store import Store
from chronicle.tree.column_file import VERSION, open_columns
from indexing import KeyRange, KeyRanges, check_runs, open_indexes
from indexing.row_mask import RowMask
from replay.query import clear_caches

MEMORY_MAX = 4 << 30
"""Bytes of addresses beyond what is taken at the start: who believes a count of 10**12 dies."""

TREE = "tree"

WIDE_EACH = 10
"""Of so many cases one runs queries."""

MATCHES = """
SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, B.t AS b PATTERN (A Z*? B) WITHIN 40
DEFINE A AS A.n = 3, B AS B.x > 2.5 AND B.word = 'w2')
"""

WINDOWS = """
SELECT window_start, SUM(n) AS a, VAR_POP(n) AS b, MAX(word) AS c, COUNT(*) AS d
FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), 50, 200)) GROUP BY window_start, window_end
"""

RANGES = {
    "n": [KeyRanges.of([KeyRange(3, 3)]), KeyRanges.of([KeyRange(2, 4), KeyRange(7, 7)])],
    "x": [KeyRanges.of([KeyRange(1.25, 9.5)]), KeyRanges.everything()],
    "word": [KeyRanges.of([KeyRange("w1", "w3")]), KeyRanges.everything()],
}

Content = tuple[dict[str, Any], dict[str, np.ndarray]]


def ask(store: Store, about: str, *, widely: bool) -> list[str]:
    """Return answers that tree files (``about`` them) or the runs of an attribute have a part in.

    ``widely``: whether queries are run too.
    """
    snapshot = store.stream("s").snapshot()
    told: list[Any] = [snapshot.n_events, snapshot.leaves.count.tolist()]
    told += _ask_tree(snapshot) if about == TREE else _ask_index(snapshot, about)
    if widely:
        queries = (MATCHES, WINDOWS) if about == TREE else (MATCHES,)
        told += [replay.query(store, sql).table.to_pylist() for sql in queries]
    return [repr(answer) for answer in told]  # NaN is like itself


def _ask_tree(snapshot: Snapshot) -> list[Any]:
    told: list[Any] = []
    for column in ("n", "x", "word", "flag"):
        level = snapshot.level(0, column)
        assert level.attribute is not None
        told.append([np.asarray(part).tolist() for part in level.attribute.columns()])
        told.append(snapshot.aggregate(13, 411, column))
        snapshot.bounds(column)  # tells less where a tree file cannot be used
    return told


def _ask_index(snapshot: Snapshot, attribute: str) -> list[Any]:
    rows = RowMask.of(snapshot.n_events, spans=(np.array([3, 90]), np.array([40, 300])))
    index = open_indexes(snapshot).index(attribute)
    told: list[Any] = []
    for some in RANGES[attribute]:
        found = index.lookup(some, with_objects=True)
        assert found.objects is not None
        told.append([found.seq.tolist(), found.t.tolist(), found.objects.to_pylist()])
        least, most = index.estimate_count(some)
        assert least <= most
        indexing.clear_answers()
        kept = index.lookup_within(some, rows, with_objects=True)
        told.append(kept.seq.tolist() == found.seq[rows.contains(found.seq)].tolist())
    return told


def damage(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return a file some of whose bytes are others."""
    data = bytearray(content)
    how = rng.choice(("flip", "flips", "cut", "swap", "zeros", "grown"))
    a, b = sorted(rng.sample(range(len(data)), 2))
    if how in ("flip", "flips"):
        for _ in range(1 if how == "flip" else 20):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del data[a:]
    elif how == "swap":
        data[a], data[b] = data[b], data[a]
    elif how == "zeros":
        data[a:b] = bytes(b - a)
    else:
        data[a:a] = rng.randbytes(rng.randint(1, 40))
    return how, bytes(data)


def unpack(path: Path, kind: str) -> Content:
    """Return head and columns of a column file."""
    file = open_columns(path, kind=kind)
    head = {"version": VERSION, "kind": kind, "subject": path.name, "about": file.about}
    return head, {name: file.read_all(name)[0].copy() for name in file.columns}


def pack(head: dict[str, Any], columns: dict[str, np.ndarray]) -> bytes:
    """Return the column file of these, written by nothing that checks them."""
    body, listed, crc = b"", [], []
    for name, values in columns.items():
        data = values.tobytes()
        listed.append([name, values.dtype.str[1:], len(values)])
        crc += [zlib.crc32(data[a : a + 16384]) for a in range(0, len(data), 16384)]
        body += data + bytes(-len(data) % 8)
    text = {"columns": listed, **head}
    packed = json.dumps(text).encode() + b"\n" + np.array(crc, "<u4").tobytes()
    tail = np.array([len(packed), zlib.crc32(packed)], "<u4").tobytes() + b"CHRONCOL"
    return body + packed + tail


def _numbers(rng: random.Random) -> Any:
    huge = [0, -1, 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 2**64 - 1, 10**12, 10**40]
    return rng.choice([*huge, 1.5, None, "1", [], {}, True, float("nan"), rng.randint(-9, 999)])


def _change_value(head: dict[str, Any], columns: dict[str, np.ndarray], rng: random.Random) -> None:
    """Set numbers of a column to 0, -1, the greatest, others or off by one."""
    values = columns[rng.choice(list(columns))]
    if not len(values):
        return
    at = rng.randrange(len(values))
    span = slice(at, rng.choice([at + 1, at + 1, len(values)]))
    with np.errstate(all="ignore"):
        if values.dtype.kind == "f":
            values[span] = rng.choice([0.0, -1.0, np.inf, -np.inf, np.nan, 1e308, values[at] + 1])
        else:
            least, most = np.iinfo(values.dtype).min, np.iinfo(values.dtype).max
            off = values[at] + values.dtype.type(1), values[at] - values.dtype.type(1)
            values[span] = rng.choice([0, 1, least, most, most // 2, *off, values[-1], values[0]])


def _change_order(head: dict[str, Any], columns: dict[str, np.ndarray], rng: random.Random) -> None:
    """Shuffle, turn round or repeat the values of a column."""
    name = rng.choice(list(columns))
    values = columns[name]
    changes: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda v: v[::-1].copy(),
        lambda v: np.array(rng.sample(v.tolist(), len(v)), v.dtype),
        lambda v: np.full_like(v, v[len(v) // 2]) if len(v) else v,
        np.sort,
    ]
    columns[name] = rng.choice(changes)(values)


def _change_shape(head: dict[str, Any], columns: dict[str, np.ndarray], rng: random.Random) -> None:
    """Give a column another length or type, take it away, or add it twice."""
    name = rng.choice(list(columns))
    values = columns[name]
    how = rng.choice(("short", "long", "empty", "gone", "type", "other"))
    if how == "gone":
        del columns[name]
    elif how == "type":
        with np.errstate(all="ignore"):
            columns[name] = values.astype(rng.choice(["u1", "u2", "u4", "u8", "i8", "f8"]))
    elif how == "other":
        columns[name] = columns[rng.choice(list(columns))].copy()
    else:
        lengths = {"short": values[:-1], "empty": values[:0]}
        columns[name] = lengths.get(how, np.concatenate((values, values[-3:])))


def _change_head(head: dict[str, Any], columns: dict[str, np.ndarray], rng: random.Random) -> None:
    """Lie in the head: any number of it, any name, any part gone."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    listed = [[name, v.dtype.str[1:], len(v)] for name, v in columns.items()]
    head["columns"] = listed
    walk(head)
    node, key = rng.choice(places)
    if isinstance(node, dict) and rng.random() < 0.1:
        del node[key]
    elif type(node[key]) is int and rng.random() < 0.5:
        node[key] += rng.choice([1, -1, 2**32])
    else:
        node[key] = _numbers(rng)


def _change_both(head: dict[str, Any], columns: dict[str, np.ndarray], rng: random.Random) -> None:
    """Lie about a count in the head and in the columns alike."""
    for change in rng.sample((_change_value, _change_order, _change_shape), 2):
        if columns:
            change(head, columns, rng)


CHANGES = (_change_value, _change_value, _change_order, _change_shape, _change_head, _change_both)


def craft(path: Path, rng: random.Random) -> tuple[str, bytes]:
    """Return a file with right checksums and other insides."""
    head, columns = unpack(path, "tree" if path.parent.name == "tree" else "run")
    change = rng.choice(CHANGES)
    change(head, columns, rng)
    return change.__name__.removeprefix("_"), pack(head, columns)


def run(store: Path, kind: str, first: int, last: int) -> dict[str, int]:
    """Try cases; an answer is right, an error stated, or what is false found by a deep check."""
    files = [p for t in (TREE, "index") for p in sorted((store / "s" / t).rglob("*.parquet"))]
    originals = {path: path.read_bytes() for path in files}
    opened = open_store(store)
    about = dict.fromkeys(path.parent.name for path in files)
    expected = {(a, w): ask(opened, a, widely=w) for a in about for w in (False, True)}
    taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = taken * resource.getpagesize() + MEMORY_MAX
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    outcomes: Counter[str] = Counter()
    for case in range(first, last):
        print(case, flush=True)
        rng = random.Random(case)
        path = rng.choice(files)
        how, content = damage(originals[path], rng) if kind == "damage" else craft(path, rng)
        widely = case % WIDE_EACH == 0
        path.write_bytes(content)
        indexing.clear_caches()
        clear_caches()
        # Tree files are read once for each opened stream, runs as often as caches are cleared.
        asked = open_store(store) if path.parent.name == TREE or widely else opened
        try:
            answers = ask(asked, path.parent.name, widely=widely)
            outcome = "right" if answers == expected[path.parent.name, widely] else "false"
            if outcome == "false":
                found = check_stream(store / "s", deep=True, derived_checks=[check_runs])
                named = [f for f in found if f.severity is not Severity.OK and path.name in f.file]
                assert named, f"{how} of {path} gives another answer, and no check tells"
                assert kind != "damage", f"{how} of {path} gives another answer"
        except ChronicleError:
            outcome = "error"
        finally:
            path.write_bytes(originals[path])
        outcomes[f"{path.parent.name} {how}: {outcome}"] += 1
    return dict(sorted(outcomes.items()))


if __name__ == "__main__":
    place, of, start, stop = sys.argv[1:]
    print(json.dumps(run(Path(place), of, int(start), int(stop))))
