"""What a stream was made from: a query, and the versions of the streams it read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

_QUERY = "chronicle.query"
_PARAMETERS = "chronicle.query_parameters"
_SOURCES = "chronicle.query_sources"


@dataclass(frozen=True, slots=True)
class Lineage:
    """The query whose answer a stream is."""

    query: str
    """Its text."""

    sources: Mapping[str, int]
    """By name, the streams it read and the version of each."""

    parameters: Mapping[str, str] = field(default_factory=dict)
    """By name, the values of its parameters, as text."""

    def to_properties(self) -> dict[str, str]:
        """Return the Delta table properties that hold it."""
        return {
            _QUERY: self.query,
            _SOURCES: json.dumps(dict(self.sources)),
            _PARAMETERS: json.dumps(dict(self.parameters)),
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Lineage | None:
        """Read it back; None for a stream that was not made by a query."""
        if _QUERY not in properties:
            return None
        return cls(
            properties[_QUERY],
            json.loads(properties.get(_SOURCES, "{}")),
            json.loads(properties.get(_PARAMETERS, "{}")),
        )

    def __str__(self) -> str:
        read = ", ".join(f"{name} version {version}" for name, version in self.sources.items())
        given = ", ".join(f":{name} = {value}" for name, value in self.parameters.items())
        text = " ".join(self.query.split())
        return f"{text} (read {read}{'; ' + given if given else ''})"
