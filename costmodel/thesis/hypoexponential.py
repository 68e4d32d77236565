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
  tests see less than 1e-13 in cdf, most of it from rounding a ``z_i`` of some hundreds.
- *Range*: what stands beside the diagonal may be scaled at will: there ``z_i`` is replaced by the
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

import numpy as np
from numpy.typing import ArrayLike, NDArray

from costmodel.arrays import FloatArray

Exponents = NDArray[np.int32]

N_STAGES_MAX = 64
"""Stages of one sum: the error bound and the ranges above are worked out for so many."""

_SHORT = 2.0**-12
"""Widest spread of decays in a short step: its closed form is off by at most 2e-14 per stage."""

_DECAYS_MAX = 2000.0
"""Where the slowest stage has decayed so often, at most exp(-2000) * 2000**63 / 63! < 1e-700 of the
sum's probability is left: in double precision cdf is 1."""

_Z_MAX = 2.0**64
"""A stage so fast changes results by less than 2000 / 2**64 of themselves: faster is the same."""

_FACTORIALS = np.array([float(math.factorial(d)) for d in range(N_STAGES_MAX + 2)])
_DISTANCE = np.subtract.outer(-np.arange(N_STAGES_MAX + 2), -np.arange(N_STAGES_MAX + 2))
_UPPER = (_DISTANCE >= 0).astype(np.float64)
_DISTANCE = np.maximum(_DISTANCE, 0)
_INVERSE_COUNT = _UPPER / (_DISTANCE + 1)
_HALF_INVERSE_COUNT = _UPPER / (2 * _DISTANCE + 4)
_INVERSE_FACTORIAL = _UPPER / _FACTORIALS[_DISTANCE]
"""Of the entry's distance to the diagonal; 0 below the diagonal, where the step is 0."""


def cdf(x: float, rates: ArrayLike) -> float:
    """Return the probability that the sum of exponential times is at most ``x``.

    Parameters
    ----------
    x
        In the unit of ``1 / rates``; may be infinite. A negative number gives 0, NaN gives NaN.
    rates
        Rates of the stages, shape (n,), ``0 <= n <= 64``, in any order, equal ones included.
        Without stages the sum is 0.

    Returns
    -------
    float
        From 0 to 1, with a *relative* error below 1e-10 wherever it is at least 1e-300.

    Raises
    ------
    ValueError
        If ``rates`` is not one-dimensional, has more than 64 stages, or holds a number that is
        not finite and positive.

    Notes
    -----
    ``P(X < w)`` of thesis (3.6), where ``rates`` are the arrival rates of the basic blocks after
    the first selected one. Matches may last exactly ``w``, but X is continuous: ``<`` and ``<=``
    are one.

    Examples
    --------
    >>> cdf(1.0, [1.0])
    0.6321205588285577
    """
    stages = _checked(rates)
    if not stages.size:
        return math.nan if math.isnan(x) else float(x >= 0.0)
    if not 0.0 < x < math.inf:
        return x if math.isnan(x) else float(x > 0.0)
    z = _decays(min(x, _DECAYS_MAX / float(stages[0])), stages)
    mantissas, shifts, exponents = _scaled(z)
    left_all = float(_first_row(np.append(z, 0.0), exponents)[-1] * mantissas.prod())
    # Rounding may pass 1 by some units in the last place; a probability must not.
    return min(math.ldexp(left_all, int(shifts.sum())), 1.0)


def truncated_mean(x: float, rates: ArrayLike) -> float:
    """Return the mean of the sum of exponential times, given that it is at most ``x``.

    ``rates`` and errors are those of `cdf`. In the unit of ``x``; for 0 it is its limit, 0; for
    negative numbers, which the sum is never below, NaN. Relative error below 1e-10 for every
    positive ``x``, however small the probability of what is given.

    Notes
    -----
    ``E(X | X < w)`` of thesis (3.7). With I the integral of cdf up to x it is ``x - I / cdf(x)``.
    I / x is what one more state holds if it is filled from the last one at rate 1; what was
    scaled away is the same in I and in cdf. The one difference in this module: what is left of x
    is at least 1/2000 of it, as x is limited by ``_DECAYS_MAX``, so at most four of fourteen digits
    are lost, and those only where x is thousands of means.

    Examples
    --------
    >>> round(truncated_mean(1e-9, [1.0, 2.0, 3.0]) / 1e-9, 6)  # early on, n / (n + 1)
    0.75
    """
    stages = _checked(rates)
    if math.isnan(x) or x < 0.0:
        return math.nan
    if x in (0.0, math.inf) or not stages.size:
        return math.fsum(1.0 / rate for rate in stages.tolist()) if x > 0.0 else 0.0
    x = min(x, _DECAYS_MAX / float(stages[0]))
    z = _decays(x, stages)
    row = _first_row(np.append(z, (0.0, 0.0)), np.append(_scaled(z)[2], np.int32(0)))
    return x * (1.0 - float(row[-1] / row[-2]))


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


def _decays(x: float, stages: FloatArray) -> FloatArray:
    """Return each stage's rate times x, shape (n,)."""
    with np.errstate(over="ignore"):  # infinitely fast is as fast as _Z_MAX
        return np.minimum(x * stages, _Z_MAX)


def _scaled(z: FloatArray) -> tuple[FloatArray, Exponents, Exponents]:
    """Return z as ``mantissa * 2**shift * 2**exponent``, the last power not below z nor n."""
    mantissas, powers = np.frexp(z)
    exponents = np.maximum(powers, (len(z) - 1).bit_length())
    return mantissas, powers - exponents, exponents


def _first_row(decays: FloatArray, exponents: Exponents) -> FloatArray:
    """Return the first row of exp(A), shape (m,), with the relative errors the module says.

    A's diagonal is ``-decays``, shape (m,), the last of which is 0; beside it stands
    ``2**exponents``, shape (m - 1,).
    """
    doublings = max(0, math.frexp(float(decays.max()) / _SHORT)[1])
    matrix = _short_step(np.ldexp(decays, -doublings), exponents - doublings)
    for halvings in range(doublings - 1, -1, -1):
        matrix = matrix @ matrix
        np.fill_diagonal(matrix, np.exp(-np.ldexp(decays, -halvings)))
    return np.asarray(matrix[0])


def _short_step(decays: FloatArray, exponents: Exponents) -> FloatArray:
    """Return exp(A) for decays within ``_SHORT`` of each other, shape (m, m).

    The entry from i to j is the product of what lies beside the diagonal between them, over
    (j - i)!, times the mean of exp(-decays[i..j] . u) for u uniform on the simplex. That mean is
    exp(-mean + variance / (2 (j - i + 2)) + third order), mean and variance over decays[i..j].
    """
    m = len(decays)
    sums = np.zeros((2, m + 1))
    sums[0, 1:], sums[1, 1:] = np.cumsum(decays), np.cumsum(decays * decays)
    # Differences of running sums cancel, but what is lost is small beside 1, which exp adds.
    means = (sums[:, None, 1:] - sums[:, :-1, None]) * _INVERSE_COUNT[:m, :m]
    spread = (means[1] - means[0] * means[0]) * _HALF_INVERSE_COUNT[:m, :m] - means[0]
    step = np.exp(spread) * _INVERSE_FACTORIAL[:m, :m]
    powers = np.append(np.int32(0), np.cumsum(exponents, dtype=np.int32))
    return np.asarray(np.ldexp(step, powers[None, :] - powers[:, None]))
