"""What the properties of the events table say of a stream: its settings, and its lineage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from chronicle import config
from chronicle.errors import SchemaError, StorageError

_PREFIX = "chronicle."


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What is decided when a stream is created and never changes, but for ``derived``.

    Raises
    ------
    SchemaError
        If a number is out of its range.
    """

    time: str
    """Name of the time column."""

    block_events: int = config.BLOCK_EVENTS
    """Events per block; the last block of a data file may hold fewer."""

    file_events: int = config.FILE_EVENTS
    """Most events a data file holds."""

    fan_out: int = config.FAN_OUT
    """Entries that one entry of the next TAB+-tree level aggregates."""

    key: str | None = None
    """Name of the key column, if the stream has one."""

    format_version: int = config.FORMAT_VERSION
    """Layout the stream is written in."""

    adopted_from: str | None = None
    """Table whose files the stream reads where they are, and never writes; None for a stream of
    its own files."""

    derived: tuple[str, ...] = ()
    """Names of derived attributes. They may be added to, so they are no property of the table."""

    def __post_init__(self) -> None:
        for name, least in (("block_events", 1), ("file_events", 1), ("fan_out", 2)):
            value = getattr(self, name)
            if value < least:
                raise SchemaError(f"setting '{name}' is {value}; give at least {least}")

    def to_properties(self) -> dict[str, str]:
        """Return the Delta table properties ``chronicle.*`` that hold these settings."""
        properties = {
            f"{_PREFIX}{name}": str(getattr(self, name))
            for name in ("time", "block_events", "file_events", "fan_out", "format_version")
        }
        if self.key is not None:
            properties[f"{_PREFIX}key"] = self.key
        if self.adopted_from is not None:
            properties[f"{_PREFIX}adopted_from"] = self.adopted_from
        return properties

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> StreamSettings:
        """Read the settings back; other properties are ignored."""
        try:
            return cls(
                time=properties[f"{_PREFIX}time"],
                block_events=int(properties[f"{_PREFIX}block_events"]),
                file_events=int(properties[f"{_PREFIX}file_events"]),
                fan_out=int(properties[f"{_PREFIX}fan_out"]),
                key=properties.get(f"{_PREFIX}key"),
                format_version=int(properties[f"{_PREFIX}format_version"]),
                adopted_from=properties.get(f"{_PREFIX}adopted_from"),
            )
        except (KeyError, ValueError) as error:
            raise StorageError(
                f"Delta table property {error} of the stream is missing or damaged; "
                "restore the table's properties 'chronicle.*' or ingest into a new stream"
            ) from error


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
