"""Documents are executed: examples run, commands exist, links lead somewhere, help is current."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import replay
from chronicle import Store, StreamSettings, create_store, open_store
from chronicle.schema import normalise_schema
from datasets import crimes, synthetic
from datasets.tour import INDEXES, ROBBERY_TO_CAR_THEFT
from indexing import RunWriter
from replay.language import bind_query, parse_query
from replay.language.bound import BoundPatternQuery
from replay.language.syntax import streams_of
from scripts.write_cli_reference import REFERENCE, commands, reference
from tests.helpers import commit_table
from tests.oracles.matcher import match_rows

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "datasets").rglob("*.md")),
]
EXECUTED = ("python", "sql", "sh", "csv")
STREAMS = {
    "crimes": (normalise_schema(pq.read_schema(crimes.DATA_FILE)), crimes.TIME),
    "synthetic": (synthetic.SCHEMA, synthetic.TIME),
}
"""Streams that examples may ask, with their schema and time column."""

SQL = ROOT / "docs" / "sql.md"
TICKS = "ticks"
"""The stream of the examples in `SQL`: the page's first block."""

COMMANDS = {" ".join(words): command for words, command in commands()}


@dataclass(frozen=True)
class Fence:
    """A block of code in a document."""

    page: Path
    line: int
    language: str
    code: str
    reason: str | None
    """Why it is not executed: ``<!-- not run: … -->`` right above it."""
    prints: str | None
    """The ``text`` fence right below."""


def fences(page: Path) -> Iterator[Fence]:
    """Yield the fenced blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    pattern = re.compile(
        r"(?:<!-- not run: (?P<reason>[^\n]+?) -->\n+)?"
        r"^```(?P<language>\w*)\n(?P<code>.*?)^```$"
        r"(?:\n+```text\n(?P<prints>.*?)^```$)?",
        re.MULTILINE | re.DOTALL,
    )
    for found in pattern.finditer(text):
        line = text.count("\n", 0, found.start("code"))
        yield Fence(page, line, found["language"], found["code"], found["reason"], found["prints"])


FENCES = [fence for page in PAGES for fence in fences(page)]


def of(language: str) -> list[object]:
    """Return the fences of a language that are to be executed, as test parameters."""
    return [
        pytest.param(fence, id=f"{fence.page.name}-{fence.line}")
        for fence in FENCES
        if fence.language == language and fence.reason is None
    ]


@pytest.mark.parametrize("fence", of("python"))
def test_python_example_runs_and_prints_what_it_says(fence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(fence.code, f"{fence.page.name}:{fence.line}", "exec"), {})
    assert printed.getvalue().strip() == (fence.prints or "").strip()


def ticks() -> pa.Table:
    """Return the stream that the examples of the SQL reference ask."""
    [text] = [f.code for f in FENCES if f.page == SQL and f.language == "csv"]
    return pyarrow.csv.read_csv(io.BytesIO(text.encode()))


def is_ordinary(fence: Fence) -> bool:
    """Tell whether an example is of the chapter on what DuckDB runs."""
    before = fence.page.read_text(encoding="utf-8").splitlines()[: fence.line]
    chapters = [line for line in before if line.startswith("## ")]
    return fence.page == SQL and chapters[-1:] == ["## Ordinary SQL"]


@pytest.mark.parametrize("fence", [f for f in of("sql") if not is_ordinary(f.values[0])])
def test_sql_example_fits_the_stream_it_asks(fence):
    parsed = parse_query(fence.code)
    known = {**STREAMS, TICKS: (ticks().schema, "t")}
    bind_query(parsed, known.__getitem__, text=fence.code, params={})
    assert set(streams_of(parsed)) <= set(known)


def shown(rows: list[dict[str, object]], names: list[str]) -> list[str]:
    """Return an answer as the SQL reference shows it."""
    cells = [["NULL" if row[name] is None else str(row[name]) for name in names] for row in rows]
    return [" | ".join(line) for line in [names, *cells]]


@pytest.fixture(scope="module")
def ticks_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Lend a store with the stream that the examples of the SQL reference ask."""
    store = create_store(tmp_path_factory.mktemp("docs") / "ticks-store")
    settings = StreamSettings("t")
    stream = store.create_stream(TICKS, ticks().schema, settings)
    commit_table(stream, ticks())
    return store


@pytest.mark.parametrize("fence", [f for f in of("sql") if f.values[0].page == SQL])
def test_example_of_the_sql_reference_has_the_answer_it_shows(fence, ticks_store):
    try:
        answer = replay.query(ticks_store, fence.code).table
        found = shown(answer.to_pylist(), answer.column_names)
    except replay.QueryError as error:
        found = [f"error: {str(error).splitlines()[0]}"]
    else:
        if not is_ordinary(fence):
            check_with_oracle(fence.code, found)
    assert fence.prints is not None
    assert found == fence.prints.splitlines()


def check_with_oracle(sql: str, found: list[str]) -> None:
    """Assert that a row pattern over a stream has the answer of the naive matcher."""
    table = ticks()
    bound = bind_query(parse_query(sql), lambda _: (table.schema, "t"), text=sql)
    if isinstance(bound, BoundPatternQuery) and bound.source is None:
        names = [name for name, _ in (bound.outer.items if bound.outer else ())]
        names = names or [name for _, name in bound.output]
        assert shown(match_rows(table.to_pylist(), bound), names) == found


README = ROOT / "README.md"


@pytest.mark.parametrize("fence", [f for f in of("sh") if f.values[0].page != README])
def test_commands_of_an_example_exist(fence):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in fence.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            for target in (word for word in words[1:] if "=" not in word):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), line
        if words[:1] and Path(words[0]).name == "chronicle":
            check_command(words[1:], line)


@pytest.fixture(scope="module")
def demo_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lend what `make demo` leaves, made without Spark."""
    path = tmp_path_factory.mktemp("docs") / "demo-store"
    settings = StreamSettings(crimes.TIME)
    schema = STREAMS["crimes"][0]
    stream = create_store(path).create_stream("crimes", schema, settings)
    events = crimes.to_usable(crimes.load()).cast(schema)
    commit_table(stream, events, derived=RunWriter(attributes=INDEXES, time=crimes.TIME))
    return path


def test_readme_runs_from_top_to_bottom_as_it_is_pasted(demo_store, tmp_path):
    """The set-up is left out: the store of ``make demo`` is there, and so is the command."""
    (tmp_path / "demo-store").symlink_to(demo_store)
    activate = tmp_path / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n")
    blocks = [fence.values[0] for fence in of("sh") if fence.values[0].page == README]
    assert [line for line in blocks[0].code.splitlines() if not line.startswith("make ")] == []
    mark = "----- end of block"
    script = "".join(f"{fence.code}\necho '{mark}'\n" for fence in blocks[1:])
    done = subprocess.run(
        ["bash", "-eu", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = [text.strip("\n") for text in done.stdout.split(mark)]
    for fence, text in zip(blocks[1:], printed, strict=False):
        if fence.prints is not None:
            assert text.splitlines() == fence.prints.splitlines(), fence.line


def keys(stats: object) -> Iterator[str]:
    """Yield the keys of nested JSON as `docs/planning.md` writes them: ``a.b``, ``a[].b``."""
    for key, value in stats.items():
        inner, mark = (value[0], "[]") if isinstance(value, list) and value else (value, "")
        if isinstance(inner, dict):
            yield from (f"{key}{mark}.{below}" for below in keys(inner))
        else:
            yield key


def test_keys_of_an_analysis_are_those_of_the_documents(demo_store):
    store = open_store(demo_store)
    stats = replay.query(store, ROBBERY_TO_CAR_THEFT).stats
    stats["steps"].sort(key=lambda step: step["left"] is None)
    of_matches = (
        "SELECT COUNT(*) FROM crimes MATCH_RECOGNIZE (PATTERN (A B) SEMANTICS CONTIGUOUS "
        "DEFINE B AS district = A.district)"
    )
    stats["aggregation"] = replay.explain(store, of_matches).to_dict()["aggregation"]
    of_situations = (
        "FROM crimes DEFINE A AS neighborhood = 1, B AS neighborhood = 2 PATTERN A before B "
        "WITHIN 1 HOUR"
    )
    (explained,) = replay.explain(store, of_situations).to_dict()["inputs"]
    stats |= {key: explained[key] for key in ("situations", "order")}
    found = set(keys(stats))
    planning = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z].*?) \|", planning, flags=re.MULTILINE)
    documented = {key for row in rows for key in re.findall(r"`([a-z_.\[\]]+)`", row)}
    assert documented == found | {"actual"}


def check_command(words: list[str], line: str) -> None:
    """Assert that the command and each long option of it exist."""
    name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
    assert name is not None, line
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert [w for w in words if w.startswith("--") and w.split("=")[0] not in options] == [], line


def test_every_block_of_code_is_executed_or_carries_a_reason():
    unknown = [
        f"{fence.page.name}:{fence.line}"
        for fence in FENCES
        if fence.language not in (*EXECUTED, "text") and fence.reason is None
    ]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", list(COMMANDS))
def test_command_has_help_with_an_example_and_is_documented(name):
    command = COMMANDS[name]
    assert command.help
    assert f"chronicle {name}" in command.help.partition("Example")[2]
    assert f"## chronicle {name}\n" in REFERENCE.read_text(encoding="utf-8")
    assert [p.name for p in command.params if not getattr(p, "help", None)] == []


def test_reference_of_the_command_line_is_current():
    assert REFERENCE.read_text(encoding="utf-8") == reference(), "run `make docs`"
