"""Files read and appended in this process: what ingest does with Spark, for a few events."""
