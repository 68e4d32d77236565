"""Marks tests of what only compiled kernels do: `make test-nojit` runs kernels as plain Python."""

from __future__ import annotations

import pytest
from numba import config


def only_compiled(reason: str) -> pytest.MarkDecorator:
    """Skip a test where kernels are not compiled."""
    return pytest.mark.skipif(bool(config.DISABLE_JIT), reason=reason)
