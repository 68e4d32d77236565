"""Auto-tuning of the thesis, (5.7) to (5.13), against values computed by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

import replay
from costmodel.tuning import (
    Load,
    Tuning,
    batch_size,
    is_skewed,
    processing_time,
    syncing_time,
    threads_needed,
    threads_wait,
    tuned,
)

# In turn: 13 ms grow with the batch, 2 ms do not; of the turn's 3 ms 1 ms grows.
IN_TURN = Load(100_000.0, 256, 0.020, waiting=0.005, syncing=0.003, buffering=0.001)


@pytest.mark.parametrize(
    ("rate", "batch_rate", "size"),
    [
        (100_000.0, 1_000.0, 128),  # 781 a second; of 64 it were 1,562
        (1_000_000.0, 1_000.0, 1_024),  # 977
        (9_600.0, 225.0, 32),  # 300 and 150 are as near: the smaller one
        (10.0, 1_000.0, 32),
        (0.0, 1_000.0, 32),
        (1e9, 1_000.0, 32_768),
    ],
)
def test_batches_are_about_as_many_a_second_as_wanted(
    rate: float, batch_rate: float, size: int
) -> None:
    assert batch_size(rate, batch_rate) == size


def test_threads_are_those_the_load_needs_and_a_fifth_more() -> None:
    load = Load(1_000_000.0, 512, 0.001)
    assert processing_time(load, 1_024) == pytest.approx(0.002)
    assert threads_needed(load, 1_024, 8) == 3  # 977 batches of 2 ms keep 1.95 busy, 2.34 with more
    assert threads_needed(load, 1_024, 2) == 2
    assert threads_needed(load._replace(rate=0.0), 32, 8) == 1


def test_of_a_turn_only_the_buffers_grow_with_the_batch() -> None:
    assert processing_time(IN_TURN, 256) == pytest.approx(0.015)  # what was waited is left out
    assert processing_time(IN_TURN, 512) == pytest.approx(0.028)
    assert processing_time(IN_TURN, 1_024) == pytest.approx(0.054)
    assert syncing_time(IN_TURN, 256) == pytest.approx(0.003)
    assert syncing_time(IN_TURN, 512) == pytest.approx(0.004)
    assert syncing_time(IN_TURN, 1_024) == pytest.approx(0.006)


def test_batches_grow_until_threads_hardly_wait_for_each_other() -> None:
    assert not threads_wait(IN_TURN, 512, 4)  # 28 over 4 is 7, at least 6
    assert threads_wait(IN_TURN, 512, 5)  # but not 8
    assert not threads_wait(IN_TURN, 1_024, 5)  # 54 over 6 is 9
    assert not threads_wait(IN_TURN, 32, 1)
    # 195 batches of 512 keep 5.5 busy, 6.6 with a fifth more: of 5 there is place, 1,024 will do.
    assert tuned(IN_TURN, 200.0, 5) == Tuning(1_024, 5)
    # The quotient comes near 13, never to 14.
    assert tuned(IN_TURN._replace(rate=200_000.0), 400.0, 8) == Tuning(32_768, 8)


def test_keys_should_move_where_a_thread_has_a_tenth_too_much() -> None:
    # The thesis' four partitions, a million events a second or a thousand, dealt out in turn.
    assert is_skewed([2_000_000, 2_000])
    assert not is_skewed([1_001_000, 1_001_000])
    assert is_skewed([110, 90])
    assert not is_skewed([109, 91])
    assert not is_skewed([5])


def test_both_follow_a_load_that_rises_and_falls_and_the_answer_does_not() -> None:
    rates = [2_000, 2_000, 20_000, 80_000, 80_000, 20_000, 2_000, 2_000]  # a second each
    n = sum(rates)
    on = [t % 1_000 < 300 for t in range(n)]
    events = pa.table({"t": range(n), "k": [t % 7 for t in range(n)], "on": on})
    sql = (
        'FROM s PARTITION BY k DEFINE A AS "on" AT LEAST 250, B AS NOT "on" PATTERN A meets B '
        "WITHIN 900"
    )
    flow, found, at = replay.online(sql, events.schema, time="t"), [], 0
    seen, now = [], Tuning(32, 1)
    for rate in rates:
        stop = at + rate
        pieces = [range(stop)[first : first + now.batch] for first in range(at, stop, now.batch)]
        found += [flow.push(events.slice(piece.start, len(piece))) for piece in pieces]
        at = stop
        took = 0.0004 + 0.00003 * now.batch  # on a machine that is thought up
        now = tuned(Load(rate, now.batch, took), 100.0, 4)
        seen.append(now)
    found.append(flow.finish())
    assert [one.batch for one in seen] == [32, 32, 256, 1_024, 1_024, 256, 32, 32]
    # 20,000 come while batches are 32, which take 1.36 ms: 78 of 10.88 ms and a fifth are 1.02.
    # 80,000 come while they are 256, 8.08 ms: 78 of 32.32 ms are 3.03, then of 31.12 ms 2.92.
    assert [one.n_threads for one in seen] == [1, 1, 2, 4, 3, 1, 1, 1]
    answer = replay.query({"s": events}, sql.replace("DEFINE", "ORDER BY t DEFINE")).table
    assert answer.num_rows > 1_000
    assert pa.concat_tables(found).equals(answer)
