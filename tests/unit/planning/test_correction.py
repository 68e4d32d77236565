"""Correction by a sample, held against what plans really touch on simulated streams."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from replay.planning.block_ranges import all_blocks, bridge, count_blocks, ranges_of
from replay.planning.correction import (
    Correction,
    Seen,
    bridged,
    correct,
    corrected_rate,
    lower_share,
    observe,
    repriced,
    runs,
    upper_share,
)
from replay.planning.sampling import draw, evaluate, sampled_attributes
from tests.unit.planning.array_streams import (
    BLOCK,
    ArrayStream,
    conditions_of,
    count_touched,
    features_of,
    gapped,
    guess,
)

N_BLOCKS = 1500
N_EVENTS = BLOCK * N_BLOCKS

Make = Callable[[np.random.Generator], ArrayStream]


def independent(a: float, b: float) -> Make:
    def make(rng: np.random.Generator) -> ArrayStream:
        return ArrayStream(
            {name: (rng.random(N_EVENTS) < p).astype(int) for name, p in (("a", a), ("b", b))}
        )

    return make


def directly_behind(share: float) -> Make:
    """Every B directly behind an A, nowhere else."""

    def make(rng: np.random.Generator) -> ArrayStream:
        a = (rng.random(N_EVENTS) < share).astype(int)
        return ArrayStream({"a": a, "b": np.append(0, a[:-1])})

    return make


def in_bursts(share: float) -> Make:
    """All A and B in some blocks, where they are frequent."""

    def make(rng: np.random.Generator) -> ArrayStream:
        hot = np.repeat(rng.permutation(N_BLOCKS) < share * N_BLOCKS, BLOCK)
        return ArrayStream(
            {name: ((rng.random(N_EVENTS) < 0.2) & hot).astype(int) for name in "ab"}
        )

    return make


def trial(
    make: Make, seed: int, factor: float, within: int, n_sampled: int = 32
) -> tuple[Correction, int]:
    """Correct an estimate that errs by a factor; return the correction and the truth."""
    stream = make(np.random.default_rng(seed))
    query = gapped("ab", within)
    shape, usable = conditions_of(query)
    truth, read = count_touched(stream, query, usable)
    sample, _ = draw(
        all_blocks(N_BLOCKS),
        stream.leaves,
        np.ones(N_BLOCKS),
        within=within,
        rows=None,
        n_blocks_max=n_sampled,
        seed=seed,
    )
    assert sample is not None
    columns = stream.sample_columns(sample.blocks, sampled_attributes(query, shape, usable))
    events = evaluate(sample, columns, usable, query, shape, stream.leaves)
    estimates = guess(truth * factor, n_blocks=N_BLOCKS)
    done = correct(events, [usable], estimates, features_of(stream), DEFAULT_PARAMETERS)
    return done, read


def errors(make: Make, factor: float, within: int = 4, n_sampled: int = 32) -> np.ndarray:
    """Return corrected blocks as multiples of the truth, of 40 trials."""
    trials = [trial(make, seed, factor, within, n_sampled) for seed in range(40)]
    return np.array([done.estimates.blocks[0] / truth for done, truth in trials])


@pytest.mark.parametrize(
    ("make", "within"),
    [
        pytest.param(independent(0.05, 0.05), 4, id="two thirds of the blocks"),
        pytest.param(independent(0.01, 0.01), 4, id="rare"),
        pytest.param(independent(0.01, 0.01), 30, id="with margins"),
        pytest.param(independent(0.002, 0.05), 30, id="one rare"),
    ],
)
def test_on_independent_data_a_right_estimate_stays_about_right(make: Make, within: int) -> None:
    found = errors(make, 1.0, within)
    assert np.median(found) == pytest.approx(1.0, abs=0.15)
    assert np.quantile(np.abs(np.log(found)), 0.8) < math.log(1.4)


@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
@pytest.mark.parametrize(
    ("make", "within", "n_sampled"),
    [
        pytest.param(directly_behind(0.05), 4, 32, id="B behind A, each on 5 %"),
        pytest.param(directly_behind(0.005), 4, 32, id="B behind A, each on 0.5 %"),
        pytest.param(directly_behind(0.005), 30, 64, id="B behind A, with margins"),
        pytest.param(independent(0.05, 0.05), 4, 32, id="independent"),
    ],
)
def test_corrected_blocks_are_within_a_factor_of_two(
    make: Make, within: int, n_sampled: int, factor: float
) -> None:
    """Three of four trials; about five or more of the sampled blocks are touched here."""
    found = errors(make, factor, within, n_sampled)
    assert 0.6 < np.median(found) < 1.6
    assert np.mean((found > 0.5) & (found < 2.0)) >= 0.75


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_bursts_are_corrected_once_the_sample_meets_them(factor: float) -> None:
    """All candidates in 2 % of the blocks: of 600 blocks about twelve are hit."""
    found = errors(in_bursts(0.02), factor, n_sampled=600)
    assert 0.6 < np.median(found) < 1.6
    assert np.mean((found > 0.5) & (found < 2.0)) >= 0.75


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_draws_that_follow_expectation_find_bursts_that_even_draws_miss(factor: float) -> None:
    """All candidates in one place of 50, which the tree tells: 64 blocks instead of 600."""
    rng = np.random.default_rng(1)
    hot = np.arange(N_BLOCKS) // 4 % 50 == 0
    frequent = np.repeat(hot, BLOCK)
    stream = ArrayStream({n: ((rng.random(N_EVENTS) < 0.2) & frequent).astype(int) for n in "ab"})
    query = gapped("ab", 4)
    shape, usable = conditions_of(query)
    truth, read = count_touched(stream, query, usable)

    def median_error(expected_cost: np.ndarray) -> float:
        found = []
        for seed in range(20):
            sample, _ = draw(
                all_blocks(N_BLOCKS),
                stream.leaves,
                expected_cost,
                within=4,
                rows=None,
                n_blocks_max=64,
                seed=seed,
            )
            assert sample is not None
            columns = stream.sample_columns(sample.blocks, ["t", "a", "b"])
            events = evaluate(sample, columns, usable, query, shape, stream.leaves)
            estimates = guess(truth * factor, n_blocks=N_BLOCKS)
            done = correct(events, [usable], estimates, features_of(stream), DEFAULT_PARAMETERS)
            found.append(abs(math.log(done.estimates.blocks[0] / read)))
        return float(np.median(found))

    informed = median_error(np.where(hot, 50.0, 1.0))
    assert informed < math.log(2)
    assert median_error(np.ones(N_BLOCKS)) > 1.2 * informed


@pytest.mark.parametrize(
    ("make", "within"),
    [
        pytest.param(independent(0.05, 0.05), 4, id="independent"),
        pytest.param(independent(0.01, 0.01), 30, id="with margins"),
        pytest.param(independent(0.003, 0.003), 100, id="long window"),
        pytest.param(directly_behind(0.005), 4, id="correlated"),
        pytest.param(in_bursts(0.02), 4, id="bursts on 2 %"),
        pytest.param(in_bursts(0.2), 4, id="bursts on 20 %"),
    ],
)
def test_the_upper_bound_holds_in_nine_of_ten_trials(make: Make, within: int) -> None:
    """Also where the estimate is twenty times too low."""
    trials = [trial(make, seed, 0.05, within) for seed in range(60)]
    assert np.mean([truth <= done.blocks_max[0] for done, truth in trials]) >= 0.9


def test_the_upper_bound_is_garwoods() -> None:
    """Garwood's 95 % limits of a Poisson count, from tables: 0: 3.00, 1: 4.74, 5: 10.51."""
    n = 1000.0
    for count, limit in ((0, 2.996), (1, 4.744), (5, 10.513)):
        share = np.array([1 - math.exp(-count / n)])
        upper = upper_share(Seen(share, np.full(1, n), n, 1.0, np.ones(1)))
        assert -n * math.log(1 - float(upper[0])) == pytest.approx(limit, rel=0.012)


def test_the_lower_bound_is_garwoods() -> None:
    """Garwood's 95 % limits of a Poisson count, from tables: 0: 0, 1: 0.051, 5: 1.970, 10: 5.43."""
    n = 1000.0
    for count, limit in ((0, 0.0), (1, 0.0513), (5, 1.970), (10, 5.425)):
        share = np.array([1 - math.exp(-count / n)])
        lower = lower_share(Seen(share, np.full(1, n), n, 1.0, np.ones(1)))
        # Wilson and Hilferty are a hundredth of a count off at one.
        assert -n * math.log(1 - float(lower[0])) == pytest.approx(limit, rel=0.012, abs=0.015)


def test_more_hits_than_expected_never_lower_the_rate() -> None:
    shares = np.linspace(0, 0.95, 20)
    for expected in (1e-9, 0.001, 0.1, 1.0, 5.0):
        seen = Seen(shares, np.full(20, 32.0), 8.0, 4.0, np.ones(20))
        rates = corrected_rate(np.full(20, expected), seen, np.ones(20))
        assert (np.diff(rates) > 0).all()


def test_what_is_seen_as_expected_changes_nothing() -> None:
    """By hand: k hits at exposure k / r and n r hits in n blocks have (k + n r) / (k / r + n) = r,
    whatever k; only the prior of no particular rate is elsewhere, and it has little weight."""
    rate = np.array([0.05, 0.3, 1.0])
    seen = Seen(-np.expm1(-rate), np.full(3, 32.0), 8.0, 4.0, np.ones(3))
    assert corrected_rate(rate, seen, np.ones(3)) == pytest.approx(rate, rel=0.02)


def test_places_that_are_touched_as_a_whole_count_as_fewer_observations() -> None:
    place = np.repeat(np.arange(8), 4)
    whole_places, scattered = np.zeros((2, 32), dtype=bool)
    whole_places[:8] = True
    scattered[::4] = True
    seen = observe(np.stack((whole_places, scattered)), np.ones(32), place)
    assert seen.share.tolist() == [0.25, 0.25]
    # Variance between places 0.25 * 0.75 / 8 * 8 / 7 against 0.25 * 0.75 / 32 of single blocks,
    # less the error that a variance of eight places has.
    assert seen.clumping[0] == pytest.approx(4 * 8 / 7 / (1 + math.sqrt(2 / 7)))
    assert seen.clumping[1] == 1.0


@pytest.mark.parametrize("share", [0.0, 0.001, 0.03, 0.2, 0.5, 0.9, 1.0])
def test_bridging_is_what_it_is_on_random_blocks(share: float) -> None:
    mask = np.random.default_rng(2).random(400_000) < share
    read = count_blocks(bridge(ranges_of(mask), 2)) / len(mask)
    expected = bridged(np.array([share]), 2)
    assert expected[0] == pytest.approx(read, abs=0.002)


@pytest.mark.parametrize("behind", [0.0, 0.2, 0.7, 0.95])
def test_bridging_is_what_it_is_on_blocks_that_are_touched_together(behind: float) -> None:
    """A chain of blocks, a tenth touched; of the touched ones so many are followed by another."""
    share, n = 0.1, 400_000
    begun = share * (1 - behind) / (1 - share)
    chances = np.random.default_rng(3).random(n)
    mask = np.zeros(n, dtype=bool)
    for i in range(1, n):
        mask[i] = chances[i] < (behind if mask[i - 1] else begun)
    read = bridge(ranges_of(mask), 2)
    expected = np.array([share]), 2, np.array([behind])
    assert bridged(*expected)[0] == pytest.approx(count_blocks(read) / n, abs=0.005)
    assert runs(*expected)[0] == pytest.approx(len(read) / n, abs=0.002)


def correction_of(plans: list[str], columns: list[str]) -> Correction:
    """Correct plans over a stream in which both are often, from a sample of some columns."""
    stream = independent(0.05, 0.05)(np.random.default_rng(0))
    query = gapped("ab", 4)
    shape, usable = conditions_of(query)
    sample, _ = draw(
        all_blocks(N_BLOCKS),
        stream.leaves,
        np.ones(N_BLOCKS),
        within=4,
        rows=None,
        n_blocks_max=32,
    )
    assert sample is not None
    events = evaluate(
        sample, stream.sample_columns(sample.blocks, columns), usable, query, shape, stream.leaves
    )
    conditions = {"A": usable[:1], "AB": usable, "": ()}
    estimates = guess(*(100.0 for _ in plans), n_blocks=N_BLOCKS)
    return correct(
        events,
        [conditions[plan] for plan in plans],
        replace(estimates, index_cost=np.full(len(plans), 0.002)),
        features_of(stream),
        DEFAULT_PARAMETERS,
    )


def test_plans_that_the_sample_does_not_tell_keep_their_estimate() -> None:
    done = correction_of(["", "A", "AB"], ["t", "a"])
    before = guess(100.0, n_blocks=N_BLOCKS)
    assert done.is_told.tolist() == [False, True, False]
    for told in (0, 2):
        assert done.estimates.blocks[told] == pytest.approx(before.blocks[0])
        assert done.estimates.cost[told] == pytest.approx(before.cost[0])
        assert done.estimates.alpha[told] == before.alpha[0]
        assert done.sentence(told) is None
    # The tree plan reads what it reads; of the other one nothing is known but what remains.
    assert done.pessimistic_cost[0] == pytest.approx(before.cost[0])
    assert done.blocks_max.tolist() == [math.ceil(before.blocks[0]), N_BLOCKS, N_BLOCKS]


def test_more_blocks_cost_more_and_candidates_and_alpha_follow() -> None:
    """100 blocks expected where A is on almost all blocks (1 - 0.95**64 = 0.96)."""
    done = correction_of(["A"], ["t", "a"])
    assert done.estimates.blocks[0] > 1300
    assert done.estimates.cost[0] > 0.01
    assert done.pessimistic_cost[0] >= done.estimates.cost[0]
    assert done.estimates.alpha[0] > 100 / N_BLOCKS
    assert done.estimates.index_cost[0] == 0.002


def test_rows_of_more_blocks_are_matched_as_far_as_they_lie_in_intervals() -> None:
    """By hand: 100 blocks of 64 rows hold intervals of 200 rows; then of 300, 600 rows. Reading
    takes 1 s a block and 0.25 s an event and column, two predicates 10 s each an event matched."""
    given = features_of(ArrayStream({"a": np.zeros(N_EVENTS, dtype=int)}))
    weights = CostParameters(1.0, 0.25, 10.0, 0.0, 0.0, 0.0, 0.0)
    was = guess(100.0, n_blocks=N_BLOCKS)
    was = replace(was, blocks=was.touched, stretches=was.touched, alpha=np.array([200 / N_EVENTS]))
    now = replace(was, blocks=was.blocks * 3, touched=was.touched * 3)
    read = 200 * (1.0 + 2 * 0.25 * BLOCK)
    for cuts_rows, matched in ((True, 400), (False, 200 * BLOCK)):
        cost = repriced(now, was, N_BLOCKS, replace(given, cuts_rows=cuts_rows), weights).cost
        assert cost[0] - was.cost[0] == pytest.approx(read + matched * 2 * 10.0)


def test_candidates_follow_the_blocks_but_those_of_one_lookup_are_known() -> None:
    done = correction_of(["A", "AB"], ["t", "a", "b"])
    assert done.estimates.candidates[0] == 100
    assert done.estimates.candidates[1] > 100


def test_the_sentence_says_sample_expectation_and_find() -> None:
    done = correction_of(["A"], ["t", "a"])
    found = round(float(done.found[0]))
    # 100 blocks touched of 1500, and 18 between them by hand: s = 1/15, s^2 (q + 2 q^2) * 1500.
    assert done.sentence(0) == (
        f"from 32 of 1,500 blocks: of 32 judged, {done.expected[0]:.1f} expected in intervals, "
        f"{found}.0 found; 118 blocks corrected to {done.estimates.blocks[0]:,.0f}, at most "
        f"{done.blocks_max[0]:,.0f} (95 %)"
    )
    assert done.expected[0] == pytest.approx(32 * 100 / 1500)
    assert found >= 25
