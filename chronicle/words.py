"""Numbers and sizes in words, as people read them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_STEERING: Final = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F),
                    *range(0x2066, 0x206A))  # fmt: skip
"""Code points that steer a terminal: C0, DEL, C1, line ends, and what turns the direction."""

_ON_ONE_LINE: Final = {code: repr(chr(code))[1:-1] for code in _STEERING}
_VISIBLE: Final = {code: sign for code, sign in _ON_ONE_LINE.items() if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    r"""Return words for people with what steers a terminal shown, but for line breaks and tabs.

    Examples
    --------
    >>> visible("a\x1b[2J\nb")
    'a\\x1b[2J\nb'
    """
    return text.translate(_VISIBLE)


def on_one_line(text: str) -> str:
    r"""Return a text with what steers a terminal shown, line breaks and tabs too.

    Examples
    --------
    >>> on_one_line("a\nb\x1b[2J")
    'a\\nb\\x1b[2J'
    """
    return text.translate(_ON_ONE_LINE)


def number_of(n: int, what: str, several: str | None = None) -> str:
    """Return a number of things, such as ``1 file`` and ``2 files``."""
    return f"{n:,} {what if n == 1 else several or f'{what}s'}"


def megabytes(n_bytes: int) -> str:
    """Return a size in MB of 1,000,000 bytes.

    Examples
    --------
    >>> megabytes(12_345_678), megabytes(1_234), megabytes(0)
    ('12.3 MB', '0.001 MB', '0 MB')
    """
    millions = n_bytes / 1e6
    if millions >= 100:
        return f"{millions:,.0f} MB"
    return f"{millions:,.1f} MB" if millions >= 1 else f"{millions:.3f} MB".replace("0.000", "0")


def because(reasons: Mapping[str, int]) -> list[str]:
    """Return how many records there are for each reason, in the order given."""
    return [f"{count:,} because {reason}" for reason, count in reasons.items()]


def time_lines(first: str | None, last: str | None) -> list[str]:
    """Return the line of a report on the times of events; none where there are no events."""
    if first is None:
        return []
    return [f"  first time {first}, last {last}" if first != last else f"  time {first}"]


def quarantine_lines(n_rows: int, reasons: Mapping[str, int] | None = None) -> list[str]:
    """Return the lines of a report on rows put into quarantine; none where there are none."""
    if not n_rows:
        return []
    told = f"quarantined: {number_of(n_rows, 'row')}, kept in table 'quarantine'"
    return [told, *(f"  {one}" for one in because(reasons or {}))]
