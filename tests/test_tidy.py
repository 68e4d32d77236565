"""The house rules a machine can check: sizes, docstrings, and what must not be in the tree."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MODULE_LINES_MAX = 800
BODY_LINES_MAX = 60
FILE_BYTES_MAX = 10_000_000

# A kernel is one compiled loop over state held in local variables: cut into functions, that state
# would have to travel as arrays, and a reader would meet it under two names.
KERNELS = "kernels.py"

# A letter of each word stands in brackets, so that this file does not find itself.
FORBIDDEN = {
    r"\b([T]ODO|[F]IXME)\b": "finish it, or file an issue",
    r"(?<![\w.])/([w]ork|[r]oot|[h]ome/\w+)/": "a path of one machine",
    r"[i]ndex-url|[f]ind-links|[t]rusted-host|[p]ythonhosted\.org": (
        "pip's own defaults, or the user's settings, say where packages come from"
    ),
}


def tracked_files() -> list[Path]:
    """Return what git tracks or would track; in a copy without git, whatever is not hidden."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    else:
        paths = (p for p in ROOT.rglob("*") if "/." not in f"/{p.relative_to(ROOT)}")
    return sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts)


FILES = tracked_files()
MODULES = [path for path in FILES if path.suffix == ".py"]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function after its signature and docstring."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    first = function.body[min(int(has_docstring), len(function.body) - 1)]
    assert function.end_lineno is not None
    return function.end_lineno - first.lineno + 1


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_is_short_and_says_its_job(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    n_lines = len(text.splitlines())

    assert n_lines <= MODULE_LINES_MAX, f"{n_lines} lines; look for the seam between two jobs"
    if text.strip():
        docstring = ast.get_docstring(tree)
        assert docstring, "the first line names the module's job"
    if path.name == KERNELS:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            n_body = body_lines(node)
            assert n_body <= BODY_LINES_MAX, f"{node.name}: {n_body} lines; it holds two jobs"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.name == "__init__.py"], ids=name_of
)
def test_package_file_only_re_exports(path):
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if name_of(path) == "chronicle/__init__.py" and isinstance(node, ast.If):
            assert ast.unparse(node.test) == "TYPE_CHECKING"  # the types of the one door
            continue
        assert isinstance(node, allowed), f"line {node.lineno}: code belongs in a module"
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            assert isinstance(target, ast.Name)
            assert target.id == "__all__"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_file_is_small_and_holds_nothing_forbidden(path):
    assert path.stat().st_size <= FILE_BYTES_MAX
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return  # data
    for pattern, reason in FORBIDDEN.items():
        found = re.search(pattern, text)
        assert found is None, f"'{found[0]}': {reason}"


def test_rules_see_what_they_forbid():
    examples = [
        "# {}DO later".format("TO"),
        "cd /{}k/main".format("wor"),
        "--{}-url".format("index"),
    ]
    assert all(any(re.search(pattern, example) for pattern in FORBIDDEN) for example in examples)
    long = ast.parse("def f():\n    'Doc.'\n" + "    x = 1\n" * (BODY_LINES_MAX + 1)).body[0]
    assert isinstance(long, ast.FunctionDef)
    assert body_lines(long) == BODY_LINES_MAX + 1
