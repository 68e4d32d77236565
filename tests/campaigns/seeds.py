"""Which seeds of a campaign run in the fast suite, and which by `make test-slow` alone."""

from __future__ import annotations

import pytest

FAST = 10
"""Seeds of each campaign in the fast suite, unless it says otherwise."""


def seeds(n: int, *, fast: int = FAST) -> list[object]:
    """Return the seeds of a campaign, all but the first few marked as slow."""
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(fast, n)]
    return [*range(min(fast, n)), *slow]
