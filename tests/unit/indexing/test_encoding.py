"""Encodings follow from what repeats; times survive their scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indexing.encoding import (
    Encoding,
    Repetition,
    TimeScale,
    choose_key_encoding,
    choose_layout,
    choose_object_encoding,
)
from indexing.keys import KeyKind

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def restored(scale: TimeScale, steps: np.ndarray) -> list[int]:
    """Undo a scale with Python's numbers, which know no overflow but the one made here."""
    times = [scale.offset + scale.divisor * step for step in steps.tolist()]
    return [(t + (1 << 63)) % (1 << 64) - (1 << 63) for t in times]


@given(st.lists(INT64))
@example([-(1 << 63), (1 << 63) - 1])
@example([5] * 3)
@example([0, 1, *(1_000 * i for i in range(2, 600))])  # the 1 is in no sample
def test_any_times_are_restored_from_their_steps(times: list[int]) -> None:
    array = np.array(times, dtype=np.int64)
    scale = TimeScale.of(array)
    assert restored(scale, scale.to_steps(array)) == times


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=900), st.integers(1, 10_000), INT64)
def test_divisor_is_the_greatest_that_divides_all_times_less_the_first(
    steps: list[int], unit: int, first: int
) -> None:
    times = [min(max(first, -(1 << 62)), 1 << 62) + unit * step for step in steps]
    scale = TimeScale.of(np.array(times, dtype=np.int64))
    greatest = math.gcd(*(t - min(times) for t in times))
    assert scale == TimeScale(min(times), greatest)


def test_one_time_that_no_sample_holds_makes_the_divisor_smaller() -> None:
    times = np.arange(600) * 1_000
    times[1] = 400
    assert TimeScale.of(times) == TimeScale(0, 200)


def test_milliseconds_in_microseconds_are_stored_as_milliseconds() -> None:
    scale = TimeScale.of(np.array([1_700_000_000_054_000, 1_700_000_000_151_000]))
    assert scale == TimeScale(1_700_000_000_054_000, 97_000)
    assert TimeScale.of(np.array([7_000, 9_000, 12_000])) == TimeScale(7_000, 1_000)


@given(st.lists(st.lists(st.integers(-1000, 1000), min_size=1, max_size=9), min_size=1, max_size=4))
def test_merged_scale_is_that_of_all_times(parts: list[list[int]]) -> None:
    arrays = [np.array(part) * 10 for part in parts]
    merged = TimeScale.merged([TimeScale.of(array) for array in arrays])
    assert merged == TimeScale.of(np.concatenate(arrays))


@pytest.mark.parametrize(
    ("kind", "share", "encoding"),
    [
        pytest.param(KeyKind.INTEGER, 0.001, Encoding.DELTA, id="integers"),
        pytest.param(KeyKind.STRING, 1.0, Encoding.DICTIONARY, id="strings"),
        pytest.param(KeyKind.DOUBLE, 0.01, Encoding.DICTIONARY, id="prices"),
        pytest.param(KeyKind.DOUBLE, 1.0, Encoding.PLAIN, id="measurements"),
    ],
)
def test_doubles_get_a_dictionary_where_they_repeat(
    kind: KeyKind, share: float, encoding: Encoding
) -> None:
    assert choose_key_encoding(kind, Repetition(key_share=share)) is encoding


@pytest.mark.parametrize(
    ("share", "high", "encoding"),
    [
        # Bits an entry: a dictionary takes 64 * share for its numbers and some for the codes,
        # differences one more than the range has.
        pytest.param(4 / 4096, 1 << 60, Encoding.DICTIONARY, id="few-large-numbers"),  # 3.1, 62
        pytest.param(4 / 4096, 3, Encoding.DELTA, id="few-small-numbers"),  # 3.1, 3
        pytest.param(0.98, 100_000, Encoding.DELTA, id="many-numbers"),  # 75, 18
        pytest.param(0.98, 1 << 62, Encoding.DELTA, id="many-large-numbers"),  # 75, 64
        pytest.param(0.5, 1 << 62, Encoding.DICTIONARY, id="half-of-large-numbers"),  # 44, 64
    ],
)
def test_objects_are_encoded_in_fewer_bits(share: float, high: int, encoding: Encoding) -> None:
    repetition = Repetition(object_share=share, object_high=high)
    assert choose_object_encoding(KeyKind.INTEGER, repetition) is encoding
    assert choose_object_encoding(KeyKind.STRING, repetition) is Encoding.DICTIONARY


def test_merged_repetition_weighs_by_entries_and_leaves_empty_runs_out() -> None:
    merged = Repetition.merged(
        [
            (Repetition(0.5, 0.25, -3, 4), 300),
            (Repetition(0.1, 0.05, 7, 900), 100),
            (Repetition(1.0, 1.0, -(1 << 60), 1 << 60), 0),
        ]
    )
    assert merged.key_share == pytest.approx(0.4)  # (0.5 * 300 + 0.1 * 100) / 400
    assert merged.object_share == pytest.approx(0.2)
    assert (merged.object_low, merged.object_high) == (-3, 900)
    assert Repetition.merged([(Repetition(), 0)]) == Repetition(0.0, 0.0)


def test_columns_of_a_run_with_objects() -> None:
    layout = choose_layout(
        "x",
        KeyKind.DOUBLE,
        object_kind=KeyKind.STRING,
        scale=TimeScale(),
        repetition=Repetition(key_share=0.0),
    )
    assert list(layout.encodings.items()) == [
        ("key", Encoding.DICTIONARY),
        ("t", Encoding.DELTA),
        ("position", Encoding.DELTA),
        ("object", Encoding.DICTIONARY),
    ]
    assert layout.schema.names == ["key", "t", "position", "object"]
    assert [f.nullable for f in layout.schema] == [False, False, False, True]
