"""Spark is not started where Java is missing or old, or nobody answers at the master."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from chronicle.errors import EnvironmentFaultError
from chronicle.ingest import session
from chronicle.ingest.session import addresses_of, check_java, check_master, to_major_version


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


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ('openjdk version "16.0.2" 2021-07-20', "is version 16, and Spark needs 17 or newer"),
        ("hello", "does not state its version"),
    ],
)
def test_java_that_cannot_do_is_refused(tmp_path: Path, answer: str, said: str) -> None:
    fake_java(tmp_path / "bin", answer)
    with pytest.raises(EnvironmentFaultError, match=said):
        check_java({"PATH": str(tmp_path / "bin")})


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    java = fake_java(tmp_path / "jdk" / "bin", 'openjdk version "17"')
    environ = {"PATH": str(tmp_path / "old"), "JAVA_HOME": str(tmp_path / "jdk")}
    assert check_java(environ) == java


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[4,3]"])
def test_this_machine_needs_no_check(master: str) -> None:
    check_master(master, {})


@pytest.mark.parametrize(
    "master", ["", "locl[*]", "local[x]", "spark:/h:1", "http://h", "spark://"]
)
def test_what_is_no_master_is_told_with_examples(master: str) -> None:
    with pytest.raises(EnvironmentFaultError, match=r"is no Spark master; take local\[\*\]"):
        check_master(master, {})


def test_yarn_needs_the_configuration_of_its_cluster() -> None:
    with pytest.raises(EnvironmentFaultError, match="HADOOP_CONF_DIR"):
        check_master("yarn", {})
    check_master("yarn", {"HADOOP_CONF_DIR": "/etc/hadoop"})


def test_addresses_are_those_the_master_names() -> None:
    assert addresses_of("spark://a:1,b") == [("a", 1), ("b", 7077)]
    assert addresses_of("spark://[::1]:9") == [("::1", 9)]
    assert addresses_of("k8s://https://host:6443/") == [("host", 6443)]


def test_a_master_is_reachable_where_one_of_its_hosts_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_socket:
        port = open_socket.getsockname()[1]
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}", {})
    with pytest.raises(EnvironmentFaultError, match=rf"cannot be reached \(127.0.0.1:{port}: "):
        check_master(f"spark://127.0.0.1:{port}", {})


def test_a_wrong_master_starts_no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_start_out_of_reach", lambda *_, **__: pytest.fail("started"))
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr("pyspark.sql.SparkSession._instantiatedSession", None)
    with (
        pytest.raises(EnvironmentFaultError, match="cannot be reached"),
        session.open_spark("spark://127.0.0.1:1"),
    ):
        pytest.fail("lent")


def test_the_log_nobody_named_is_private_and_goes_after_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with session._log_of(None) as first, session._log_of(None) as second:
        assert first != second
        assert str(os.getpid()) not in first.name
        assert stat.S_IMODE(first.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []

    with pytest.raises(ValueError, match="the work failed"), session._log_of(None):
        raise ValueError("the work failed")
    assert len(list(tmp_path.iterdir())) == 1, "what Spark said is there to be read"


def test_a_log_that_was_named_stays(tmp_path: Path) -> None:
    named = tmp_path / "spark.log"
    named.write_text("kept")
    with session._log_of(named) as log:
        assert log == named
    assert named.read_text() == "kept"
