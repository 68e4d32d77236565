"""The command that shows what could not be taken as events, and puts it back once it is mended."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from replay.console.answers import FORMATS, read_target, write_to
from replay.console.options import (
    ExpandedOption,
    RowsOption,
    StoreOption,
    StreamArgument,
    out_path,
    stream_of,
)
from replay.console.reading import MENDED, reads_files
from replay.console.show import print_table, say
from replay.console.startup import keep_heavy_libraries_out

FEW = 10
"""Rows that are shown below the counts."""


@partial(reads_files, taken=MENDED)
def quarantine(
    *,
    stream: StreamArgument,
    store: StoreOption,
    mended: Annotated[
        Path | None,
        typer.Option("--put-back", help="Append the mended rows of this file, each once."),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option("--format", help=f"All rows, as {', '.join(FORMATS)}."),
    ] = None,
    expanded: ExpandedOption = False,
    rows: RowsOption = FEW,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write all rows to a file, to mend them there.", callback=out_path
        ),
    ] = None,
    reading: dict[str, Any],
) -> None:
    """Show the records that could not be taken, and why; or put mended ones back in.

    Write them to a file, correct the stream's columns in it (quarantine_record is not read), take
    out the rows that stay, and put it back. Cells are read as they were before, by decimal comma,
    time format and the like; options given with --put-back count more.

    Example: chronicle quarantine crimes --store data --out bad.csv
    """
    keep_heavy_libraries_out()
    from chronicle.ingest.put_back import put_back
    from chronicle.ingest.read_options import ReadOptions
    from chronicle.write.quarantine import ROWS_SCHEMA, count_reasons, quarantined, to_mend
    from indexing.writer import writer_for

    opened = stream_of(store, stream)
    if mended is not None:
        if out is not None or output_format is not None or expanded:
            raise typer.BadParameter("it appends, and shows no rows", param_hint="--put-back")
        options = ReadOptions(**reading)
        say(str(put_back(opened, mended, options, derived=writer_for(opened))))
        return
    if any(reading.values()):
        raise typer.BadParameter("how cells are read goes with --put-back")
    found = quarantined(opened)
    if out is not None or output_format is not None:
        target = read_target(output_format, out, rows, is_expanded=expanded)
        write_to(target, iter([to_mend(found, opened.schema)]))
        return
    reasons = count_reasons(found)
    if not reasons:
        print(f"nothing is in quarantine of stream '{stream}'")
        return
    print_table(("rows", "reason"), [(f"{count:,}", reason) for reason, count in reasons.items()])
    print()
    shown = found.select(ROWS_SCHEMA.names)
    write_to(read_target(None, None, rows, is_expanded=expanded), iter([shown]))
