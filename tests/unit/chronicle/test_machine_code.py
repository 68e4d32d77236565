"""Compiled code is kept where it can be, and losing it costs time only."""

from __future__ import annotations

import errno
import functools
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from chronicle import compiled, machine_code
from chronicle.compile_time import clock, compiling_s
from chronicle.compiled import njit
from tests.helpers import only_compiled

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep compiled code in a folder of its own."""
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o700)
    monkeypatch.setattr(machine_code, "code_folder", lambda: kept)
    return kept


def add(a, b):
    return a + b


def twice(a):
    return added(a, a)


added = njit()(add)


@only_compiled("nothing is kept where nothing is compiled")
def test_what_was_compiled_is_loaded_by_the_next(folder):
    assert njit()(add)(1, 2) == 3
    assert len(list(folder.iterdir())) == 1
    again = njit()(add)
    assert again(1, 2) == 3
    assert sum(again.entry.stats.cache_hits.values()) == 1


@only_compiled("nothing is kept where nothing is compiled")
@pytest.mark.parametrize("damage", [b"", b"short", None], ids=["empty", "cut", "flipped"])
def test_damaged_file_is_compiled_anew(folder, damage):
    assert njit()(add)(1, 2) == 3
    (kept,) = folder.iterdir()
    data = kept.read_bytes()
    kept.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if damage is None else damage)
    again = njit()(add)
    assert again(1, 2) == 3
    assert sum(again.entry.stats.cache_misses.values()) == 1


@only_compiled("nothing is kept where nothing is compiled")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_disk_that_fails_behind_the_cache_fails_no_call(folder, monkeypatch, caplog, code):
    def fail(self, data=b""):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "write_bytes", fail)
    monkeypatch.setattr(Path, "read_bytes", fail)
    machine_code._say_not_kept.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert njit()(add)(1, 2) == 3
        assert njit()(add)(1.5, 2.0) == 3.5
    said = [r for r in caplog.records if r.name == "chronicle.machine_code"]
    assert len(said) == 1
    assert os.strerror(code) in said[0].getMessage()


def test_compiled_functions_call_each_other(folder):
    assert njit()(twice)(4) == 8


def middle(numbers, k):
    return numbers[k]


def ends_and_middle(numbers, short):
    return taken(numbers, 0) + taken(numbers, short[0]) + taken(numbers, np.uint8(1))


taken = njit()(middle)


@only_compiled("nothing is compiled twice where nothing is compiled")
def test_helper_is_compiled_once_for_constants_and_integers_of_any_length(folder):
    numbers = np.array([1, 10, 100])
    assert njit()(ends_and_middle)(numbers, np.array([2], np.int32)) == 111
    assert len(taken.inner.overloads) == 1


def refuse(k):
    if k > 1:
        raise ValueError("no number like", k)
    return k


def ask(k):
    return refused(k)


refused = njit()(refuse)


def test_error_of_a_helper_is_raised_with_what_it_tells(folder):
    asked = njit()(ask)
    assert asked(1) == 1
    with pytest.raises(ValueError, match="2"):
        asked(2)


def test_editing_a_helper_changes_the_folder(tmp_path):
    for room in ("chronicle", "costmodel", "indexing", "replay"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    seen = {machine_code.fingerprint(tmp_path)}
    assert seen == {machine_code.fingerprint(tmp_path)}
    for changed in ("indexing/", "replay/patterns/", "costmodel/", "replay/planning/new_"):
        with (tmp_path / f"{changed}kernels.py").open("a") as helper:
            helper.write("\n")
        seen.add(machine_code.fingerprint(tmp_path))
    assert len(seen) == 5


def test_folders_of_older_sources_go_when_unused_for_long(tmp_path):
    for name, days in (("old", 31), ("recent", 29)):
        folder = tmp_path / f"compiled-{name}"
        folder.mkdir()
        then = time.time() - days * 86_400
        os.utime(folder, (then, then))
    machine_code._private(tmp_path / "compiled-new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["compiled-new", "compiled-recent"]


def test_folder_that_others_can_write_to_is_not_used(tmp_path):
    open_to_all = tmp_path / "shared"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(PermissionError, match="somebody else can write"):
        machine_code._private(open_to_all / "compiled-x")


@only_compiled("nothing is kept where nothing is compiled")
@pytest.mark.parametrize("temp_works", [True, False])
def test_without_a_home_a_private_folder_or_none_is_used_and_said_once(tmp_path, temp_works):
    temp = tmp_path / "temp"
    temp.mkdir()
    blocked = tmp_path / "file"
    blocked.touch()
    script = (
        "from chronicle.compiled import compile_at_once; compile_at_once(); "
        "from replay.planning.kernels import find_members as k; import numpy as np; "
        "k(np.arange(2), np.arange(2), 0, 1); print('done')"
    )
    environment = {
        **{k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"},
        "HOME": str(blocked),
        "XDG_CACHE_HOME": str(blocked / "cache"),
        "TMPDIR": str(temp) if temp_works else str(blocked),
    }
    if not temp_works:
        script = f"import tempfile; tempfile.tempdir = {str(blocked)!r}; " + script
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert ended.stdout == "done\n"
    assert ended.stderr.count("compiled code is") == (
        0 if os.environ.get("NUMBA_DISABLE_JIT") else 1
    )
    assert bool(list(temp.iterdir())) == (temp_works and "NUMBA_DISABLE_JIT" not in os.environ)


@pytest.mark.parametrize(("chosen", "remedy"), [("x", "name another folder"), ("", "set NUMBA_")])
def test_without_a_folder_one_sentence_says_what_to_do(
    tmp_path, monkeypatch, caplog, chosen, remedy
):
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setattr(machine_code.config, "CACHE_DIR", chosen and str(blocked / chosen))
    monkeypatch.setattr(machine_code, "user_cache_dir", lambda *_, **__: str(blocked / "cache"))
    monkeypatch.setattr(machine_code.tempfile, "gettempdir", lambda: str(blocked))
    uncached = functools.cache(machine_code.code_folder.__wrapped__)
    monkeypatch.setattr(machine_code, "code_folder", uncached)
    caplog.set_level("INFO", logger=machine_code.LOG.name)

    assert machine_code.code_folder() is None
    machine_code._say_once.__wrapped__()
    (told,) = caplog.messages
    assert remedy in told
    assert "once for each" not in told


@pytest.fixture
def plain(folder, monkeypatch):
    """Let small calls run as plain Python, for a second at most."""
    monkeypatch.setattr(compiled._BUDGET, "left", 1.0)


def count(numbers, until):
    while numbers[0] < until:
        one_more(numbers)
    return numbers[0]


def more(numbers):
    numbers[0] += 1


one_more = njit()(more)


@only_compiled("everything is plain where nothing is compiled")
def test_small_call_is_not_compiled(plain, folder):
    numbers = np.zeros(1, np.int64)
    assert njit(gives_up=True)(count)(numbers, 5) == 5
    assert numbers[0] == 5
    assert not list(folder.iterdir())


@only_compiled("nothing takes long where nothing is compiled")
@pytest.mark.parametrize("is_plain", [False, True])
def test_clock_stands_still_while_compiling_or_running_plain_python_instead(
    folder, monkeypatch, is_plain
):
    monkeypatch.setattr(compiled._BUDGET, "left", 1.0 if is_plain else 0.0)
    compiled_before, began, at = compiling_s(), time.perf_counter(), clock()
    njit(gives_up=True)(count)(np.zeros(1, np.int64), 1000)
    spent = compiling_s() - compiled_before
    assert spent > 0
    assert clock() - at <= time.perf_counter() - began - spent


@only_compiled("everything is plain where nothing is compiled")
def test_call_that_takes_too_long_begins_again_compiled(plain, folder, monkeypatch):
    numbers = np.zeros(1, np.int64)
    counting = njit(gives_up=True)(count)
    assert counting(numbers, 20_000_000) == 20_000_000
    assert len(list(folder.iterdir())) == 1
    assert compiled._BUDGET.left <= 0
    assert compiled._PLAIN.until is None


def write_and_divide(numbers, by):
    numbers[0] += 7
    return numbers[1] + 1.0 / by


@only_compiled("everything is plain where nothing is compiled")
def test_compiled_code_decides_what_an_error_of_plain_python_means(plain):
    divided = njit(error_model="numpy")(write_and_divide)
    numbers = np.array([1.0, 2.0])
    assert divided(numbers, 0.0) == np.inf
    assert numbers.tolist() == [8.0, 2.0]  # written once


def root(a):
    return a**0.5


def ask_root(a):
    return rooted(a)


rooted = njit(is_exact=False)(root)


@only_compiled("everything is plain where nothing is compiled")
def test_what_plain_python_may_round_otherwise_is_compiled_and_all_that_calls_it(plain, folder):
    assert njit()(ask_root)(4.0) == 2.0
    assert len(list(folder.iterdir())) == 1


@only_compiled("everything is plain where nothing is compiled")
def test_large_arrays_are_passed_by_compiled_code(plain, folder):
    assert njit()(middle)(np.zeros(compiled.PLAIN_SIZE + 1), 0) == 0
    assert len(list(folder.iterdir())) == 1


SMALL_QUESTIONS = (
    "SELECT * FROM s WHERE x > 2",
    """SELECT window_start, AVG(x) AS mean
    FROM TUMBLE(TABLE s, DESCRIPTOR(t), 2) GROUP BY window_start""",
    """SELECT a.t AS a, b.t AS b FROM (SELECT * FROM s ORDER BY t) AS a
    JOIN (SELECT * FROM s ORDER BY t) AS b WITHIN 5 ON a.x = b.x""",
    """SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a PATTERN (A Z* B)
    DEFINE B AS x > A.x)""",
    """SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a
    SEMANTICS SKIP TILL NEXT PATTERN (A B) WITHIN 5 DEFINE B AS x > A.x)""",
)


def test_starting_up_and_small_questions_load_no_compiler():
    script = (
        "import replay, sys, pyarrow as pa\n"
        "s = pa.table({'t': [1, 2, 3, 4], 'x': [1.0, 3.0, 2.0, 3.0]})\n"
        f"for query in (None, *{SMALL_QUESTIONS!r}):\n"
        "    assert query is None or len(replay.query({'s': s}, query))\n"
        "    assert not {'numba', 'llvmlite'} & set(sys.modules), query\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
