"""State as bytes: JSON for what is small, raw parts for what is large; nothing is executed."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

from replay.errors import QueryError

MAGIC = b"chronicle-online"
_HEAD = struct.Struct("<IQ")
"""Checksum of all that follows, and the length of the JSON."""


def pack(state: dict[str, Any], parts: list[bytes]) -> bytes:
    """Return JSON values and parts as one piece."""
    head = json.dumps({"state": state, "lengths": [len(part) for part in parts]}).encode()
    body = head + b"".join(parts)
    return MAGIC + _HEAD.pack(zlib.crc32(body), len(head)) + body


def unpack(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Return what `pack` was given.

    Raises
    ------
    QueryError
        If the bytes are something else, or damaged.
    """
    start = len(MAGIC) + _HEAD.size
    if not data.startswith(MAGIC) or len(data) < start:
        raise QueryError("these bytes are no snapshot of an online query")
    checksum, n_head = _HEAD.unpack_from(data, len(MAGIC))
    body = data[start:]
    if zlib.crc32(body) != checksum:
        raise QueryError("the snapshot is damaged: its checksum does not fit")
    head = json.loads(body[:n_head])
    parts, at = [], n_head
    for length in head["lengths"]:
        parts.append(body[at : at + length])
        at += length
    return head["state"], parts
