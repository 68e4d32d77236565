"""Jobs over JSON text run on Spark as they do on threads."""

from __future__ import annotations

from typing import Any

import pytest

from chronicle.errors import SchemaError, StorageError
from chronicle.ingest.jobs import open_runner, spark_runner
from chronicle.jobs import run_locally

pytestmark = pytest.mark.spark


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


def test_results_come_in_the_order_of_the_tasks(spark: Any) -> None:
    tasks = [f"ü{i}" for i in range(9)]
    assert spark_runner(spark)(double, tasks) == run_locally(double, tasks)


def test_no_task_is_no_work(spark: Any) -> None:
    assert spark_runner(spark)(double, []) == []


def test_stated_failures_reach_the_caller_as_what_they_are(spark: Any) -> None:
    run = spark_runner(spark)
    with pytest.raises(SchemaError, match=r"^column 'b' does not fit; rename it$"):
        run(refuse, ["a", "b"])
    with pytest.raises(StorageError, match=r"No space left on device: 'a'"):
        run(fail, ["a"])


def test_other_failures_are_a_sentence(spark: Any) -> None:
    with pytest.raises(StorageError, match=r"Spark could not run 1 job .*nothing was committed"):
        spark_runner(spark)(blunder, ["a"])


@pytest.mark.usefixtures("spark")
def test_runner_is_lent_from_the_spark_that_runs() -> None:
    with open_runner() as run:
        assert run(double, ["a"]) == ["aa"]
    with open_runner() as run:
        assert run(double, ["b"]) == ["bb"]
