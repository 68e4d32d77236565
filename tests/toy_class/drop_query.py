"""A class of query of three files that Chronicle does not know: its bound query.

Each event with ``x <= low`` is a drop if one with ``x >= high`` came at most ``within`` before it;
it is told with the time of the latest of these, and with its place in the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from replay.language.bound import StreamRelation


@dataclass(frozen=True)
class DropQuery:
    stream: StreamRelation
    high: float
    low: float
    within: int
