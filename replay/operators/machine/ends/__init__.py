"""Where a run of one symbol may end, so that what follows it is worth a try."""
