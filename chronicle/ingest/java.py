"""Find a Java that Spark can run on, before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from chronicle.errors import EnvironmentFaultError

OLDEST_JAVA = 17
"""Spark 4 is compiled for Java 17."""

REMEDY = (
    "install OpenJDK 17 or 21 (Debian and Ubuntu: apt-get install default-jre-headless; "
    "macOS: brew install openjdk@21) and put it on PATH or name it in JAVA_HOME"
)

_ANSWER_SECONDS_MAX = 60


def find_java(environ: Mapping[str, str]) -> Path:
    """Return the ``java`` Spark will run: that of JAVA_HOME, else the first on PATH.

    Raises
    ------
    EnvironmentFaultError
        If there is none.
    """
    home = environ.get("JAVA_HOME", "")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise EnvironmentFaultError(
                f"JAVA_HOME names '{home}', which holds no bin/java; correct it, or {REMEDY}"
            )
        return java
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is None:
        raise EnvironmentFaultError(f"no Java was found, and ingest runs on Spark; {REMEDY}")
    return Path(found)


def to_major_version(answer: str) -> int | None:
    """Return the major version in what ``java -version`` prints, None if it is not there.

    Examples
    --------
    >>> to_major_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> to_major_version('java version "1.8.0_392"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(match.group(1)) if match else None


def check_java(environ: Mapping[str, str]) -> Path:
    """Return the Java to run Spark on, having asked it for its version.

    Raises
    ------
    EnvironmentFaultError
        If there is no Java, it does not answer, or it is older than 17.
    """
    java = find_java(environ)
    try:
        answer = subprocess.run(  # noqa: S603 -- the user's own Java, asked for its version
            [str(java), "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWER_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFaultError(f"Java at '{java}' does not run ({error}); {REMEDY}") from error
    version = to_major_version(answer.stderr + answer.stdout)
    if version is None:
        raise EnvironmentFaultError(f"Java at '{java}' does not state its version; {REMEDY}")
    if version < OLDEST_JAVA:
        raise EnvironmentFaultError(
            f"Java at '{java}' is version {version}, and Spark needs {OLDEST_JAVA} or newer; "
            f"{REMEDY}"
        )
    return java
