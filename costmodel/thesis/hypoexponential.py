"""Hypoexponential distribution: the sum of independent exponential times, one per stage.

Every number below comes from one matrix exponential whose entries are all non-negative, so nothing
cancels, and small probabilities are as accurate as large ones. Let ``z_i = rate_i * x``. The chain
that leaves stage i at rate ``z_i`` has the bidiagonal generator A with ``-z_i`` on the diagonal and
``z_i`` beside it; the first row of ``exp(A)`` holds the probability of being in each stage, and
of having left them all, at time x. ``exp(A)`` is a short step squared again and again:

- *The short step* ``exp(A / 2**k)`` is so short that its entries, divided differences of the
  exponential [1]_, have a closed form: product of the rates, over d!, times the mean of exp over
  a simplex whose corners lie within 2**-12 of each other.
- *Squaring* adds products of non-negative numbers: the entry at distance d from the diagonal gets
  the errors of two entries whose distances add up to d, so errors grow like the number of
  squarings. Only on the diagonal would they double each time, and the diagonal is known: it is
  replaced by ``exp(-z_i / 2**j)`` after each squaring [2]_. The relative error is at most
  ``n * (k * (n + 2) * 2**-53 + 2e-14)`` for n stages, below 4e-11 at the limits of this module;
  tests see less than 1e-13 in cdf and sf, most of it from rounding a ``z_i`` of some hundreds.
- *Range*: where the slowest stage decays, all decay at least as fast, so its decay is taken out in
  front. What stands beside the diagonal may be scaled at will: there ``z_i`` is replaced by the
  next power of two, or that of n where stages are slow, and their ratio is multiplied in at the
  end, mantissas first. So no intermediate underflows where the result does not.

The textbook closed form (sums of ``exp(-z_i)`` over products of differences of rates) has terms of
both signs: it loses all digits for nearly equal rates, and in the left tail for any.

References
----------
.. [1] A. McCurdy, K. C. Ng, B. N. Parlett, Accurate computation of divided differences of the
   exponential function, Math. Comp. 43 (1984), 501-528.
.. [2] J. Xue, Q. Ye, Computing exponentials of essentially non-negative matrices entrywise to high
   relative accuracy, Math. Comp. 82 (2013), 1577-1596.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from costmodel.arrays import FloatArray

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int32]]

N_STAGES_MAX = 64
"""Stages of one sum: the error bound and the ranges above are worked out for so many."""

_SHORT = 2.0**-12
"""Widest spread of decays in a short step: its closed form is off by at most 2e-14 per stage."""

_DECAYS_MAX = 2000.0
"""Where the slowest stage has decayed so often, at most exp(-2000) * 2000**63 / 63! < 1e-700 of the
sum's probability is left: in double precision sf is 0 there and cdf is 1."""

_Z_MAX = 2.0**64
"""A stage so fast changes results by less than 2000 / 2**64 of themselves: faster is the same."""

_MATRIX_ELEMENTS_MAX = 1 << 17
"""Elements of the matrices held at once (1 MiB): they stay in the processor's cache."""

_HALVINGS = np.ldexp(1.0, -np.arange(128))
"""Powers of 1/2, more than the 2 + 64 + 12 squarings that ``_Z_MAX`` may take."""

_FACTORIALS = np.array([float(math.factorial(d)) for d in range(N_STAGES_MAX + 2)])
_DISTANCE = np.subtract.outer(-np.arange(N_STAGES_MAX + 2), -np.arange(N_STAGES_MAX + 2))
_UPPER = (_DISTANCE >= 0).astype(np.float64)
_DISTANCE = np.maximum(_DISTANCE, 0)
_INVERSE_COUNT = _UPPER / (_DISTANCE + 1)
_HALF_INVERSE_COUNT = _UPPER / (2 * _DISTANCE + 4)
_INVERSE_FACTORIAL = _UPPER / _FACTORIALS[_DISTANCE]
"""Of the entry's distance to the diagonal; 0 below the diagonal, where the step is 0."""


@overload
def cdf(x: float, rates: ArrayLike) -> float: ...
@overload
def cdf(x: FloatArray, rates: ArrayLike) -> FloatArray: ...
def cdf(x: float | FloatArray, rates: ArrayLike) -> float | FloatArray:
    """Return the probability that the sum of exponential times is at most ``x``.

    Pure. O(n**3 log z) per element for n stages, z the fastest stage's rate times ``x``.

    Parameters
    ----------
    x
        A number or an array of any shape, in the unit of ``1 / rates``; may be infinite. Negative
        numbers give 0, NaN gives NaN.
    rates
        Rates of the stages, shape (n,), ``0 <= n <= 64``, in any order, equal ones included.
        Without stages the sum is 0.

    Returns
    -------
    float or ndarray of float64
        A float for a number, else an array of the shape of ``x``. From 0 to 1, with a *relative*
        error below 1e-10 wherever it is at least 1e-300.

    Raises
    ------
    ValueError
        If ``rates`` is not one-dimensional, has more than 64 stages, or holds a number that is
        not finite and positive.

    Notes
    -----
    ``P(X < w)`` of thesis (3.6), where ``rates`` are the arrival rates of the basic blocks after
    the first selected one. Matches may last exactly ``w``, but X is continuous: ``<`` and ``<=``
    are one. Counted from the rarest block, as ``docs/planning.md`` ("Estimates") has it, ``rates``
    are those of all other selected blocks.

    Examples
    --------
    >>> cdf(1.0, [1.0])
    0.6321205588285577
    """
    stages = _checked(rates)
    return _evaluate(x, stages, _cdf, at_zero=0.0 if stages.size else 1.0, at_infinity=1.0)


@overload
def sf(x: float, rates: ArrayLike) -> float: ...
@overload
def sf(x: FloatArray, rates: ArrayLike) -> FloatArray: ...
def sf(x: float | FloatArray, rates: ArrayLike) -> float | FloatArray:
    """Return the probability that the sum of exponential times is greater than ``x``.

    The complement of `cdf`, with a relative error of its own below 1e-10 wherever it is at least
    1e-300. Parameters, shapes and errors are those of `cdf`; a negative ``x`` gives 1.

    Examples
    --------
    >>> round(sf(600.0, [1.0, 2.0]) / math.exp(-600.0), 9)  # 1 - cdf would be 0
    2.0
    """
    stages = _checked(rates)
    return _evaluate(
        x, stages, _sf, at_zero=1.0 if stages.size else 0.0, at_infinity=0.0, below_zero=1.0
    )


@overload
def truncated_mean(x: float, rates: ArrayLike) -> float: ...
@overload
def truncated_mean(x: FloatArray, rates: ArrayLike) -> FloatArray: ...
def truncated_mean(x: float | FloatArray, rates: ArrayLike) -> float | FloatArray:
    """Return the mean of the sum of exponential times, given that it is at most ``x``.

    Parameters, shapes and errors are those of `cdf`. The mean is in the unit of ``x``; for 0 it is
    its limit, 0; for negative numbers, which the sum is never below, NaN. Relative error below
    1e-10 for every positive ``x``, however small the probability of what is given.

    Notes
    -----
    ``E(X | X < w)`` of thesis (3.7). What the thesis makes of it by ``extend`` is corrected in
    ``docs/planning.md`` ("Estimates"); (3.7) itself is taken as printed.

    Examples
    --------
    >>> round(truncated_mean(1e-9, [1.0, 2.0, 3.0]) / 1e-9, 6)  # early on, n / (n + 1)
    0.75
    """
    stages = _checked(rates)
    return _evaluate(
        x, stages, _truncated_mean, at_zero=0.0, at_infinity=mean(rates), below_zero=math.nan
    )


def mean(rates: ArrayLike) -> float:
    """Return the mean of the sum of exponential times: the sum of ``1 / rates``.

    Raises
    ------
    ValueError
        As `cdf` does.
    """
    return math.fsum(1.0 / rate for rate in _checked(rates).tolist())


def variance(rates: ArrayLike) -> float:
    """Return the variance of the sum of exponential times: the sum of ``1 / rates**2``.

    Raises
    ------
    ValueError
        As `cdf` does.
    """
    return math.fsum((1.0 / rate) * (1.0 / rate) for rate in _checked(rates).tolist())


def _checked(rates: ArrayLike) -> FloatArray:
    """Return the rates in ascending order: results must not depend on the order given."""
    stages = np.array(rates, dtype=np.float64)
    if stages.ndim != 1:
        raise ValueError(f"rates has shape {stages.shape}; give one rate per stage, shape (n,)")
    if stages.size > N_STAGES_MAX:
        raise ValueError(f"rates has {stages.size} stages; at most {N_STAGES_MAX} are supported")
    for index, rate in enumerate(stages.tolist()):
        if not 0.0 < rate < math.inf:
            raise ValueError(f"rates[{index}] is {rate}; a rate is finite and positive")
    stages.sort()
    return stages


def _evaluate(
    x: float | FloatArray,
    stages: FloatArray,
    inside: Callable[[float | FloatArray, FloatArray], FloatArray],
    *,
    at_zero: float,
    at_infinity: float,
    below_zero: float = 0.0,
) -> float | FloatArray:
    """Apply ``inside`` to what is positive and finite in ``x``; the rest is known.

    ``inside`` takes a number or a column, shape (n_x, 1), so that a plain product with the stages
    does for both, and returns one number for each.
    """
    times = np.asarray(x, dtype=np.float64)
    slowest = float(stages[0]) if stages.size else math.inf
    limit = min(_DECAYS_MAX / slowest, sys.float_info.max)
    if times.ndim == 0:
        time = float(times)
        if 0.0 < time < math.inf and stages.size:
            return float(inside(min(time, limit), stages))
        if time == 0.0:
            return at_zero
        return time if math.isnan(time) else below_zero if time < 0.0 else at_infinity
    result = np.where(times > 0, at_infinity, np.where(times < 0, below_zero, at_zero))
    result[np.isnan(times)] = math.nan
    if stages.size:
        positive = (times > 0) & (times < math.inf)
        column = np.minimum(times[positive], limit)[:, None]
        n_at_once = max(1, _MATRIX_ELEMENTS_MAX // (stages.size + 2) ** 2)
        starts = range(0, len(column), n_at_once)
        pieces = [inside(column[start : start + n_at_once], stages) for start in starts]
        result[positive] = np.concatenate([np.zeros(0), *pieces])
    return result


def _decays(x: float | FloatArray, stages: FloatArray) -> FloatArray:
    """Return each stage's rate times x, shape (n,) or (n_x, n)."""
    with np.errstate(over="ignore"):  # infinitely fast is as fast as _Z_MAX
        z = x * stages
    return np.minimum(z, _Z_MAX, out=z)


def _cdf(x: float | FloatArray, stages: FloatArray) -> FloatArray:
    """Return cdf for finite positive x: the probability of having left the last stage."""
    z = _decays(x, stages)
    mantissas, shifts, exponents = _scaled(z)
    left_all = _first_row(_with_zeros(z, 1), exponents)[..., -1]
    left_all = left_all * np.multiply.reduce(mantissas, axis=-1)
    # Rounding may pass 1 by some units in the last place; a probability must not.
    return np.asarray(np.minimum(np.ldexp(left_all, np.add.reduce(shifts, axis=-1)), 1.0))


def _sf(x: float | FloatArray, stages: FloatArray) -> FloatArray:
    """Return sf for finite positive x: the probability of being in any stage."""
    z = _decays(x, stages)
    total = np.add.reduce(_in_stages(z), axis=-1)
    # In two factors: total may reach 1e120 where exp(-slowest) alone would be 0.
    half = np.exp(-0.5 * z[..., 0])
    return np.asarray(np.minimum(half * total * half, 1.0))


def _in_stages(z: FloatArray) -> FloatArray:
    """Return the probabilities of being in each stage, times exp(slowest), shape of z."""
    mantissas, shifts, exponents = _scaled(z)
    row = _first_row(z - z[..., :1], exponents[..., :-1])
    ratios = np.multiply.accumulate(mantissas[..., :-1], axis=-1)
    row[..., 1:] *= np.ldexp(ratios, np.add.accumulate(shifts[..., :-1], axis=-1))
    return row


def _truncated_mean(x: float | FloatArray, stages: FloatArray) -> FloatArray:
    """Return ``x - I / cdf(x)`` for finite positive x, I the integral of cdf up to x.

    I / x is what one more state holds if it is filled from the last one at rate 1; what was
    scaled away is the same in I and in cdf. The one difference in this module: what is left of x
    is at least 1/2000 of it, as x is limited by ``_DECAYS_MAX``, so at most four of fourteen digits
    are lost, and those only where x is thousands of means.
    """
    z = _decays(x, stages)
    exponents = _scaled(z)[2]
    last = np.zeros((*exponents.shape[:-1], 1), dtype=np.int32)
    row = _first_row(_with_zeros(z, 2), np.concatenate([exponents, last], axis=-1))
    times = x if isinstance(x, float) else x[:, 0]
    return np.asarray(times * (1.0 - row[..., -1] / row[..., -2]))


def _with_zeros(z: FloatArray, n_states: int) -> FloatArray:
    """Append states that are never left."""
    padded = np.zeros((*z.shape[:-1], z.shape[-1] + n_states))
    padded[..., :-n_states] = z
    return padded


def _scaled(z: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return z as ``mantissa * 2**shift * 2**exponent``, the last power not below z nor n."""
    mantissas, powers = np.frexp(z)
    exponents = np.maximum(powers, (z.shape[-1] - 1).bit_length())
    return mantissas, powers - exponents, exponents


def _first_row(decays: FloatArray, exponents: IntArray) -> FloatArray:
    """Return the first row of exp(A), for each of the leading axes.

    Parameters
    ----------
    decays
        A's diagonal is their negative; shape (..., m), ``>= 0``, with a 0 in each row.
    exponents
        A has ``2**exponents`` beside the diagonal, shape (..., m - 1).

    Returns
    -------
    ndarray of float64, shape (..., m)
        Relative error of each entry as the module says.
    """
    m = decays.shape[-1]
    doublings = max(0, math.frexp(float(decays.max()) / _SHORT)[1])
    square = _short_step(decays * _HALVINGS[doublings], exponents - doublings)
    spare = np.empty_like(square)
    halvings = _HALVINGS[doublings - 1 :: -1] if doublings else _HALVINGS[:0]
    diagonals = np.exp(halvings.reshape(-1, *(1,) * decays.ndim) * -decays)
    # np.dot has a third of matmul's overhead, which is most of the time for a single small matrix.
    multiply = np.dot if square.ndim == 2 else np.matmul
    now, now_diagonal = square, square.reshape(*decays.shape[:-1], m * m)[..., :: m + 1]
    then, then_diagonal = spare, spare.reshape(*decays.shape[:-1], m * m)[..., :: m + 1]
    for diagonal in diagonals:
        multiply(now, now, then)
        then_diagonal[...] = diagonal
        now, now_diagonal, then, then_diagonal = then, then_diagonal, now, now_diagonal
    return now[..., 0, :]


def _short_step(decays: FloatArray, exponents: IntArray) -> FloatArray:
    """Return exp(A) for decays within ``_SHORT`` of each other, shape (..., m, m).

    The entry from i to j is the product of what lies beside the diagonal between them, over
    (j - i)!, times the mean of exp(-decays[i..j] . u) for u uniform on the simplex. That mean is
    exp(-mean + variance / (2 (j - i + 2)) + third order), mean and variance over decays[i..j].
    """
    m = decays.shape[-1]
    sums = np.zeros((2, *decays.shape[:-1], m + 1))
    np.add.accumulate(decays, axis=-1, out=sums[0, ..., 1:])
    np.add.accumulate(decays * decays, axis=-1, out=sums[1, ..., 1:])
    # Differences of running sums cancel, but what is lost is small beside 1, which exp adds.
    means = sums[..., None, 1:] - sums[..., :-1, None]
    means *= _INVERSE_COUNT[:m, :m]
    spread = means[1] - means[0] * means[0]
    spread *= _HALF_INVERSE_COUNT[:m, :m]
    spread -= means[0]
    step = np.exp(spread, out=spread)
    step *= _INVERSE_FACTORIAL[:m, :m]
    powers = np.zeros(decays.shape, dtype=np.int32)
    np.add.accumulate(exponents, axis=-1, out=powers[..., 1:])
    return np.asarray(np.ldexp(step, powers[..., None, :] - powers[..., :, None], out=step))
