"""A small validator for the part of JSON Schema 2020-12 that our schemas use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
SAYS_NOTHING = {"$schema", "$defs", "title", "description"}


def violations(value: Any, schema: Mapping[str, Any], *, closed: bool = False) -> list[str]:
    """Return what is wrong with a value, with its place; nothing if it is valid.

    Parameters
    ----------
    closed
        Whether keys that the schema does not name are wrong too.
    """
    return list(_check(value, schema, "$", schema, closed))


def _check(
    value: Any, rule: Mapping[str, Any], at: str, root: Mapping[str, Any], closed: bool
) -> Iterator[str]:
    if "type" in rule:
        wrong = list(_type(value, rule["type"], at, root, closed))
        yield from wrong
        if wrong:
            return
    for keyword, wanted in rule.items():
        if keyword in SAYS_NOTHING or keyword == "type":
            continue
        yield from _KEYWORDS[keyword](value, wanted, at, root, closed)
    if closed and isinstance(value, dict) and "properties" in rule:
        yield from (f"{at}.{key}: not in the schema" for key in value.keys() - rule["properties"])


def _type(value: Any, wanted: Any, at: str, root: Any, closed: bool) -> Iterator[str]:
    names = [wanted] if isinstance(wanted, str) else wanted
    is_bool = isinstance(value, bool)
    if not any(isinstance(value, TYPES[n]) and (n == "boolean" or not is_bool) for n in names):
        yield f"{at}: {value!r} is no {' or '.join(names)}"


def _ref(value: Any, wanted: str, at: str, root: Any, closed: bool) -> Iterator[str]:
    yield from _check(value, root["$defs"][wanted.removeprefix("#/$defs/")], at, root, closed)


def _required(value: Any, wanted: list[str], at: str, root: Any, closed: bool) -> Iterator[str]:
    yield from (f"{at}: lacks {key}" for key in wanted if key not in value)


def _properties(value: Any, wanted: Any, at: str, root: Any, closed: bool) -> Iterator[str]:
    for key in value.keys() & wanted.keys():
        yield from _check(value[key], wanted[key], f"{at}.{key}", root, closed)


def _items(value: Any, wanted: Any, at: str, root: Any, closed: bool) -> Iterator[str]:
    for index, item in enumerate(value):
        yield from _check(item, wanted, f"{at}[{index}]", root, closed)


def _enum(value: Any, wanted: list[Any], at: str, root: Any, closed: bool) -> Iterator[str]:
    if value not in wanted:
        yield f"{at}: {value!r} is none of {wanted}"


def _any_of(value: Any, wanted: Any, at: str, root: Any, closed: bool) -> Iterator[str]:
    tried = [list(_check(value, rule, at, root, closed)) for rule in wanted]
    if all(tried):
        yield from tried[-1]


def _minimum(value: Any, wanted: float, at: str, root: Any, closed: bool) -> Iterator[str]:
    if not value >= wanted:
        yield f"{at}: {value} is below {wanted}"


def _maximum(value: Any, wanted: float, at: str, root: Any, closed: bool) -> Iterator[str]:
    if not value <= wanted:
        yield f"{at}: {value} is above {wanted}"


def _pattern(value: Any, wanted: str, at: str, root: Any, closed: bool) -> Iterator[str]:
    if re.search(wanted, value) is None:
        yield f"{at}: {value!r} does not match {wanted}"


_KEYWORDS = {
    "$ref": _ref,
    "required": _required,
    "properties": _properties,
    "items": _items,
    "anyOf": _any_of,
    "enum": _enum,
    "minimum": _minimum,
    "maximum": _maximum,
    "pattern": _pattern,
}
