"""Java is looked for, and asked for its version, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronicle.errors import EnvironmentFaultError
from chronicle.ingest.java import check_java, find_java, to_major_version


def fake_java(folder: Path, answer: str) -> Path:
    """A program that answers as ``java -version`` does, on standard error."""
    folder.mkdir(parents=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ("sh: no such thing", None),
    ],
)
def test_major_version_is_read_from_the_answer(answer: str, version: int | None) -> None:
    assert to_major_version(answer) == version


def test_missing_java_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFaultError, match=r"no Java was found.*OpenJDK 17 or 21"):
        check_java({"PATH": str(tmp_path)})


def test_wrong_java_home_is_named(tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", 'openjdk version "17.0.1"')
    environ = {"PATH": str(tmp_path / "bin"), "JAVA_HOME": str(tmp_path / "jdk")}
    with pytest.raises(EnvironmentFaultError, match=r"JAVA_HOME names .*/jdk'.*no bin/java"):
        check_java(environ)


def test_old_java_is_refused(tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", 'openjdk version "11.0.2" 2019-01-15')
    with pytest.raises(EnvironmentFaultError, match=r"is version 11, and Spark needs 17 or newer"):
        check_java({"PATH": str(tmp_path / "bin")})


def test_java_that_states_no_version_is_refused(tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", "hello")
    with pytest.raises(EnvironmentFaultError, match="does not state its version"):
        check_java({"PATH": str(tmp_path / "bin")})


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    java = fake_java(tmp_path / "jdk" / "bin", 'openjdk version "21.0.1"')
    environ = {"PATH": str(tmp_path / "old"), "JAVA_HOME": str(tmp_path / "jdk")}
    assert find_java(environ) == check_java(environ) == java
