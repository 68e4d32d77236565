"""Write the newest versions pyproject.toml allows into constraints.txt: `make lock`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
BUILD_TOOLS = ("hatchling", "editables")


def canonical(name: str) -> str:
    """Return the one spelling under which PyPI knows a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def install_newest(directory: Path) -> dict[str, str]:
    """Install Chronicle without constraints and return the versions pip chose, by name."""
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")
    }
    pip = [str(python), "-m", "pip"]
    wanted = [*BUILD_TOOLS, f"{ROOT}[bench,dev]"]
    subprocess.run([*pip, "install", "--quiet", *wanted], check=True, env=environment)  # noqa: S603 - our own words
    frozen = subprocess.check_output([*pip, "freeze"], env=environment, text=True)  # noqa: S603
    pairs = (line.partition("==") for line in frozen.splitlines() if "==" in line)
    return {canonical(name): version for name, _, version in pairs}


def with_versions(text: str, versions: dict[str, str]) -> str:
    """Return the constraints with each version replaced, sections and comments kept.

    A package that is new to the file is put at its end; one no longer needed disappears.
    """
    lines = []
    unseen = dict(versions)
    for line in text.splitlines():
        name, is_pin, _ = line.partition("==")
        if line.startswith("#") or not is_pin:
            lines.append(line)
        elif version := unseen.pop(canonical(name), None):
            lines.append(f"{name}=={version}")
    if unseen:
        lines += ["", "# New; move them to the section they belong to"]
        lines += [f"{name}=={version}" for name, version in sorted(unseen.items())]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Replace the versions in constraints.txt."""
    with tempfile.TemporaryDirectory() as directory:
        versions = install_newest(Path(directory) / "venv")
    CONSTRAINTS.write_text(with_versions(CONSTRAINTS.read_text(), versions))
    sys.stdout.write(f"wrote {len(versions)} versions to {CONSTRAINTS.name}; now run .ci/run\n")


if __name__ == "__main__":
    main()
