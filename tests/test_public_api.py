"""What is promised: each package's ``__all__`` is sorted, real, and the list in docs/api.md."""

import importlib
import re
from pathlib import Path

import pytest

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
