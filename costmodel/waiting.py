"""Sums of waiting times for many sets of rates at once: what plans are weighed with.

`costmodel.thesis.hypoexponential` is exact to the last digits, one set of rates at a time. Here
thousands of sets are wanted within a millisecond, and six digits do. The Laplace transform of a sum
is the product of the transforms of its parts, so with ``x_i = rate_i * window``

- ``P(sum <= window)`` has the transform ``prod x_i / (x_i + z) / z``, and
- ``E[part_i; sum <= window] / window`` has that times ``1 / (x_i + z)``,

each inverted at 1 by eight points of a Talbot contour [1]_. The points scale with the window, so
small probabilities keep their digits too.

References
----------
.. [1] J. A. C. Weideman, Optimizing Talbot's contours for the inversion of the Laplace transform,
   SIAM J. Numer. Anal. 44 (2006), 2342-2362; the constants are those of L. N. Trefethen,
   J. A. C. Weideman, T. Schmelzer, Talbot quadratures and rational approximations, BIT 46 (2006),
   653-670.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray

ComplexArray = NDArray[np.complex128]

_N_POINTS: Final = 8
"""Points on the upper half of the contour; the lower half mirrors them."""


def _contour() -> tuple[ComplexArray, ComplexArray]:
    n = 2 * _N_POINTS
    theta = math.pi * np.arange(1, n, 2) / n
    part = 0.6407 * theta
    z = n * (-0.4814 + 0.6122 * theta / np.tan(part) + 0.2645j * theta)
    slope = n * (0.6122 / np.tan(part) - 0.6122 * part / np.sin(part) ** 2 + 0.2645j)
    # f(1) = (1 / 2 pi i) of the integral of exp(z) F(z) dz, in steps of 2 pi / n, twice the half.
    return z, np.exp(z) * slope * (2.0 / (n * 1j))


POINTS, WEIGHTS = _contour()
"""Where a transform is to be evaluated, and what its values are weighed with, each shape (8,)."""


def invert(transform: ComplexArray) -> FloatArray:
    """Return the function at 1 whose Laplace transform has these values at `POINTS`, last axis."""
    return np.asarray((transform @ WEIGHTS).real)
