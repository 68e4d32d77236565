"""``CREATE STREAM … AS``: the answer of a query kept as a stream, with its lineage."""

from __future__ import annotations

from itertools import chain

import pyarrow as pa

from chronicle import StreamSettings
from chronicle.schema import normalise_schema
from chronicle.settings import Lineage
from chronicle.write.materialise import materialise
from replay.errors import QueryError
from replay.language.bound import BoundCreate
from replay.result import Result
from replay.running.catalog import Catalog, StoreCatalog
from replay.running.run import QueryRequest, Run


def create_stream(catalog: Catalog, run: Run, create: BoundCreate, asked: QueryRequest) -> Result:
    """Run a query and keep its answer as a new stream; nothing is left behind where it fails.

    Parameters
    ----------
    catalog
        The store, and where the query reads.
    run
        The query.
    create
        The new stream.
    asked
        The query as it was asked, for the stream's lineage.

    Returns
    -------
    Result
        One row: the stream, how many events it has, and its version.

    Raises
    ------
    QueryError
        If there is no store to keep it in.
    """
    if not isinstance(catalog, StoreCatalog):
        raise QueryError(
            "CREATE STREAM makes a stream of a store, and these are tables in memory; open or "
            "create a store and append them to it"
        )
    tables = run.tables()
    first = next(tables)
    batches = (batch for table in chain([first], tables) for batch in table.to_batches())
    stream = materialise(
        catalog.store,
        create.name,
        batches,
        schema=normalise_schema(first.schema),
        settings=StreamSettings(time=create.time),
        lineage=_lineage_of(asked, catalog),
    )
    snapshot = stream.snapshot()
    row = {"stream": create.name, "events": snapshot.n_events, "version": snapshot.version}
    return run.to_result(pa.Table.from_pylist([row]))


def _lineage_of(asked: QueryRequest, catalog: StoreCatalog) -> Lineage:
    """Return what an answer is made from: the text, the versions read, the parameters."""
    texts = {name: str(value) for name, value in asked.params.items()}
    return Lineage(asked.sql.strip().rstrip(";"), dict(catalog.versions), texts)
