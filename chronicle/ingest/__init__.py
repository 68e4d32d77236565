"""The data pipeline on Spark: from files to blocks, summaries and runs."""

from __future__ import annotations

from chronicle.ingest.pipeline import ingest
from chronicle.ingest.report import IngestOptions, IngestReport

__all__ = ["IngestOptions", "IngestReport", "ingest"]
