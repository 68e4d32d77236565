"""The thesis' synthetic stream: times, ranges, distributions, and the same bytes for a seed."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import synthetic


def table(n_events: int, seed: int = synthetic.SEED) -> pa.Table:
    return pa.Table.from_batches(synthetic.generate(n_events, seed=seed))


def test_event_i_is_at_time_i_from_1_to_n():
    assert table(1000)["t"].to_pylist() == list(range(1, 1001))


def test_sigma_zero_gives_the_mean_and_the_last_value_stays_below_one():
    assert table(4)["A1"].to_pylist() == [0.25, 0.5, 0.75, synthetic.LARGEST_BELOW_ONE]


@pytest.mark.parametrize("name", list(synthetic.SIGMAS))
def test_values_lie_in_the_unit_interval_also_across_chunks(name):
    values = table(synthetic.CHUNK_EVENTS + 7)[name].to_numpy()
    assert values.size == synthetic.CHUNK_EVENTS + 7
    assert values.min() >= 0
    assert values.max() < 1


def truncated_mean(mean: float, sigma: float) -> float:
    """Mean of a normal distribution cut to [0, 1), by summing the density over a fine grid."""
    grid = (np.arange(200_000) + 0.5) / 200_000
    density = np.exp(-0.5 * ((grid - mean) / sigma) ** 2)
    return float((grid * density).sum() / density.sum())


@pytest.mark.parametrize("mean", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sigma", [0.001, 0.01, 0.1, 1.0])
def test_redrawn_values_follow_the_truncated_normal(mean, sigma):
    n = 40_000
    values = synthetic.draw_attribute(np.full(n, mean), sigma, np.random.default_rng(7))
    # A truncated normal spreads less than sigma and less than a uniform distribution over [0, 1).
    standard_error = min(sigma, 12**-0.5) / n**0.5
    assert abs(values.mean() - truncated_mean(mean, sigma)) < 5 * standard_error


@pytest.mark.parametrize(("name", "sigma"), list(synthetic.SIGMAS.items())[1:3])
def test_narrow_attributes_follow_time(name, sigma):
    n = 50_000
    events = table(n)
    inner = slice(n // 10, -n // 10)  # away from the rims, where values are redrawn
    noise = (events[name].to_numpy() - events["t"].to_numpy() / n)[inner]
    assert noise.std() == pytest.approx(sigma, rel=0.03)
    assert abs(noise.mean()) < 5 * sigma / noise.size**0.5


def test_attributes_of_one_event_are_independent():
    events = table(50_000)
    time = events["t"].to_numpy() / 50_000
    noise = [events[name].to_numpy() - time for name in ("A2", "A3")]
    assert abs(np.corrcoef(noise)[0, 1]) < 0.03


@given(seed=st.integers(0, 2**63 - 1), n_events=st.integers(1, 300))
def test_same_seed_gives_the_same_events(seed, n_events):
    assert table(n_events, seed).equals(table(n_events, seed))


def test_other_seed_gives_other_events():
    assert not table(100, 1)["A5"].equals(table(100, 2)["A5"])


def test_chunks_do_not_repeat_each_other():
    values = table(2 * synthetic.CHUNK_EVENTS)["A5"].to_numpy()
    first, second = np.split(values, 2)
    assert np.intersect1d(first, second).size < 10


def test_file_holds_the_stream_in_row_groups_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "ROW_GROUP_EVENTS", 2 * synthetic.CHUNK_EVENTS)
    n_events = 3 * synthetic.CHUNK_EVENTS + 5
    destination = tmp_path / "folder" / "s.parquet"
    synthetic.write_parquet(destination, n_events)

    metadata = pq.read_metadata(destination)
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sizes == [2 * synthetic.CHUNK_EVENTS, synthetic.CHUNK_EVENTS + 5]
    assert pq.read_table(destination).equals(table(n_events))
    assert [path.name for path in destination.parent.iterdir()] == ["s.parquet"]


def test_command_line_writes_equal_files_for_equal_seeds(tmp_path, capsys):
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for file in files:
        assert synthetic.main(["--events", "1000", "--out", str(file), "--seed", "5"]) == 0
    assert "1,000 events" in capsys.readouterr().out
    assert len({hashlib.sha256(file.read_bytes()).digest() for file in files}) == 1


@pytest.mark.parametrize("wrong", [["--events", "0"], ["--events", "1", "--seed", "-1"], []])
def test_wrong_usage_exits_2_and_writes_nothing(tmp_path, wrong):
    with pytest.raises(SystemExit) as stop:
        synthetic.main([*wrong, "--out", str(tmp_path / "s.parquet")])
    assert stop.value.code == 2
    assert not list(tmp_path.iterdir())


def test_empty_stream_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one event"):
        synthetic.write_parquet(tmp_path / "s.parquet", 0)
