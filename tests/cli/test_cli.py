"""The command line: exit codes, what goes to which stream, and no JVM for a query."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import HEADER, Commands, assert_refused, times, write

ROOT = Path(__file__).parents[2]

RISE = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS start, B.x AS x, B.s AS s "
    "PATTERN (A Z*? B) WITHIN 1 DEFINE A AS A.a = 3 AND A.t > 35, B AS B.a = 4)"
)
RISEN = [{"start": 38, "x": 9.75, "s": "quiet"}]


def python(code: str, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own that was given these words."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def test_queries_and_appends_need_no_java_and_import_no_heavy_library(
    command: Commands, tmp_path: Path
) -> None:
    # PyArrow and Numba by themselves load pandas and SciPy where these are installed.
    code = (
        "import sys, cli\n"
        "try: cli.main()\n"
        "except SystemExit: "
        "heavy = {'pyspark', 'py4j', 'pandas', 'scipy.linalg', 'rich', 'vl_convert'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    no_java = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    asked = python(code, "query", RISE, "--store", command.store, "--format", "json", **no_java)
    answer, _, imported = asked.stdout.strip().rpartition("\n")
    assert (json.loads(answer), imported) == (RISEN, "[]"), asked.stderr
    more = write(tmp_path / "a.csv", HEADER + "41,1,,,,\n")
    added = python(code, "append", more, "--stream", "s", "--store", command.store, **no_java)
    assert added.stdout == "[]\n", added.stderr
    assert times(command) == [*range(40), 41]


ROOMS_OF_OTHERS = (
    "chronicle.ingest", "chronicle.write", "costmodel.situations", "costmodel.windows", "duckdb",
    "replay.joins", "replay.language.join_binder", "replay.language.situation_binder",
    "replay.language.window_binder", "replay.report", "replay.situations", "replay.sql",
    "replay.windows",
)  # fmt: skip


def test_row_pattern_imports_no_room_of_other_queries(command: Commands) -> None:
    code = (
        "import sys, cli\n"
        "try: cli.main()\n"
        f"except SystemExit: print(sorted({set(ROOMS_OF_OTHERS)!r} & set(sys.modules)))"
    )
    asked = python(code, "query", RISE, "--store", command.store, "--format", "json")
    answer, _, imported = asked.stdout.strip().rpartition("\n")
    assert (json.loads(answer), imported) == (RISEN, "[]"), asked.stderr
    assert all(importlib.util.find_spec(name) for name in ROOMS_OF_OTHERS)


def test_analysis_file_has_the_stable_keys(command: Commands, tmp_path: Path) -> None:
    file = tmp_path / "analysis.json"
    command.succeeds("query", RISE, "--plan", "indexes=A.a", "--analysis", file)
    analysis = json.loads(file.read_text())
    assert {"plan", "indexes", "estimated", "actual", "steps"} <= set(analysis)
    assert {"cost", "blocks", "entries", "alpha", "candidates"} <= set(analysis["estimated"])
    actual = analysis["actual"]
    assert {"blocks_read", "blocks_total", "bytes_read", "entries_read", "rows_replayed",
            "rows_total", "intervals", "alpha", "seconds"} <= set(actual)  # fmt: skip
    assert {"plan", "index", "read", "match", "total"} <= set(actual["seconds"])
    assert actual["blocks_read"] < actual["blocks_total"] == 12  # four files of three blocks


@pytest.mark.parametrize(
    "option",
    [("--out", "a.json"), ("--analysis", "a.json"), ("--analyze",), ("--skip-damaged",)],
    ids="".join,
)
def test_explain_takes_no_option_of_an_answer(
    command: Commands, tmp_path: Path, option: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = command("query", RISE, "--explain", *option, "--format", "json")
    assert (done.code, done.out) == (2, "")
    assert f"{option[0]}: --explain runs nothing, so there is no answer" in done.words
    assert not list(Path().iterdir())


def test_explain_runs_nothing_and_names_the_plan(command: Commands) -> None:
    assert "plan" in command.succeeds("query", RISE, "--explain").out
    assert command.rows(RISE, "--explain")["actual"] is None


def test_parameter_the_query_does_not_have_is_refused(command: Commands) -> None:
    text = RISE.replace("= 3", "= :low")
    assert command.rows(text, "--param", "low=3") == RISEN
    done = command("query", text, "--param", "low=3", "--param", "lwo=8")
    assert (done.code, done.out) == (2, "")
    assert "the query has no parameter 'lwo'; did you mean 'low'?" in done.words


def test_query_that_begins_with_a_comment_is_no_option(command: Commands) -> None:
    assert command.rows(f"-- the rise\n{RISE}") == RISEN
    misspelt = command("query", RISE, "--stor", "x", store=False)
    assert misspelt.code == 2
    assert "No such option: --stor" in misspelt.words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["query", RISE.replace(" s ", " z ", 1)], "no stream 'z'", id="no stream"),
        pytest.param(["query", "SELECT t FROM (SELECT t FROM z)"], "no stream 'z'", id="within"),
        pytest.param(["query", "SELECT * FRM s"], "line 1, column", id="syntax"),
        pytest.param(["query", RISE.replace("A.a", "A.aa")], "did you mean 'a'", id="column"),
        pytest.param(["query", RISE.replace("= 3", "= 'x'")], "STRING", id="types"),
        pytest.param(["query", RISE, "--plan", "quick"], "quick", id="plan"),
        pytest.param(["query", RISE, "--plan", "indexes=A.x"], "A.x", id="index"),
        pytest.param(["query", RISE, "--as-of", "-1"], "neither a version nor a time",
                     id="version below 0"),
        pytest.param(["query", RISE, "--as-of", "9"], "version 9", id="version to come"),
        pytest.param(["describe", "z"], "no stream 'z'", id="describe"),
        pytest.param(["replay", "z"], "no stream 'z'", id="replay"),
        pytest.param(["check", "z"], "no stream 'z'", id="check"),
        pytest.param(["stats", "s", "--attribute", "y"], "'y'", id="stats of no column"),
        pytest.param(
            ["ingest", __file__, "--stream", "..", "--time", "t", "--format", "csv"],
            "stream name '..' cannot be used", id="stream name",
        ),
    ],
)  # fmt: skip
def test_stated_failures_say_what_and_exit_1(
    command: Commands, arguments: list[str], said: str
) -> None:
    done = command(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("nowhere", "no Chronicle store"),
        (f"{__file__}/store", "cannot be written (Not a directory)"),
    ],
)
def test_a_store_that_cannot_be_is_refused_in_one_sentence(
    command: Commands, store: str, said: str
) -> None:
    words = ("ingest", __file__, "--stream", "s", "--time", "t", "--format", "csv")
    words = ("query", RISE) if store == "nowhere" else words
    assert_refused(command(*words, "--store", store, store=False), said)


WRONG_USAGE = (
    "",
    "fly",
    "query",
    "query 'SELECT t FROM s' --format xml",
    "query 'SELECT t FROM s' --format csv -x",
    "query 'SELECT t FROM s' --param first",
    "query 'SELECT t FROM s' --analysis no/a.json",
    "query 'SELECT t FROM s' --format csv --out /",
    "query 'SELECT t FROM s' --timeout soon",
    "query 'SELECT t FROM s' --timeout 0",
    "query 'SELECT t FROM s' --memory '2 XB'",
    "query -f missing.sql",
    f"query -f {sys.executable}",  # holds no text
    "append a.csv --stream s --late maybe",
    "ingest a.csv --stream s --time t --once",
    "ingest a.csv --stream s --time t --lateness '1 hour'",
    "ingest a.csv --stream s --time t --idle-seconds 1",
    "ingest a b --stream s --time t --follow",
    "ingest a --stream s --time t --follow --lateness soon",
    "quarantine s --put-back x.csv --format csv",
    "calibrate s --seconds 0",
    "delete s --yes",
    "stats s --from 20 --to 10",
    "replay s --speed fast",
    "replay s --loop often",
    "replay s --to-kafka t --format csv",
    "replay s --kafka a=b",
    "replay s --to-kafka t --kafka nothing",
    "replay s --query 'SELECT t FROM s' --columns t",
    "replay s --query 'SELECT t FROM s' --loop 2",
    "replay s --threads 2",
    "replay s --query 'FROM s DEFINE A AS a = 1' --threads many",
    "replay s --query 'FROM s DEFINE A AS a = 1' --threads 0",
    "replay s --param a=1",
)


@pytest.mark.parametrize("words", WRONG_USAGE)
def test_wrong_usage_exits_2(command: Commands, words: str) -> None:
    given = shlex.split(words)
    done = command(*given, store=len(given) > 1 or given == ["query"])
    assert done.code == 2
    assert "Traceback" not in done.err


def test_query_file_may_begin_with_a_byte_order_mark(command: Commands, tmp_path: Path) -> None:
    file = tmp_path / "rise.sql"
    file.write_text(RISE, encoding="utf-8-sig")
    done = command.succeeds("query", "--file", file, "--format", "json")
    assert json.loads(done.out) == RISEN


def test_table_shows_brackets_and_colons_as_they_are(command: Commands) -> None:
    sql = RISE.replace("B.s AS s", "'[b]:car:[/b]' AS s")
    assert "[b]:car:[/b]" in command.succeeds("query", sql).out


def test_a_terminal_that_lacks_signs_gets_plain_ones(command: Commands) -> None:
    sql = "SELECT t, 'ü→\"' AS ä FROM s LIMIT 1"
    code, words = "import cli; cli.main()", ("query", sql, "--store", str(command.store))
    in_latin = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    shown = 't  ä\n-  ---\n0  ü\\u2192"\n1 row\n'
    assert (in_latin.stdout.decode("latin-1"), in_latin.returncode) == (shown, 0)


@pytest.mark.parametrize(
    ("closed", "said"),
    [
        ((1,), "error: standard output is closed, so what was asked for cannot be written\n"),
        ((0, 1, 2), ""),
    ],
)
def test_an_answer_that_has_nowhere_to_go_is_an_error(
    command: Commands, closed: tuple[int, ...], said: str
) -> None:
    code = f"import os; [os.close(fd) for fd in {closed}]; "
    code += "os.execv(sys.executable, [sys.executable, 'cli.py', *sys.argv[1:]])"
    done = python(f"import sys; {code}", "query", RISE, "--store", command.store)
    assert (done.stdout, done.stderr, done.returncode) == ("", said, 1)


def test_interrupt_ends_a_query_at_once_and_says_so(command: Commands) -> None:
    # Compiled matching may run for minutes, and a handler of Python's would wait for its end: it
    # stands in the main thread, as one compiled call does here.
    code = (
        "import ctypes, importlib, os, signal, cli; "
        # A process started in the background inherits that Ctrl-C is ignored; this one hears it.
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        "answered = importlib.import_module('replay.query'); "
        "sleep = ctypes.CDLL(None).poll; "
        "answered.answers_in_pieces = lambda *_, **__: ("
        "    os.kill(os.getpid(), signal.SIGINT), sleep(None, 0, 60_000)); "
        "cli.main()"
    )
    done = python(code, "query", RISE, "--store", command.store)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("module", ["typer", "pydantic", "statistics"])
def test_ctrl_c_while_modules_are_imported_is_one_line(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    words = [sys.executable, "cli.py", "streams", "--store", "nowhere"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"interrupted\n")
