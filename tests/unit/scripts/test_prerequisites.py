"""What `make` says on a machine that lacks something, played with stand-ins on the PATH."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "prerequisites.sh"
TOOLS = ("sh", "sed", "head")


@pytest.fixture
def machine(tmp_path):
    """Return a folder that is all there is on the PATH: a shell's tools and a good Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    put(folder / "python3.12", f'exec "{sys.executable}" "$@"')
    return folder


def put(file: Path, script: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def put_java(file: Path, version: str) -> None:
    put(file, f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


def check(machine: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(machine / "sh"), str(SCRIPT), *arguments],
        env={"PATH": str(machine), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def complaint(result: subprocess.CompletedProcess[str]) -> str:
    """Return the one sentence of a refusal."""
    assert result.returncode == 1
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Chronicle cannot be set up: ")
    assert lines[0].endswith(".")
    return lines[0]


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2", "22-ea", "25"])
def test_recent_java_is_enough_and_the_python_is_printed(machine, version):
    put_java(machine / "java", version)
    result = check(machine)
    assert (result.returncode, result.stdout, result.stderr) == (0, "python3.12\n", "")


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_292", "8"), ("11.0.22", "11"), ("16.0.1", "16")]
)
def test_old_java_is_named_with_the_remedy(machine, version, major):
    put_java(machine / "java", version)
    said = complaint(check(machine))
    assert f"the one on the PATH is Java {major};" in said
    assert "apt install default-jre-headless" in said


def test_missing_java_is_named_with_the_remedy(machine):
    assert "there is no 'java' on the PATH; install" in complaint(check(machine))


def test_java_home_goes_before_the_path(machine, tmp_path):
    put_java(machine / "java", "11.0.1")
    put_java(tmp_path / "jdk" / "bin" / "java", "17.0.1")
    assert check(machine, JAVA_HOME=str(tmp_path / "jdk")).returncode == 0


def test_java_home_without_java_is_named(machine, tmp_path):
    put_java(machine / "java", "17.0.1")
    said = complaint(check(machine, JAVA_HOME=str(tmp_path / "jdk")))
    assert f"JAVA_HOME is {tmp_path}/jdk and there is no bin/java in it" in said


def test_java_that_tells_no_version_is_named(machine):
    put(machine / "java", "echo 'Unable to locate a Java Runtime' >&2; exit 1")
    assert "does not tell its version" in complaint(check(machine))


def test_python_that_does_not_start_is_passed_over(machine):
    put_java(machine / "java", "17.0.1")
    put(machine / "python3.13", "echo 'python3.13: command not found' >&2; exit 127")
    assert check(machine).stdout == "python3.12\n"


def test_too_old_python_is_named_with_the_remedy(machine):
    put_java(machine / "java", "17.0.1")
    # An old Python fails the check of its version and prints it when asked.
    old = 'case "$2" in *print*) echo "only Python 3.9 was found";; *) exit 1;; esac'
    (machine / "python3.12").unlink()
    put(machine / "python3", old)
    said = complaint(check(machine))
    assert "only Python 3.9 was found; install one" in said


def test_missing_python_is_named_with_the_remedy(machine):
    put_java(machine / "java", "17.0.1")
    (machine / "python3.12").unlink()
    said = complaint(check(machine))
    assert "no Python was found; install one" in said
    assert "apt install python3 python3-venv" in said


def test_python_that_was_named_and_does_not_fit_is_named(machine):
    put_java(machine / "java", "17.0.1")
    said = complaint(check(machine, str(machine / "nothing")))
    assert "nothing' is not a Python 3.11, 3.12 or 3.13" in said


def test_python_without_venv_is_named_with_the_remedy(machine):
    put_java(machine / "java", "17.0.1")
    put(machine / "python3.12", 'case "$2" in *ensurepip*) exit 1;; *) exit 0;; esac')
    assert "apt install python3-venv" in complaint(check(machine))
