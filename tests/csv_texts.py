"""Texts of CSV with any line ends, quotes and widths, and their records by Python's csv module."""

from __future__ import annotations

import csv
import io
from random import Random

ENDS = (("\n",), ("\r\n",), ("\r",), ("\n", "\r\n"), ("\n", "\r\n", "\r"))
SIGNS = ("a", "b", "7", '"', ",", "\n", "\r", "\r\n", "\u00e4", " ")


def csv_text(random: Random, *, has_time: bool = False) -> tuple[str, int]:
    """Return a text with a header, and how many columns that has: one to three, a, b and c.

    With ``has_time``, each line begins with its number.
    """
    ends, n_columns = random.choice(ENDS), random.choice((1, 2, 2, 3))
    text = ",".join("abc"[:n_columns]) + random.choice(ends)
    for line in range(random.choice((0, 1, 3, 8, 20))):
        n_cells = n_columns if random.random() < 0.8 else random.choice((1, 2, 3, 4))
        cells = [_cell(random) for _ in range(n_cells)]
        if has_time:
            cells[0] = random.choice(("{}", '"{}"')).format(line)
        text += ",".join(cells) + random.choice(ends)
    return (text.rstrip("\r\n") if random.random() < 0.3 else text), n_columns


def _cell(random: Random) -> str:
    text = "".join(random.choice(SIGNS) for _ in range(random.choice((0, 1, 1, 2, 3, 6))))
    how = random.random()
    if how < 0.5:
        quoted = text.replace('"', '""')
        return f'"{quoted}"'
    return text if how > 0.9 else "".join(sign for sign in text if sign not in '",\r\n')


def csv_records(text: str, n_columns: int) -> list[tuple[int, list[str | None] | None]]:
    """Return line and cells of each record behind the header; no cells of what is no record.

    Lines of blanks are no record, unless there is one column.
    """
    lines = io.StringIO(text, newline="").readlines()
    reader = csv.reader(lines, strict=True)
    next(reader)
    found: list[tuple[int, list[str | None] | None]] = []
    while True:
        at = reader.line_num
        try:
            row = next(reader, None)
        except csv.Error:
            found.append((at + 1, None))
            continue
        if row is None:
            return found
        row = row or [""]
        is_blank = not "".join(lines[at : reader.line_num]).strip()
        if len(row) == n_columns:
            found.append((at + 1, [cell or None for cell in row]))
        elif not is_blank:
            found.append((at + 1, None))
