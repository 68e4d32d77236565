"""Read text that came from outside: its lines, and its JSON. Pure."""

from __future__ import annotations

import json
from typing import Any


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text, which end in LF or CR LF.

    Python's own method also cuts at U+0085, U+2028 and other signs, which are part of what a user
    wrote, and of the JSON of a log.

    Examples
    --------
    >>> split_lines("a\u2028b\r\nc\n"), split_lines("")
    (['a\u2028b', 'c'], [])
    """
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def first_line(text: str) -> str:
    """Return the first line of a text, an empty one if it has none."""
    return text.partition("\n")[0].removesuffix("\r")


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says; raise ValueError also where it is nested too deeply to be read."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error


def actions_of(text: str) -> list[dict[str, Any]]:
    """Return the actions of a commit of a Delta table, one from each line.

    Raises ValueError where a line is no JSON object.
    """
    actions = [parse_json(line) for line in split_lines(text)]
    for number, action in enumerate(actions, start=1):
        if not isinstance(action, dict):
            raise ValueError(f"its line {number} is no JSON object")
    return actions
