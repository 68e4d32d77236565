"""Pages to look at, one file each: of an answer, of a plan, of what a stream holds."""
