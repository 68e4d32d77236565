"""The house rules a machine can check: sizes, docstrings, and what must not be in the tree.

Each case lists all offenders, so that one run says all there is to mend.
"""

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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


@dataclass(frozen=True)
class Facts:
    """What the rules ask of a module; its tree would burden every test behind these."""

    is_mute: bool
    long_bodies: list[str]
    njit_lines: list[int]


@cache
def facts_of(path: Path) -> Facts:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = list(statements(tree))
    njit_lines = [
        node.lineno
        for node in found
        if isinstance(node, ast.ImportFrom)
        and node.module == "chronicle.compiled"
        and any(alias.name == "njit" for alias in node.names)
    ]
    is_mute = bool(tree.body) and not ast.get_docstring(tree)
    return Facts(is_mute, list(long_bodies(found)), njit_lines)


def listed(offenders: Iterable[str]) -> str:
    return "\n".join(["", *offenders])


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function after its signature and docstring."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    first = function.body[min(int(has_docstring), len(function.body) - 1)]
    assert function.end_lineno is not None
    return function.end_lineno - first.lineno + 1


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements, and none of the expressions in them, of which there are many more."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            left += value if isinstance(value := getattr(node, name, None), list) else ()


def long_bodies(found: Iterable[ast.AST]) -> Iterator[str]:
    for node in found:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            n_body = body_lines(node)
            if n_body > BODY_LINES_MAX:
                yield f"{node.name}: {n_body} lines; it holds two jobs"


def test_modules_are_short():
    counts = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    offenders = [f"{name_of(p)}: {n} lines" for p, n in counts.items() if n > MODULE_LINES_MAX]
    assert not offenders, listed([*offenders, "look for the seam between two jobs"])


def test_modules_say_their_job():
    mute = [path for path in MODULES if facts_of(path).is_mute]
    assert not mute, listed([*map(name_of, mute), "the first line names the module's job"])


def test_function_bodies_are_short():
    offenders = [
        f"{name_of(path)}: {said}"
        for path in MODULES
        if not path.name.endswith(KERNELS)
        for said in facts_of(path).long_bodies
    ]
    assert not offenders, listed(offenders)


def test_compiled_code_lives_in_kernels():
    offenders = [
        f"{name_of(path)}:{line}"
        for path in MODULES
        if path.name.split("_")[0] != "test" and not path.name.endswith(KERNELS)
        for line in facts_of(path).njit_lines
    ]
    assert not offenders, listed([*offenders, "call the file kernels.py, or so that it ends so"])


def test_package_files_only_re_export():
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr)
    offenders = []
    for path in (path for path in MODULES if path.name == "__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = [node.target] if isinstance(node, ast.AnnAssign) else []
            targets += node.targets if isinstance(node, ast.Assign) else []
            if not isinstance(node, allowed) or any(
                ast.unparse(target) != "__all__" for target in targets
            ):
                offenders.append(f"{name_of(path)}:{node.lineno}")
    assert not offenders, listed([*offenders, "code belongs in a module"])


def test_files_are_small():
    big = [name_of(path) for path in FILES if path.stat().st_size > FILE_BYTES_MAX]
    assert not big, listed(big)


def test_files_hold_nothing_forbidden():
    offenders = []
    for path in FILES:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # data
        for pattern, reason in FORBIDDEN.items():
            found = re.search(pattern, text)
            if found is not None:
                offenders.append(f"{name_of(path)}: '{found[0]}': {reason}")
    assert not offenders, listed(offenders)


def test_text_from_outside_is_cut_at_line_feeds_alone():
    # str.splitlines cuts at U+0085 and U+2028, too, which stand in the JSON of logs.
    rooms = ("chronicle", "costmodel", "indexing", "replay")
    offenders = [
        f"{name_of(path)}:{number}"
        for path in MODULES
        if path.relative_to(ROOT).parts[0] in rooms
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
        if "splitlines" in line
    ]
    assert not offenders, listed([*offenders, "chronicle.foreign_text has split_lines, first_line"])


def test_rules_see_what_they_forbid():
    examples = [
        "# {}DO later".format("TO"),
        "cd /{}k/main".format("wor"),
        "--{}-url".format("index"),
    ]
    assert all(any(re.search(pattern, example) for pattern in FORBIDDEN) for example in examples)
    tree = ast.parse("def f():\n    'Doc.'\n" + "    x = 1\n" * (BODY_LINES_MAX + 1))
    assert list(long_bodies(statements(tree))) == [
        f"f: {BODY_LINES_MAX + 1} lines; it holds two jobs"
    ]
