"""Functions of texts, on constants and on single rows; characters are code points.

Where engines differ PostgreSQL is followed, but for ``concat``; ``functions`` has the list. A
function returns None where there is no such text or number (a fault).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

TEXT_MAX = 2**20
"""The longest text that ``lpad``, ``rpad``, ``repeat`` and ``replace`` make, in characters."""


def like_to_regex(pattern: str, escape: str | None = None) -> str:
    """Return the regular expression that a whole text must match (with ``re.DOTALL``).

    Raises
    ------
    ValueError
        If the pattern ends with its escape character.
    """
    return "".join(
        re.escape(character) if literally else {"%": ".*", "_": "."}[character]
        for character, literally in _like_parts(pattern, escape)
    )


def lower_like(pattern: str, escape: str | None = None) -> str:
    r"""Return a LIKE pattern in lower case, with ``\`` as its escape character.

    Raises
    ------
    ValueError
        If the pattern ends with its escape character.
    """
    return "".join(
        ("\\" if literally and character in "%_\\" else "") + lower(character)
        for character, literally in _like_parts(pattern, escape)
    )


def _like_parts(pattern: str, escape: str | None) -> Iterator[tuple[str, bool]]:
    """Yield the characters of a pattern, and whether they stand for themselves."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError("the pattern ends with its escape character")
            yield escaped, True
        else:
            yield character, character not in "%_"


def like(text: str, pattern: str, escape: str | None = None) -> bool:
    """Tell whether a text is of the form of a LIKE pattern."""
    return re.fullmatch(like_to_regex(pattern, escape), text, re.DOTALL) is not None


def concat(*texts: str) -> str:
    """Return the texts one after the other."""
    return "".join(texts)


def substring(text: str, start: int, length: int | None = None) -> str | None:
    """Return the characters at places ``start`` to ``start + length - 1``, the first being 1.

    There are places before the first character too, with nothing there.
    """
    if length is None:
        return text[max(start - 1, 0) :]
    if length < 0:
        return None
    return text[max(start - 1, 0) : max(start - 1 + length, 0)]


def left(text: str, count: int) -> str:
    """Return the first characters; of a negative count, all but so many of the last."""
    return text[:count]


def right(text: str, count: int) -> str:
    """Return the last characters; of a negative count, all but so many of the first."""
    return text[-count:] if count else ""


def trim(text: str, characters: str = " ") -> str:
    """Return the text without any of the characters at both ends."""
    return text.strip(characters) if characters else text


def ltrim(text: str, characters: str = " ") -> str:
    """Return the text without any of the characters at its beginning."""
    return text.lstrip(characters) if characters else text


def rtrim(text: str, characters: str = " ") -> str:
    """Return the text without any of the characters at its end."""
    return text.rstrip(characters) if characters else text


def replace(text: str, old: str, new: str) -> str | None:
    """Return the text with every ``old``, from the left, made ``new``; an empty one is nowhere."""
    if not old:
        return text
    if len(new) > len(old):
        length = len(text) + text.count(old) * (len(new) - len(old))
        if length > TEXT_MAX:
            return None
    return text.replace(old, new)


def strpos(text: str, part: str) -> int:
    """Return where a part first begins, from 1; 0 if nowhere."""
    return text.find(part) + 1


def lpad(text: str, length: int, fill: str = " ") -> str | None:
    """Return the text filled up at its beginning, or cut at its end, to a length."""
    if length > TEXT_MAX:
        return None
    return _filling(fill, length - len(text)) + text[: max(length, 0)]


def rpad(text: str, length: int, fill: str = " ") -> str | None:
    """Return the text filled up, or cut, at its end to a length."""
    if length > TEXT_MAX:
        return None
    return text[: max(length, 0)] + _filling(fill, length - len(text))


def _filling(fill: str, count: int) -> str:
    return (fill * (count // len(fill) + 1))[:count] if fill and count > 0 else ""


def repeat(text: str, count: int) -> str | None:
    """Return the text so many times; nothing for a count below 1."""
    if count > 0 and len(text) * count > TEXT_MAX:
        return None
    return text * max(count, 0) if text else ""


def split_part(text: str, delimiter: str, number: int) -> str | None:
    """Return the part with a number, from 1, or from the end with -1; nothing where there is none.

    An empty delimiter is nowhere, so the text is one part.
    """
    if number == 0:
        return None
    parts = text.split(delimiter) if delimiter else [text]
    at = number - 1 if number > 0 else len(parts) + number
    return parts[at] if 0 <= at < len(parts) else ""


@cache
def _arrow(name: str) -> Callable[..., Any]:
    import pyarrow.compute as pc

    function: Callable[..., Any] = getattr(pc, name)
    return function


def lower(text: str) -> str:
    """Return the text in lower case, letter by letter, as Arrow has it for columns."""
    return str(_arrow("utf8_lower")(text).as_py())


def upper(text: str) -> str:
    """Return the text in upper case, letter by letter, as Arrow has it for columns."""
    return str(_arrow("utf8_upper")(text).as_py())


def regexp_like(text: str, pattern: str) -> bool:
    """Tell whether a regular expression (RE2) matches a part of the text."""
    return bool(_arrow("match_substring_regex")(text, pattern=pattern).as_py())


def check_regexp(pattern: str) -> None:
    """Raise ValueError, with what is wrong, unless the pattern is a regular expression (RE2)."""
    regexp_like("", pattern)
