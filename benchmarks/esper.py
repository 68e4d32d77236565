"""Situations in Esper, run beside ours: three patterns of rows, and a join of what they find.

Esper is GPL: it is fetched by Maven into a folder of its own when it is measured, and never a
dependency. It tells situations once they are over, so it is compared with EMIT FINAL.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

VERSION = "9.0.0"
ARTIFACTS = ("esper-common", "esper-compiler", "esper-runtime")

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>none</groupId><artifactId>none</artifactId><version>1</version><dependencies>{}
</dependencies></project>"""
_DEPENDENCY = """<dependency><groupId>com.espertech</groupId><artifactId>{}</artifactId>
<version>{}</version></dependency>"""

_SITUATIONS = """
insert into S{0} select * from Car match_recognize (
  partition by car measures E.car as car, first(S.t) as s, E.t as e
  pattern (S+ E) define S as S.{1}, E as not (E.{1}));"""
_BOUNDS = ", ".join(f"{n}.s as {n.lower()}_s, {n}.e as {n.lower()}_e" for n in "ABC")
_WINDOWS = ", ".join(f"S{n}#ext_timed(e * 1000, 300 sec) as {n}" for n in "ABC")
_MATCHES = f"""
@name('matches') select A.car as car, {_BOUNDS} from {_WINDOWS}
where A.car = B.car and B.car = C.car and A.e < C.s
  and (A.e = B.s or (A.s < B.s and B.s < A.e and A.e < B.e) or (A.s >= B.s and A.e < B.e))
  and ((B.s < C.s and (C.e <= B.e or (C.s < B.e and B.e < C.e))) or B.e = C.s)
  and max(A.e, B.e, C.e) - min(A.s, B.s, C.s) <= 300;
"""


class NoEsperError(Exception):
    """Says why Esper cannot be run here, in a sentence."""


def run(
    cars: pa.Table, conditions: dict[str, str], folder: Path, *, rounds: int
) -> tuple[list[tuple[float, float]], list[tuple[int, ...]]]:
    """Return wall and processor seconds of each round, and the matches in order.

    Parameters
    ----------
    cars
        Rows of `datasets.traffic`, which are objects in memory before the time begins.
    conditions
        Of A, B and C, each over one column.
    folder
        Where the libraries are fetched to, and stay.
    rounds
        How many are measured, behind one that is not: code is compiled in it.
    """
    fetch(folder)
    epl = "".join(_SITUATIONS.format(*item) for item in conditions.items()) + _MATCHES
    rows = np.empty(cars.num_rows, [("t", "<i8"), ("car", "<i8"), ("s", "<f8"), ("a", "<f8")])
    for name, column in zip(rows.dtype.names or (), cars.columns, strict=True):
        rows[name] = column.to_numpy()
    source = Path(__file__).with_name("EsperSituations.java")
    with TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "query.epl").write_text(epl)
        rows.tofile(scratch / "rows")
        files = [str(scratch / file) for file in ("query.epl", "rows", "answer")]
        java = ["java", "-Xmx2g", "-XX:+UseSerialGC", "-cp", f"{folder}/*", str(source)]
        done = _call([*java, *files, str(rounds + 1)], scratch)
        lines = (scratch / "answer").read_text().splitlines()
    seconds = [(wall, cpu) for wall, cpu in json.loads(done)[1:]]
    return seconds, sorted(tuple(map(int, line.split(","))) for line in lines)


def fetch(folder: Path) -> None:
    """Have Esper's libraries in a folder, by Maven where they are not there yet."""
    if not shutil.which("java"):
        raise NoEsperError("Esper is left out: there is no java here")
    if all((folder / f"{name}-{VERSION}.jar").exists() for name in ARTIFACTS):
        return
    if not shutil.which("mvn"):
        raise NoEsperError("Esper is left out: there is no mvn here to fetch it with")
    with TemporaryDirectory() as name:
        dependencies = "".join(_DEPENDENCY.format(artifact, VERSION) for artifact in ARTIFACTS)
        (Path(name) / "pom.xml").write_text(_POM.format(dependencies))
        copy = f"-DoutputDirectory={folder.resolve()}"
        _call(["mvn", "-q", "-B", "dependency:copy-dependencies", copy], Path(name))


def _call(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise NoEsperError(f"Esper is left out, as {command[0]} failed: {''.join(said)}")
    return done.stdout
