"""Compiled code is kept where it can be, and losing it costs time only."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chronicle import machine_code
from chronicle.compiled import clock, compiling_s, njit
from tests.compiled import only_compiled

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


@pytest.mark.parametrize("changed", ["indexing", "replay/operators/machine", "costmodel"])
def test_editing_a_helper_changes_the_folder(tmp_path, changed):
    for room in ("chronicle", "costmodel", "indexing", "replay"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    before = machine_code.fingerprint(tmp_path)
    assert machine_code.fingerprint(tmp_path) == before
    helper = tmp_path / changed / "kernels.py"
    helper.write_text(helper.read_text() + "\n")
    assert machine_code.fingerprint(tmp_path) != before


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
        "from replay.planning.kernels import add_parts as k; import numpy as np; "
        "k(np.ones(2), np.ones(2), np.ones(2), 0.5); print('done')"
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


@only_compiled("nothing takes long where nothing is compiled")
def test_clock_stands_still_while_compiling(folder):
    began, compiled = time.perf_counter(), compiling_s()
    at = clock()
    njit()(add)(1, 2)
    spent = compiling_s() - compiled
    assert spent > 0
    assert clock() - at <= time.perf_counter() - began - spent


def test_starting_up_imports_no_compiler():
    script = "import replay, sys; print('numba' in sys.modules, 'llvmlite' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert ended.stdout == "False False\n"
