"""Lay out a table as lines of text, for a terminal of some width or for a pipe. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chronicle.words import number_of, on_one_line

GAP = "  "
NULL = "NULL"

TEXT_WIDTH_MIN = 16
"""Characters a text in a terminal keeps at least before it is cut."""

_NUMBER = re.compile(r"[-+]?[\d,]+(\.\d+)?(e[-+]?\d+)?( ?(%|MB|ns|µs|ms|s))?|NULL|", re.ASCII)
_TIME = re.compile(r"(-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(\D.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of a table as text.

    Attributes
    ----------
    head
        Names of the columns, one at least.
    rows
        The cells of each row.
    is_number
        Which columns hold numbers: they stand at the right and are never cut.
    """

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    is_number: tuple[bool, ...]

    @classmethod
    def of_texts(cls, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Grid:
        """Return a grid whose columns of numbers and times are told by how their cells look."""
        columns = list(zip(*rows, strict=True)) or [()] * len(head)
        looks = (all(_NUMBER.fullmatch(cell) for cell in column) for column in columns)
        cells = list(zip(*map(with_equal_fractions, columns), strict=True))
        return cls(head, cells, tuple(looks))


@dataclass(frozen=True, slots=True)
class Laid:
    """A table laid out.

    Attributes
    ----------
    lines
        Head, rule and rows.
    left_out
        Names of the columns there was no room for.
    n_cut
        Texts that were cut.
    """

    lines: list[str]
    left_out: tuple[str, ...]
    n_cut: int


def with_equal_fractions(cells: Sequence[str]) -> list[str]:
    """Return cells whose times have the fewest of 0, 3, 6 or 9 decimals that lose nothing.

    Times are ISO 8601; cells that are none stay as they are.

    Examples
    --------
    >>> with_equal_fractions(["2024-05-01T09:30:00Z", "NULL", "2024-05-01T09:30:00.500000Z"])
    ['2024-05-01T09:30:00.000Z', 'NULL', '2024-05-01T09:30:00.500Z']
    """
    times = [_TIME.fullmatch(cell) for cell in cells]
    decimals = max((len((time[2] or "").rstrip("0")) for time in times if time), default=0)
    n = -(-decimals // 3) * 3
    point = "." if n else ""
    return [
        f"{time[1]}{point}{(time[2] or '')[:n]:0<{n}}{time[3] or ''}" if time else cell
        for time, cell in zip(times, cells, strict=True)
    ]


def lay_out(grid: Grid, width: int | None) -> Laid:
    """Return a table of as many columns as the width has room for, the first ones.

    Long texts are cut first, with an ellipsis; numbers never are. A width of None is as wide as it
    comes.
    """
    columns = [
        [on_one_line(cell) for cell in (name, *(row[at] for row in grid.rows))]
        for at, name in enumerate(grid.head)
    ]
    widths = [max(map(_width, column)) for column in columns]
    if width is not None and _total(widths) > width:
        limit = max(TEXT_WIDTH_MIN, width // 3)
        widths = [
            wide if is_number else min(wide, limit)
            for wide, is_number in zip(widths, grid.is_number, strict=True)
        ]
    n_shown = len(widths) if width is None else _count_fitting(widths, width)
    n_cut = sum(
        _width(cell) > wide
        for column, wide in zip(columns[:n_shown], widths, strict=False)
        for cell in column
    )
    shown = [
        _aligned(column, wide, to_right=is_number)
        for column, wide, is_number in zip(columns, widths, grid.is_number, strict=True)
    ][:n_shown]
    if n_shown < len(widths):
        shown.append(["…"] * len(shown[0]))
        widths = [*widths[:n_shown], 1]
    rule = GAP.join("─" * wide for wide in widths)
    first, *rest = (GAP.join(cells).rstrip() for cells in zip(*shown, strict=True))
    return Laid([first, rule, *rest], grid.head[n_shown:], n_cut)


def expanded(grid: Grid, first_number: int = 1) -> list[str]:
    """Return a table with one column a line, row after row."""
    wide = max(_width(on_one_line(name)) for name in grid.head)
    names = [_fitted(on_one_line(name), wide, to_right=False) for name in grid.head]
    lines = []
    for number, row in enumerate(grid.rows, first_number):
        lines.append(f"─── row {number:,} ───")
        cells = zip(names, row, strict=True)
        lines += [f"{name}{GAP}{on_one_line(cell)}".rstrip() for name, cell in cells]
    return lines


def footer(
    n_rows: int, n_shown: int, laid: Laid | None = None, width: int | None = None
) -> list[str]:
    """Return what is said below a table: how many rows it has, and what is not shown.

    ``laid`` is how rows were laid out within the width; None where all columns are whole.
    """
    said = [number_of(n_rows, "row")]
    if n_rows > n_shown:
        said = [f"… {number_of(n_rows - n_shown, 'more row')} (--rows {n_rows} shows them)"]
    if laid is not None and laid.left_out:
        said.append(left_out(laid, width, " (-x shows them)"))
    elif laid is not None and laid.n_cut:
        said.append("long texts are cut (-x shows them whole)")
    return said


def left_out(laid: Laid, width: int | None, remedy: str = "") -> str:
    """Return how many columns there was no room for, with the names there is room for here."""
    n = len(laid.left_out)
    said = f"… {number_of(n, 'more column')}"
    names = [on_one_line(name) for name in laid.left_out]
    for n_named in range(n, 0, -1):
        more = ", …" if n_named < n else ""
        line = f"{said}: {', '.join(names[:n_named])}{more}{remedy}"
        if width is None or _width(line) <= width:
            return line
    return said + remedy


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _count_fitting(widths: Sequence[int], width: int) -> int:
    """Return how many columns fit, one at least, with room for a mark where not all do."""
    if _total(widths) <= width:
        return len(widths)
    n = len(widths) - 1
    while n > 1 and _total([*widths[:n], 1]) > width:
        n -= 1
    return max(1, n)


def _aligned(cells: Sequence[str], width: int, *, to_right: bool) -> list[str]:
    return [_fitted(cell, width, to_right=to_right) for cell in cells]


def _fitted(cell: str, width: int, *, to_right: bool) -> str:
    missing = width - _width(cell)
    if missing < 0:
        from rich.cells import set_cell_size

        return set_cell_size(cell, width - 1) + "…"
    return " " * missing + cell if to_right else cell + " " * missing


def _width(text: str) -> int:
    """Return how many characters of a terminal's line a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
