"""Jobs over JSON text, run on threads."""

from __future__ import annotations

import threading

import pytest

from chronicle.jobs import run_locally


def double(task: str) -> str:
    return str(2 * int(task))


def test_results_come_in_the_order_of_the_tasks() -> None:
    tasks = [str(i) for i in range(20)]
    assert run_locally(double, tasks) == [str(2 * i) for i in range(20)]
    assert run_locally(double, ["3"]) == ["6"]
    assert run_locally(double, []) == []


def test_jobs_run_at_once_where_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    both = threading.Barrier(2, timeout=30)  # breaks, and fails the job, if one runs alone
    assert run_locally(lambda task: str(both.wait() >= 0), ["a", "b"]) == ["True", "True"]


def test_a_failure_is_raised_and_what_was_not_started_is_given_up(
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
