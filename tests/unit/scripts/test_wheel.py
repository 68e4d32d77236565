"""What the wheel installs, and that it works beside a package that is called as our data is."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = {"chronicle", "indexing", "replay", "costmodel"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a folder that holds the wheel unpacked, and a foreign package ``datasets``."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    zipfile.ZipFile(wheel).extractall(site)
    (site / "datasets").mkdir()
    (site / "datasets" / "__init__.py").write_text("FOREIGN = True\n")
    return site


def test_the_wheel_installs_four_packages_and_nothing_else(installed):
    found = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert found == PACKAGES | {"datasets"}
    assert all((installed / package / "py.typed").is_file() for package in PACKAGES)
    assert (installed / "chronicle" / "ingest" / "log4j2.properties").is_file()


def run(installed: Path, code: str) -> subprocess.CompletedProcess[str]:
    prelude = f"import sys; sys.path.insert(0, {str(installed)!r}); "
    command = [sys.executable, "-I", "-c", prelude + code]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=installed)


def test_an_installed_chronicle_leaves_a_foreign_datasets_alone(installed):
    done = run(
        installed,
        "import datasets, chronicle, replay.console.app, pyarrow as pa; "
        "t = pa.table({'t': [1, 2]}); "
        "print(datasets.FOREIGN, chronicle.__file__, "
        "chronicle.query({'s': t}, 'SELECT t FROM s WHERE t > 1')[0])",
    )
    assert done.stderr == ""
    assert done.stdout == f"True {installed / 'chronicle' / '__init__.py'} {{'t': 2}}\n"


def test_the_demo_without_a_checkout_says_where_to_get_it(installed):
    done = run(
        installed, "sys.argv = ['chronicle', 'demo']; from replay.console.app import main; main()"
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: the demo and its data are part of Chronicle's repository")
    assert len(done.stderr.splitlines()) == 1
