"""Schema change: a stream can gain nullable columns; anything else is refused with the remedy."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from chronicle.arguments import check_name, check_names
from chronicle.config import EVENTS_TABLE
from chronicle.errors import SchemaError
from chronicle.log import delta_log
from chronicle.log.stream_metadata import add_metadata
from chronicle.schema import composite_parts, normalise_schema
from chronicle.store import Stream, watched
from chronicle.tree.derived_attributes import Delta, check_derived, parse_declared
from chronicle.type_names import sql_type, type_named
from chronicle.write.commit import ADD_COLUMN, OPERATION, retried


@watched
def add_column(stream: Stream, name: str, data_type: pa.DataType | str) -> int:
    """Add a nullable column behind those a stream has; no event is rewritten.

    The events there are have no value in it. Older versions stay without the column. Who writes
    to the stream at the same time has to begin again, with the column.

    Parameters
    ----------
    stream
        The stream.
    name
        Name of the column; differs from every other by more than case.
    data_type
        Its type, or the name of one, see ``type_named``; stored as ``normalise_schema`` says.

    Returns
    -------
    int
        The first version that has the column.

    Raises
    ------
    SchemaError
        If there is a column of that name, or no column can be of that type.
    CommitConflictError
        If others kept committing; run it again.
    """
    check_name(name, "column")
    stream.check_writable()
    wanted = type_named(data_type) if isinstance(data_type, str) else data_type
    _check_not_derived(stream, name)

    def attempt() -> int:
        read_version = stream.refresh()
        field = new_field(stream.schema, name, wanted)
        with stream.held():
            return delta_log.add_columns(
                stream.path / EVENTS_TABLE,
                pa.schema([field]),
                read_version=read_version,
                metadata={OPERATION: ADD_COLUMN, "column": f"{name} {field.type}"},
            )

    version = retried(attempt)
    stream.refresh()
    return version


def _check_not_derived(stream: Stream, name: str) -> None:
    for derived in map(parse_declared, stream.settings.derived):
        if name == derived.name or (isinstance(derived, Delta) and name == derived.open_name):
            raise SchemaError(
                f"the stream derives '{derived.name}', so no column can be named '{name}'; take "
                "another name"
            )


@watched
def add_derived(stream: Stream, names: Sequence[str]) -> tuple[str, ...]:
    """Declare derived attributes of a stream; no event is rewritten.

    Data files written from now on have them in their tree entries. Those written before get them
    with the next ``complete_derived``, as an ingest or ``repair`` does it; until then bounds say
    that nothing is known of these files.

    Parameters
    ----------
    stream
        The stream; may hold events.
    names
        Such as ``delta(speed)``, or ``by(speed)`` for summaries by key; those it has already
        stay as they are.

    Returns
    -------
    tuple of str
        The names as they are stored, in the order given.

    Raises
    ------
    SchemaError
        If one cannot be derived, see ``check_derived``.
    StorageError
        If the file that names a stream's derived attributes is damaged.
    """
    check_names(names, "derived attribute")
    stream.refresh()
    found = tuple(
        derived.name for derived in check_derived(stream.schema, names, key=stream.settings.key)
    )
    add_metadata(stream.path, derived=found)
    stream.refresh()
    return found


def new_field(stored: pa.Schema, name: str, data_type: pa.DataType) -> pa.Field:
    """Return a column as a stream of schema ``stored`` would take it. Pure."""
    if name in stored.names:
        raise SchemaError(
            f"the stream has a column '{name}' of type {sql_type(stored.field(name).type)}; "
            "columns can neither change their type nor be renamed or dropped: add one of another "
            "name, or ingest the events into a new stream"
        )
    if not name or name != name.strip():
        raise SchemaError(f"'{name}' cannot name a column; give a name without spaces around it")
    joined = composite_parts(stored.names, name)
    if joined is not None and all(part in stored.names for part in joined):
        raise SchemaError(
            f"'{name}' is what an index on {' and '.join(joined)} together is called, so no column "
            "can be added of that name; take another"
        )
    return normalise_schema(stored.append(pa.field(name, data_type))).field(name)
