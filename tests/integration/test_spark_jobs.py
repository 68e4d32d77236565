"""Jobs run on threads and on Spark alike."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from chronicle.errors import SchemaError, StorageError
from chronicle.ingest.jobs import open_runner, spark_runner
from chronicle.jobs import run_locally


def double(task: str) -> str:
    return task + task


def refuse(task: str) -> str:
    if task == "b":
        raise SchemaError("column 'b' does not fit; rename it")
    return task


def fail(task: str) -> str:
    raise OSError(28, "No space left on device", task)


def blunder(task: str) -> str:
    return task[7]


@pytest.fixture(params=["threads", pytest.param("Spark", marks=pytest.mark.spark)])
def run(request: pytest.FixtureRequest) -> Any:
    """Lend what runs jobs."""
    is_local = request.param == "threads"
    return run_locally if is_local else spark_runner(request.getfixturevalue("spark"))


def test_results_come_in_the_order_of_the_tasks(run: Any) -> None:
    for n in (20, 1, 0):
        assert run(double, [f"ü{i}" for i in range(n)]) == [f"ü{i}ü{i}" for i in range(n)]


def test_stated_failures_reach_the_caller_as_what_they_are(run: Any) -> None:
    with pytest.raises(SchemaError, match=r"^column 'b' does not fit; rename it$"):
        run(refuse, ["a", "b"])
    with pytest.raises((StorageError, OSError), match=r"No space left on device: 'a'"):
        run(fail, ["a"])


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_runner_is_lent_from_the_spark_that_runs_and_states_other_failures() -> None:
    for task in ("a", "b"):
        with open_runner() as run:
            assert run(double, [task]) == [task + task]
    with (
        open_runner() as run,
        pytest.raises(StorageError, match=r"Spark could not run 1 job .*nothing was committed"),
    ):
        run(blunder, ["a"])


def test_threads_run_at_once_where_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    both = threading.Barrier(2, timeout=30)  # breaks, and fails the job, if one runs alone
    assert run_locally(lambda task: str(both.wait() >= 0), ["a", "b"]) == ["True", "True"]


def test_threads_give_up_what_was_not_started_when_a_job_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    failed = threading.Event()
    ran: list[str] = []

    def job(task: str) -> str:
        ran.append(task)
        if task == "0":
            failed.set()
            raise ValueError("no such file")
        assert failed.wait(30)
        return task

    with pytest.raises(ValueError, match="no such file"):
        run_locally(job, [str(i) for i in range(1000)])
    assert len(ran) < 1000
