"""Push-based operators: batches of events in, results out; they know no engine."""
