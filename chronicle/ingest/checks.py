"""Refuse, after a look at all events, what cannot be ingested as it is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chronicle.errors import LateEventError, SourceError
from chronicle.ingest.late import LateRoute
from chronicle.ingest.preparation import Job
from chronicle.ingest.survey import LATE_SHOWN_MAX, Survey
from chronicle.ingest.write import TaskOutputs
from chronicle.time import from_int64
from chronicle.write.append import Late


def check_survey(job: Job, survey: Survey, schema: pa.Schema) -> None:
    """Refuse an ingest that would add nothing, or late events where they are not wanted.

    Raises
    ------
    SourceError
        If there is no event.
    LateEventError
        If there are late events and they are to be rejected.
    """
    if survey.n_usable == 0 and not job.request.may_be_empty:
        where = f"'{job.sources.files[0]}'" + (" …" if len(job.sources.files) > 1 else "")
        if survey.n_bad == 0:
            raise SourceError(f"{where} holds no event; nothing was ingested, name another file")
        raise SourceError(
            f"none of the {survey.n_bad:,} records in {where} has a usable time in column "
            f"'{job.settings.time}' and cells that parse; nothing was ingested, "
            "check --time, --time-format and --schema"
        )
    if survey.n_late and job.late is Late.REJECT:
        raise LateEventError(_late_message(job, survey, schema), n_late=survey.n_late)


def _late_message(job: Job, survey: Survey, schema: pa.Schema) -> str:
    time_type = schema.field(job.settings.time).type

    def text(time: int) -> str:
        return str(from_int64(np.array([time], np.int64), time_type).cast(pa.string())[0].as_py())

    assert job.stream_end is not None
    late = [split for split in survey.splits if split.n_late]
    # The newest late event lies somewhere before the end; the oldest is the least of its split.
    oldest = min(split.t_min for split in late)
    shown = [
        f"{text(time)} in '{job.sources.files[split.position].name}'"
        for split in late
        for time in split.late
    ][:LATE_SHOWN_MAX]
    return (
        f"{survey.n_late:,} of {survey.n_usable:,} events are older than the end of stream "
        f"'{job.request.stream_name}' ({text(job.stream_end)}), the oldest of {text(oldest)} "
        f"(first: {', '.join(shown)}); nothing was ingested, take them out, merge them "
        "(--late merge) or put them aside (--late quarantine)"
    )


def check_complete(outputs: TaskOutputs, survey: Survey, route: LateRoute | None) -> None:
    """Check that what was written is what was surveyed: sources may change in between.

    Raises
    ------
    SourceError
        If it is not.
    """
    n_too_late = 0
    if route is not None:
        n_too_late = sum(file.reasons.get(route.reason, 0) for file in outputs.quarantine)
    n_late = sum(file.n_events for file in outputs.late)
    n_events = sum(file.n_events for file in outputs.files) + n_late + n_too_late
    n_bad = sum(file.n_rows for file in outputs.quarantine) - n_too_late
    if (n_events, n_bad) != (survey.n_usable, survey.n_bad):
        raise SourceError(
            f"the sources held {survey.n_usable:,} events and {survey.n_bad:,} other records at "
            f"first and {n_events:,} and {n_bad:,} when they were written; nothing was ingested, "
            "run it again when nobody writes to them"
        )
