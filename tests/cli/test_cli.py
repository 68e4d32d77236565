"""The command line: exit codes, what goes to which stream, and no JVM for a query."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle import create_store
from tests.helpers import fill_stream
from tests.strategies import SmallStream

ROOT = Path(__file__).parents[2]

RISE = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS start, B.x AS x, B.s AS s "
    "PATTERN (A Z*? B) WITHIN 5 DEFINE A AS A.a = 7, B AS B.a = 8)"
)


def row(t: int, a: int, x: float | None, s: str) -> dict[str, object]:
    return {"t": t, "a": a, "x": x, "s": s, "f": None, "k": None}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 events of which two make a match at t = 100 and 103."""
    rows = [row(t, t % 5, t / 4, "quiet") for t in range(200)]
    rows[100], rows[103] = row(100, 7, 1.0, "rise"), row(103, 8, float("nan"), 'a "b", ü')
    path = tmp_path_factory.mktemp("cli") / "store"
    small = SmallStream(rows, block_events=8, file_events=64, fan_out=4, cuts=())
    fill_stream(create_store(path), "s", small, index=("a",))
    return path


def run(*arguments: str | Path, java: bool = True) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    if not java:
        environment = {k: v for k, v in environment.items() if k != "JAVA_HOME"}
        environment["PATH"] = "/nowhere"
    command = [sys.executable, "-m", "cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env=environment, check=False, cwd=ROOT)


def test_query_answers_without_java_on_the_path(store: Path) -> None:
    done = run("query", RISE, "--store", store, "--format", "json", java=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"start": 100, "x": None, "s": 'a "b", ü'}]


def test_query_imports_no_heavy_library(store: Path) -> None:
    # PyArrow and Numba by themselves load pandas and SciPy where these are installed.
    code = (
        "import sys, cli\n"
        "try: cli.main()\n"
        "except SystemExit: "
        "print(sorted({'pyspark', 'py4j', 'pandas', 'scipy.linalg'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "query", RISE, "--store", str(store), "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    answer, _, imported = done.stdout.strip().rpartition("\n")
    assert json.loads(answer)[0]["start"] == 100
    assert imported == "[]"


def test_json_of_no_match_is_an_empty_array(store: Path) -> None:
    none = RISE.replace("B.a = 8", "B.a = 99")
    done = run("query", none, "--store", store, "--format", "json")
    assert json.loads(done.stdout) == []


def test_analyze_writes_words_to_stderr_only(store: Path) -> None:
    done = run("query", RISE, "--store", store, "--format", "json", "--analyze")
    assert len(json.loads(done.stdout)) == 1
    assert b"blocks" in done.stderr


def test_analysis_file_has_the_stable_keys(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "analysis.json"
    run("query", RISE, "--store", store, "--plan", "indexes=A.a", "--analysis", file)
    analysis = json.loads(file.read_text())
    assert {"plan", "indexes", "estimated", "actual", "steps"} <= set(analysis)
    assert {"cost", "blocks", "entries", "alpha", "candidates"} <= set(analysis["estimated"])
    actual = analysis["actual"]
    assert {"blocks_read", "blocks_total", "bytes_read", "entries_read", "rows_replayed",
            "rows_total", "intervals", "alpha", "seconds"} <= set(actual)  # fmt: skip
    assert {"plan", "index", "read", "match", "total"} <= set(actual["seconds"])
    assert actual["blocks_read"] < actual["blocks_total"] == 25  # 3 files of 64, one of 8, by 8


@pytest.mark.parametrize(
    "option",
    [("--out", "a.json"), ("--analysis", "a.json"), ("--analyze",), ("--skip-damaged",)],
    ids="".join,
)
def test_explain_takes_no_option_of_an_answer(
    store: Path, tmp_path: Path, option: tuple[str, ...]
) -> None:
    given = (option[0], *(tmp_path / name for name in option[1:]))
    done = run("query", RISE, "--store", store, "--explain", *given, "--format", "json")
    assert done.returncode == 2
    assert done.stdout == b""
    said = " ".join(done.stderr.decode().replace("│", " ").split())
    assert f"{option[0]}: --explain runs nothing, so there is no answer" in said
    assert not list(tmp_path.iterdir())


def test_explain_runs_nothing_and_names_the_plan(store: Path) -> None:
    done = run("query", RISE, "--store", store, "--explain")
    assert done.returncode == 0
    assert b"plan" in done.stdout
    as_json = run("query", RISE, "--store", store, "--explain", "--format", "json")
    assert json.loads(as_json.stdout)["actual"] is None


def test_csv_parquet_and_arrow_hold_the_same_row(store: Path, tmp_path: Path) -> None:
    as_csv = run("query", RISE, "--store", store, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(as_csv.stdout.decode())))
    assert [(r["start"], r["s"]) for r in rows] == [("100", 'a "b", ü')]
    file = tmp_path / "answer.parquet"
    done = run("query", RISE, "--store", store, "--format", "parquet", "--out", file)
    assert done.stdout == b""
    as_arrow = run("query", RISE, "--store", store, "--format", "arrow")
    table = pa.ipc.open_stream(as_arrow.stdout).read_all()
    assert pq.read_table(file).select(["start", "s"]).equals(table.select(["start", "s"]))


def test_parameter_the_query_does_not_have_is_refused(store: Path) -> None:
    text = RISE.replace("= 7", "= :high")
    done = run("query", text, "--store", store, "--param", "high=7", "--param", "hihg=8")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the query has no parameter 'hihg'; did you mean 'high'?" in done.stderr


def test_query_that_begins_with_a_comment_is_no_option(store: Path) -> None:
    text = f"-- the rise\n{RISE}"
    done = run("query", text, "--store", store, "--format", "json")
    assert json.loads(done.stdout) == [{"start": 100, "x": None, "s": 'a "b", ü'}], done.stderr
    misspelt = run("query", RISE, "--stor", store)
    assert misspelt.returncode == 2
    assert b"No such option: --stor" in misspelt.stderr


def test_parameters_fill_in_names(store: Path) -> None:
    sql = RISE.replace("A.a = 7", "A.a = :first")
    done = run("query", sql, "--store", store, "--param", "first=7", "--format", "json")
    assert len(json.loads(done.stdout)) == 1


def test_describe_names_time_range_blocks_and_indexes(store: Path) -> None:
    done = run("describe", "s", "--store", store)
    text = done.stdout.decode()
    assert "0 to 199" in text
    assert "index         a: 200 entries" in text
    as_json = json.loads(run("describe", "s", "--store", store, "--json").stdout)
    assert as_json["n_events"] == 200
    assert as_json["indexes"]["a"]["entries"] == 200


def test_streams_lists_what_is_there(store: Path) -> None:
    assert b"200" in run("streams", "--store", store).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["query", RISE, "--store", "nowhere"], "no Chronicle store", id="no store"),
        pytest.param(["query", RISE.replace(" s ", " z ", 1)], "no stream 'z'", id="no stream"),
        pytest.param(["query", "SELECT * FRM s"], "line 1, column", id="syntax"),
        pytest.param(["query", RISE.replace("A.a", "A.aa")], "did you mean 'a'", id="column"),
        pytest.param(["query", RISE.replace("= 7", "= 'x'")], "STRING", id="types"),
        pytest.param(["query", RISE, "--plan", "quick"], "quick", id="plan"),
        pytest.param(["query", RISE, "--plan", "indexes=A.x"], "A.x", id="index"),
        pytest.param(["describe", "z"], "no stream 'z'", id="describe"),
        pytest.param(
            ["query", RISE, "--as-of", "-1"], "neither a version nor a time", id="version below 0"
        ),
        pytest.param(["query", RISE, "--as-of", "9"], "version 9", id="version to come"),
        pytest.param(
            ["ingest", __file__, "--stream", "..", "--time", "t", "--format", "csv"],
            "stream name '..' cannot be used",
            id="stream name",
        ),
        pytest.param(
            ["ingest", "x.csv", "--stream", "s", "--time", "t", "--store", f"{__file__}/store"],
            "cannot be written (Not a directory)",
            id="store below a file",
        ),
    ],
)
def test_stated_failures_are_one_sentence_and_exit_1(
    store: Path, arguments: list[str], said: str
) -> None:
    given = arguments if "--store" in arguments else [*arguments, "--store", str(store)]
    done = run(*given)
    error = done.stderr.decode()
    assert done.returncode == 1, error
    assert done.stdout == b""
    assert error.startswith("error: ")
    assert said in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="nothing"),
        pytest.param(["query", "--store", "x"], id="no query"),
        pytest.param(["query", RISE, "--store", "x", "--format", "xml"], id="format"),
        pytest.param(["query", RISE, "--store", "x", "--param", "first"], id="param"),
        pytest.param(["query", "-f", "missing.sql", "--store", "x"], id="file"),
        pytest.param(["query", "-f", sys.executable, "--store", "x"], id="file of no text"),
        pytest.param(["query", RISE, "--store", "x", "--analysis", "no/a.json"], id="no folder"),
        pytest.param(
            ["query", RISE, "--store", "x", "--format", "csv", "--out", "/"], id="out is a folder"
        ),
        pytest.param(["fly"], id="command"),
    ],
)
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_query_file_may_begin_with_a_byte_order_mark(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "rise.sql"
    file.write_text(RISE, encoding="utf-8-sig")
    done = run("query", "--file", file, "--store", store, "--format", "json")
    assert len(json.loads(done.stdout)) == 1


def test_table_shows_brackets_and_colons_as_they_are(store: Path) -> None:
    sql = RISE.replace("B.s AS s", "'[b]:car:[/b]' AS s")
    assert "[b]:car:[/b]" in run("query", sql, "--store", store).stdout.decode()


def test_interrupt_ends_a_query_at_once(store: Path) -> None:
    # Compiled matching may run for minutes, and a handler of Python's would wait for its end.
    code = (
        "import os, signal, sys, cli, replay; "
        # A process started in the background inherits that Ctrl-C is ignored; this one hears it.
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        "answered = sys.modules['replay.query']; "
        "answered.answer_in_pieces = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT); "
        "cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "query", RISE, "--store", str(store)],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == -signal.SIGINT
    assert done.stderr == b""


@pytest.mark.parametrize("module", ["typer", "pydantic", "statistics"])
def test_ctrl_c_while_modules_are_imported_is_one_line(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    words = [sys.executable, "cli.py", "streams", "--store", "nowhere"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"interrupted\n")
