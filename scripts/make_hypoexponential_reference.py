"""Makes the values that ``costmodel.thesis.hypoexponential`` is held against, by mpmath.

    pip install mpmath
    python scripts/make_hypoexponential_reference.py

The distribution's Laplace transform is inverted by residues, in as many digits as it takes: terms
cancel by hundreds of digits where rates are nearly equal, so the working precision, 60 digits at
first, is doubled until two runs agree to 40 digits. This is the textbook's closed form, which the
code under test avoids; the two share nothing. mpmath is no dependency of Chronicle.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

TARGET = (
    Path(__file__).resolve().parent.parent / "tests/unit/costmodel/hypoexponential_reference.json"
)
AGREED_DIGITS = 40
LEAST = 1e-305
"""Values below are left out: double precision thins out there."""

N_STAGES = (1, 2, 3, 8, 32, 64)
LEFT_TAILS = (1e-303, 1e-200, 1e-100, 1e-30, 1e-8)
MIDDLES = (0.02, 0.2, 0.7, 1.0, 1.5, 2.5)
RIGHT_TAILS = (3.0, 12.0, 70.0, 300.0, 600.0, 690.0)


class Reference:
    """Values of one set of rates, from the residues of its Laplace transform.

    With the distinct rates r of multiplicity m, the density is the sum over r of
    ``exp(-r x)`` times a polynomial of degree m - 1 in x.
    """

    def __init__(self, mp: Any, rates: list[float]) -> None:
        self._mp = mp
        self._rates = rates
        self._terms: dict[int, list[tuple[Any, list[Any], list[Any]]]] = {}

    def values(self, x: float) -> dict[str, float]:
        """Return cdf, sf and E(X | X <= x), each correctly rounded."""
        digits = 60
        previous = self._at(x, digits)
        while True:
            digits *= 2
            now = self._at(x, digits)
            if all(self._agree(a, b) for a, b in zip(previous, now, strict=True)):
                cdf, sf, partial = now
                return {"cdf": float(cdf), "sf": float(sf), "truncated_mean": float(partial / cdf)}
            previous = now

    def _agree(self, a: Any, b: Any) -> bool:
        # Both may be 0, where so few digits show nothing of a small value.
        return b != 0 and bool(abs(a - b) <= abs(b) * self._mp.mpf(10) ** -AGREED_DIGITS)

    def _at(self, x: float, digits: int) -> tuple[Any, Any, Any]:
        """Return cdf, sf and the integral of t density(t) up to x, in this many digits."""
        mp = self._mp
        with mp.workdps(digits):
            if digits not in self._terms:
                self._terms[digits] = self._residues()
            time = mp.mpf(x)
            sf = partial = mp.mpf(0)
            for rate, sf_terms, moment_terms in self._terms[digits]:
                decay = mp.exp(-rate * time)
                sf -= decay * mp.polyval(sf_terms, time, asc=True)
                partial += decay * mp.polyval(moment_terms, time, asc=True)
            mean = mp.fsum(1 / mp.mpf(rate) for rate in self._rates)
            return 1 - sf, sf, mean + partial

    def _residues(self) -> list[tuple[Any, list[Any], list[Any]]]:
        """Return each distinct rate with polynomials in x.

        The transform of cdf is ``F(s) / s`` with F the product of ``r / (s + r)``, and that of
        the integral of t density(t) is ``-F'(s) / s``, F' = -F times the sum of ``1 / (s + r)``.
        """
        mp = self._mp
        counts = Counter(self._rates)
        result = []
        for pole, multiplicity in counts.items():
            rate = mp.mpf(pole)
            # Laurent series in e = s + rate: F = e**-multiplicity * series.
            series = [rate**multiplicity] + [mp.mpf(0)] * multiplicity
            inverses = [mp.mpf(0)] * (multiplicity + 1)  # the sum of 1/(s + r) over the others
            for other, count in counts.items():
                if other != pole:
                    reciprocal = self._reciprocal(mp.mpf(other) - rate, multiplicity + 1)
                    inverses = [a + count * b for a, b in zip(inverses, reciprocal, strict=True)]
                    for _ in range(count):
                        series = self._times(series, [mp.mpf(other) * c for c in reciprocal])
            over_s = self._times(series, self._reciprocal(-rate, multiplicity + 1))
            # -F'/s = over_s * (multiplicity / e + inverses) * e**-multiplicity
            shifted = [mp.mpf(0), *self._times(over_s, inverses)]
            moment = [multiplicity * a + b for a, b in zip(over_s, shifted[:-1], strict=True)]
            result.append(
                (
                    rate,
                    [over_s[multiplicity - 1 - j] / mp.factorial(j) for j in range(multiplicity)],
                    [moment[multiplicity - j] / mp.factorial(j) for j in range(multiplicity + 1)],
                )
            )
        return result

    def _reciprocal(self, constant: Any, length: int) -> list[Any]:
        """Return the series of 1 / (constant + e)."""
        return [(-1) ** k / constant ** (k + 1) for k in range(length)]

    def _times(self, a: list[Any], b: list[Any]) -> list[Any]:
        """Return the product of two series, cut to their length."""
        return [self._mp.fsum(a[i] * b[k - i] for i in range(k + 1) if a[i]) for k in range(len(a))]


def rate_sets(n: int) -> dict[str, list[float]]:
    """Return sets of n rates by what is hard about them."""
    rng = random.Random(n)  # noqa: S311 - the same sets each time
    close = [2.5 * (1 + 1e-9 * rng.uniform(-1, 1)) for _ in range(n)]
    sets = {
        "spread": [rng.uniform(0.5, 5.0) for _ in range(n)],
        "equal": [2.5] * n,
        "nearly-equal": close,
        "neighbours": [math.nextafter(0.3, 1.0) if i % 2 else 0.3 for i in range(n)],
        "ten-decades": [10 ** rng.uniform(-5, 5) for _ in range(n)],
        "two-scales": [1e-6 if i % 2 else 1e4 * (1 + 1e-6 * i) for i in range(n)],
    }
    return sets if n > 1 else {"equal": sets["equal"]}


def times(rates: list[float]) -> list[float]:
    """Return where to evaluate: both tails, as far as double precision goes, and the middle."""
    n = len(rates)
    log_rates = math.fsum(math.log(rate) for rate in rates)
    mean = math.fsum(1 / rate for rate in rates)
    # Early on, cdf is x**n / n! times the product of the rates.
    left = [math.exp((math.log(p) + math.lgamma(n + 1) - log_rates) / n) for p in LEFT_TAILS]
    right = [mean + decays / min(rates) for decays in RIGHT_TAILS]
    return sorted({*left, *(part * mean for part in MIDDLES), *right})


def cases(mp: Any) -> list[dict[str, Any]]:
    """Return every set of rates with its values."""
    result = []
    for n in N_STAGES:
        for regime, rates in rate_sets(n).items():
            reference = Reference(mp, rates)
            points = [{"x": x, **reference.values(x)} for x in times(rates)]
            points = [p for p in points if min(p["cdf"], p["sf"]) >= LEAST]
            result.append({"regime": regime, "rates": rates, "points": points})
            sys.stdout.write(f"{n} {regime}: {len(points)} points\n")
    return result


def main() -> None:
    """Write the values to where the tests look for them."""
    try:
        import mpmath
    except ImportError:
        sys.exit("this script needs mpmath: pip install mpmath")
    lines = ",\n".join(json.dumps(case) for case in cases(mpmath.mp))
    TARGET.write_text(
        f'{{"mpmath": "{mpmath.__version__}", "cases": [\n{lines}\n]}}\n', encoding="utf-8"
    )


if __name__ == "__main__":
    main()
