"""What is promised: each package's ``__all__`` is real, and the list in docs/api.md."""

import importlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import chronicle
import replay
from chronicle.errors import ChronicleError

PACKAGES = ("chronicle", "chronicle.ingest", "costmodel", "datasets", "indexing", "replay")
API = Path(__file__).resolve().parent.parent / "docs" / "api.md"


def documented(package: str) -> list[str]:
    """Return the names docs/api.md lists under the package's heading, in its order."""
    heading = f"## {package}\n"
    text = API.read_text(encoding="utf-8")
    assert heading in text, f"docs/api.md has no section '{package}'"
    section = text.split(heading, 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `(\w+)", section, flags=re.MULTILINE)


def by_kind(name: str) -> tuple[bool, bool, str]:
    """Return the key of ruff's order: constants, then classes, then functions."""
    return (not name.isupper(), not name[0].isupper(), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_documented_in_order(package):
    module = importlib.import_module(package)
    promised = sorted(getattr(module, "__all__", []), key=by_kind)
    assert promised == documented(package)
    assert set(promised) <= set(dir(module))
    assert [name for name in promised if not hasattr(module, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_promised_explains_itself(package):
    module = importlib.import_module(package)
    things = {name: getattr(module, name) for name in getattr(module, "__all__", [])}
    mute = [name for name, thing in things.items() if callable(thing) and not thing.__doc__]
    assert mute == []


def all_errors() -> set[type[ChronicleError]]:
    """Return every stated error of every room."""
    found: set[type[ChronicleError]] = set()
    left: list[type[ChronicleError]] = [ChronicleError]
    while left:
        error = left.pop()
        found.add(error)
        left += error.__subclasses__()
    return found


def test_import_chronicle_offers_queries_and_every_error():
    assert chronicle.query is replay.query
    assert chronicle.online is replay.online
    assert chronicle.explain is replay.explain
    rooms = ("chronicle", "indexing", "replay", "costmodel")
    ours = [error for error in all_errors() if error.__module__.split(".")[0] in rooms]
    public = [error for error in ours if not error.__name__.startswith("_")]
    assert [e for e in public if getattr(chronicle, e.__name__, None) is not e] == []


def test_a_name_that_chronicle_lacks_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'chronicle' has no attribute 'qery'"):
        _ = chronicle.qery


def test_names_that_are_modules_too_are_the_functions():
    code = """
import sys
import pyarrow.dataset, pyarrow.parquet
theirs = set(sys.modules)
for first in (
    "",
    "import replay.query",
    "import replay.online, replay.query",
    "from replay.query import batches",
    "from replay.online import OnlineFlow",
    "import replay.dataflow",
    "import replay.pacing.events",
    "import chronicle; chronicle.events",
    "import importlib; importlib.import_module('replay.query')",
    "from replay import query; import replay.query",
):
    exec(first, {})
    import replay
    for name in ("query", "online"):
        function = getattr(replay, name)
        assert function is getattr(sys.modules[f"replay.{name}"], name), (first, name)
    from replay import online, query
    import chronicle
    assert (query, online) == (replay.query, replay.online), first
    assert (query, online) == (chronicle.query, chronicle.online), first
    for name in set(sys.modules) - theirs:
        if name.split(".")[0] in ("chronicle", "costmodel", "indexing", "replay"):
            del sys.modules[name]
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=API.parent.parent)


def test_a_command_imports_nothing_before_it_hears_ctrl_c():
    code = """
import sys
before = {*sys.modules, "__future__", "types"}
import replay.console.entry
print(sorted(set(sys.modules) - before))
"""
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, cwd=API.parent.parent
    )
    ours = ["chronicle", "chronicle.door", "replay", "replay.console", "replay.console.entry"]
    assert told.stdout.decode() == f"{ours}\n"


def test_a_command_that_only_tells_its_options_imports_no_data_libraries():
    code = """
import sys
import replay.console.app
print(sorted({"numpy", "pyarrow", "deltalake", "chronicle.store"} & set(sys.modules)))
"""
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, cwd=API.parent.parent
    )
    assert told.stdout == b"[]\n"


def test_a_stream_opened_by_its_module_can_be_appended_to(tmp_path):
    code = f"""
import pyarrow as pa
from chronicle.settings import StreamSettings
from chronicle.store import create_store
events = pa.table({{"t": [1, 2]}})
store = create_store({str(tmp_path / "store")!r})
stream = store.create_stream("s", events.schema, StreamSettings(time="t"))
assert stream.append(events).n_events == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=API.parent.parent)


def test_the_version_is_that_of_the_distribution():
    assert chronicle.__version__ == importlib.metadata.version("chronicle-events")
