"""The data pipeline on Spark: from files to blocks, summaries and runs."""

from __future__ import annotations

from chronicle.ingest.follow import follow
from chronicle.ingest.jobs import open_runner
from chronicle.ingest.pipeline import ingest
from chronicle.ingest.report import FollowReport, IngestOptions, IngestReport

__all__ = [
    "FollowReport",
    "IngestOptions",
    "IngestReport",
    "follow",
    "ingest",
    "open_runner",
]
