"""Ordinals: the part of a data file's name that orders files of equal times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from chronicle.errors import ForeignFileError

_LEVEL = r"\d{6,}"
_DATA_FILE = re.compile(
    rf"({_LEVEL}-{_LEVEL}-{_LEVEL}(?:-{_LEVEL})*)-[0-9a-f]{{32}}(?:\.adopted)?\.parquet"
)


def parse_ordinal(name: str, *, events_dir: Path) -> tuple[int, ...]:
    """Return the ordinal that a data file's name carries: generation, part, piece.

    A file that was rewritten into several has one more level in each of them. Ordinals compare
    as tuples do, so the pieces of a file stand where it stood.
    """
    return levels_of(ordinal_of(name, events_dir=events_dir))


def levels_of(ordinal: str) -> tuple[int, ...]:
    """Return the numbers of an ordinal."""
    return tuple(int(level) for level in ordinal.split("-"))


def ordinal_of(name: str, *, events_dir: Path) -> str:
    """Return the ordinal of a data file as its name spells it; see ``parse_ordinal``."""
    found = _DATA_FILE.fullmatch(name)
    if found is None:
        raise ForeignFileError(str(events_dir / name))
    return found[1]


def child(ordinal: str, position: int) -> str:
    """Return the ordinal one level below ``ordinal``, at a position from 0."""
    return f"{ordinal}-{position:06d}"


def pieces_of(ordinal: str, n_pieces: int) -> Sequence[str]:
    """Return the ordinals of the files that take the place of the file of ``ordinal``."""
    return [ordinal] if n_pieces == 1 else [child(ordinal, i) for i in range(n_pieces)]
