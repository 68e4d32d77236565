"""Start and stop a quiet Spark whose words go to a log file, never to the terminal.

That Java is missing or the master cannot be reached is said at once, before anything is started.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronicle import foreign_text
from chronicle.errors import EnvironmentFaultError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARROW_BATCH_ROWS = 65_536
"""Rows per batch that crosses from the JVM: large enough to hide the price of a Python call."""

SHUFFLE_PARTITIONS_MAX = 8
DRIVER_MEMORY = "2g"
"""Heap of a local Spark: the sort spills to disk beyond it."""

_STOP_SECONDS_MAX = 30
"""A JVM that has not ended by then is killed."""

_LOG4J = Path(__file__).with_name("log4j2.properties")


@dataclass(frozen=True, slots=True)
class SparkLease:
    """A Spark session, and whether it was started for its holder."""

    spark: SparkSession
    started: bool
    log_file: Path | None
    """The file named for what this session prints; None for one that goes after success."""


@contextmanager
def open_spark(
    master: str, *, log_file: Path | None = None, is_small: bool = False
) -> Iterator[SparkLease]:
    """Lend a Spark session: the one that is running, else a new one that ends with the block.

    A session that runs keeps its own master. ``log_file`` takes what Spark and its JVM print;
    without one it is a private file in the temporary folder, which stays only where the block
    fails. ``is_small``, for work of seconds: a JVM of its own then does not optimise its code to
    the last, which costs a third of a short ingest on two cores and pays off in long ones.
    """
    from pyspark.sql import SparkSession

    # A thread that did not start Spark has no active session.
    running = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if running is not None and running.sparkContext._jsc is not None:
        yield SparkLease(to_own_session(running), started=False, log_file=log_file)
        return
    check_master(master, os.environ)
    check_java(os.environ)
    with _log_of(log_file) as log:
        spark = _start_out_of_reach(master, log_file=log, is_small=is_small)
        try:
            yield SparkLease(spark, started=True, log_file=log_file)
        finally:
            stop_spark(spark)


@contextmanager
def _log_of(given: Path | None) -> Iterator[Path]:
    """Lend the file that takes what Spark prints; one that nobody named stays after a failure."""
    if given is not None:
        yield given
        return
    descriptor, name = tempfile.mkstemp(prefix="chronicle-spark-", suffix=".log")
    os.close(descriptor)
    try:
        yield Path(name)
    except Exception:
        raise
    except BaseException:  # an interrupt has nothing to explain
        Path(name).unlink(missing_ok=True)
        raise
    Path(name).unlink(missing_ok=True)


def to_own_session(running: SparkSession) -> SparkSession:
    """Return a session in the same JVM whose settings can be changed without a trace."""
    own = running.newSession()
    for name, value in to_configuration(
        "", n_cores=running.sparkContext.defaultParallelism
    ).items():
        if name.startswith("spark.sql."):
            own.conf.set(name, value)
    return own


def to_configuration(master: str, *, n_cores: int) -> dict[str, str]:
    """Return the settings of a session on ``master``; pure but for this package's own place."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH", "")
    settings = {
        "spark.master": master,
        "spark.app.name": "chronicle ingest",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={_LOG4J.as_uri()} -XX:+IgnoreUnrecognizedVMOptions"
        ),
        # Workers import this package whether it is installed or run from a checkout.
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, (root, inherited))),
        "spark.python.worker.reuse": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "true",
        "spark.sql.shuffle.partitions": str(min(max(n_cores, 2), SHUFFLE_PARTITIONS_MAX)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
        # A range sort's partitions are its files: what they are must not depend on statistics.
        "spark.sql.adaptive.enabled": "false",
    }
    if master.startswith("local"):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _start_out_of_reach(master: str, *, log_file: Path, is_small: bool) -> SparkSession:
    """Start Spark where no interrupt breaks into it; one that comes meanwhile ends the JVM.

    In a thread of its own: a JVM whose first words were not awaited would go on alone, py4j prints
    what an interrupt does to its calls, and PySpark puts in the main thread a handler of Ctrl-C
    that calls into a connection in use and outlives the session. ``jobs.py`` cancels what an
    interrupt leaves running.
    """
    unwanted = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        started = pool.submit(
            start_spark, master, log_file=log_file, is_small=is_small, unwanted=unwanted
        )
        try:
            return started.result()
        except (KeyboardInterrupt, SystemExit):
            with _nothing_logged():
                unwanted.set()
                _end_jvm()
                wait([started])
                _forget_gateway()
            raise


def start_spark(
    master: str, *, log_file: Path, is_small: bool, unwanted: threading.Event
) -> SparkSession:
    """Start a JVM whose output goes to ``log_file`` and a session in it.

    ``unwanted`` is set when the JVM is to end as soon as it can be told so. Where it does not
    start, the error names the log file.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    settings = to_configuration(master, n_cores=os.cpu_count() or 2)
    if is_small:
        settings["spark.driver.extraJavaOptions"] += " -XX:TieredStopAtLevel=1"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    environment = {"PYSPARK_PYTHON": sys.executable}
    if master.startswith("local"):
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    try:
        with log_file.open("ab") as log, _environment(environment):
            configuration = SparkConf(loadDefaults=False)
            for name, value in settings.items():
                configuration.set(name, value)
            # A gateway of our own, because only here can the JVM's output be sent elsewhere.
            gateway = launch_gateway(configuration, {"stdout": log, "stderr": log})
            SparkContext._ensure_initialized(gateway=gateway)
            if unwanted.is_set():
                raise KeyboardInterrupt
            builder = SparkSession.builder
            for name, value in settings.items():
                builder = builder.config(name, value)
            return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        _forget_gateway()
        raise EnvironmentFaultError(
            f"Spark did not start on master '{master}' ({first_line(error)}); '{log_file}' says why"
        ) from error
    except BaseException as error:
        _forget_gateway()
        if type(error).__module__.startswith("py4j"):
            raise EnvironmentFaultError(
                f"Spark did not start on master '{master}'; '{log_file}' says why"
            ) from error
        raise


def stop_spark(spark: SparkSession) -> None:
    """Stop the session and end its JVM."""
    # A JVM that is already gone (killed, out of memory) cannot be asked to stop.
    with suppress(Exception):
        spark.stop()
    _forget_gateway()


def _end_jvm() -> None:
    """Send the JVM behind PySpark its end, if it is known by now; it clears up."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.terminate()


def _forget_gateway() -> None:
    """End the JVM behind PySpark, so that the next session starts a fresh one."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with suppress(Exception):
        gateway.shutdown()
    if process is not None:
        # The JVM ends when its standard input does.
        process.stdin.close()
        try:
            process.wait(timeout=_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None


def first_line(error: BaseException) -> str:
    """Return the first line of a Spark error, without its class."""
    return foreign_text.first_line(str(error).strip()) or type(error).__name__


@contextmanager
def _nothing_logged() -> Iterator[None]:
    """Keep from the terminal what py4j logs, as root, of calls that end with their JVM."""
    root, before = logging.getLogger(), logging.root.manager.disable
    silent = logging.NullHandler()
    root.addHandler(silent)  # where there is none, logging makes one that prints, for good
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)
        root.removeHandler(silent)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the length of the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# ---------------------------------------------------------------------------------------------
# Which Java, and whether the master answers.

OLDEST_JAVA = 17
"""Spark 4 is compiled for Java 17."""

REMEDY = (
    "install OpenJDK 17 or 21 (Debian and Ubuntu: apt-get install default-jre-headless; "
    "macOS: brew install openjdk@21) and put it on PATH or name it in JAVA_HOME"
)

_ANSWER_SECONDS_MAX = 60


def find_java(environ: Mapping[str, str]) -> Path:
    """Return the ``java`` Spark will run: that of JAVA_HOME, else the first on PATH."""
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
    """Return the Java to run Spark on, having asked it for its version."""
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


_CONNECT_SECONDS_MAX = 2.0
"""How long one host of a master may take to answer; Spark itself tries for a minute."""

_LOCAL = re.compile(r"local(\[(\*|\d+)(,\s*\d+)?\])?")
_ADDRESSES = re.compile(r"(?:spark|k8s)://(?:https?://)?(.+)")
_ADDRESS = re.compile(r"\[?([^,\[\]/]+?)\]?(?::(\d+))?/?")

_DEFAULT_PORTS = {"spark": 7077, "k8s": 443}


def check_master(master: str, environment: Mapping[str, str]) -> None:
    """Check that a Spark master is one and, where it has an address, that somebody answers there.

    ``environment`` are the variables of the process; ``yarn`` is found by one of them.
    """
    if _LOCAL.fullmatch(master):
        return
    if master == "yarn":
        if not environment.keys() & {"HADOOP_CONF_DIR", "YARN_CONF_DIR"}:
            raise EnvironmentFaultError(
                "Spark master 'yarn' is found by the variable HADOOP_CONF_DIR or YARN_CONF_DIR, "
                "and neither is set; set one to the folder of the cluster's configuration"
            )
        return
    addresses = addresses_of(master)
    if not addresses:
        raise EnvironmentFaultError(
            f"'{master}' is no Spark master; take local[*], local[2], spark://host:7077, yarn or "
            "k8s://https://host:443"
        )
    reasons = [_why_unreachable(host, port) for host, port in addresses]
    if all(reasons):
        raise EnvironmentFaultError(
            f"Spark master '{master}' cannot be reached ({reasons[0]}); check its address and "
            "that it is running, or take local[*] for this machine"
        )


def addresses_of(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports that a master names; none if it is not written as one. Pure.

    >>> addresses_of("spark://a:7077,b:7078"), addresses_of("k8s://https://c"), addresses_of("x")
    ([('a', 7077), ('b', 7078)], [('c', 443)], [])
    """
    named = _ADDRESSES.fullmatch(master)
    if named is None:
        return []
    found = [_ADDRESS.fullmatch(part) for part in named[1].split(",")]
    default = _DEFAULT_PORTS[master.partition(":")[0]]
    pairs = [(part[1], int(part[2] or default)) for part in found if part is not None]
    return pairs if len(pairs) == len(found) else []


def _why_unreachable(host: str, port: int) -> str | None:
    """Return why nobody answers there; None if somebody does."""
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS_MAX):
            return None
    except (OSError, OverflowError, UnicodeError) as error:
        return f"{host}:{port}: {error.args[-1] if error.args else error}"
