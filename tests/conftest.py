"""Hypothesis profiles, the one Spark session of the test run, and time that no machine tells."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from chronicle.compiled import compile_at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from chronicle import Store

# The laws of `tests.property.law` take more.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=3000, deadline=None, print_blob=True)
settings.register_profile("fuzz", max_examples=20_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

compile_at_once()  # `make test-nojit` runs kernels as plain Python

# Thousands of small commits: the tests that are about power failures turn flushing on again.
os.environ.setdefault("CHRONICLE_SYNC", "off")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Lend Spark on two cores; ``ingest`` uses it because it is running."""
    from chronicle.ingest.session import open_spark

    log_file = tmp_path_factory.mktemp("spark") / "spark.log"
    with open_spark("local[2]", log_file=log_file, is_small=True) as lease:
        yield lease.spark


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Make an empty store."""
    from chronicle import create_store

    return create_store(tmp_path / "store")


@pytest.fixture
def made_up_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calibration find that whatever it times takes a millisecond, which it passes itself."""
    from replay.calibration.timing import Meter

    looks = itertools.count()

    def meter(*, n_cores: int) -> Meter:
        return Meter(lambda: next(looks) / 1000, lambda: 0.0, dict, n_cores)

    monkeypatch.setattr("replay.calibration.measure.Meter", meter)
    monkeypatch.setattr("replay.calibration.sample.Meter", meter)
