"""What is promised: each package's ``__all__`` is sorted, real, and the list in docs/api.md."""

import ast
import importlib
import importlib.metadata
import re
from pathlib import Path

import pytest

import chronicle
from chronicle import door
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
def test_all_is_sorted_and_documented(package):
    module = importlib.import_module(package)
    promised = list(getattr(module, "__all__", []))
    assert promised == sorted(promised, key=by_kind)
    assert promised == documented(package)
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
    replay = importlib.import_module("replay")
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


def test_the_door_resolves_the_names_whose_types_are_declared():
    source = ast.parse(Path(chronicle.__file__).read_text(encoding="utf-8"))
    (typed,) = (node for node in source.body if isinstance(node, ast.If))
    declared = {
        alias.name
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert declared == set(door._HOMES)


def test_the_version_is_that_of_the_distribution():
    assert chronicle.__version__ == importlib.metadata.version("chronicle-events")
