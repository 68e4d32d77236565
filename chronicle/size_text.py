"""Sizes as people read them."""

from __future__ import annotations


def megabytes(n_bytes: int) -> str:
    """Return a size as people read it, in MB of 1,000,000 bytes. Pure.

    Examples
    --------
    >>> megabytes(12_345_678), megabytes(1_234), megabytes(0)
    ('12.3 MB', '0.001 MB', '0 MB')
    """
    millions = n_bytes / 1e6
    if millions >= 100:
        return f"{millions:,.0f} MB"
    return f"{millions:,.1f} MB" if millions >= 1 else f"{millions:.3f} MB".replace("0.000", "0")
