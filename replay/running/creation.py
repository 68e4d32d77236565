"""``CREATE STREAM … AS``: the answer of a query kept as a stream, with its lineage."""

from __future__ import annotations

from itertools import chain

import pyarrow as pa

from chronicle import StreamSettings
from chronicle.lineage import Lineage
from chronicle.materialise import materialise
from chronicle.schema import normalise_schema
from replay.running.catalog import StoreCatalog
from replay.running.flows import FlowRun
from replay.running.statement import Parameters


def create_stream(
    catalog: StoreCatalog, run: FlowRun, name: str, time: str, lineage: Lineage
) -> pa.Table:
    """Run a query and keep its answer as a new stream; nothing is left behind where it fails.

    Parameters
    ----------
    catalog
        The store, and where the query reads.
    run
        The query.
    name, time
        Of the new stream: its name and its time column.
    lineage
        What it is made from.

    Returns
    -------
    pyarrow.Table
        One row: the stream, how many events it has, and its version.
    """
    tables = run.tables()
    first = next(tables)
    batches = (batch for table in chain([first], tables) for batch in table.to_batches())
    stream = materialise(
        catalog.store,
        name,
        batches,
        schema=normalise_schema(first.schema),
        settings=StreamSettings(time=time),
        lineage=lineage,
    )
    snapshot = stream.snapshot()
    row = {"stream": name, "events": snapshot.n_events, "version": snapshot.version}
    return pa.Table.from_pylist([row])


def lineage_of(sql: str, catalog: StoreCatalog, params: Parameters) -> Lineage:
    """Return what an answer is made from: the text, the versions read, the parameters."""
    texts = {name: str(value) for name, value in params.items()}
    return Lineage(sql.strip().rstrip(";"), dict(catalog.versions), texts)
