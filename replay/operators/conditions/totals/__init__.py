"""Running totals of the rows mapped to a set of symbols."""
