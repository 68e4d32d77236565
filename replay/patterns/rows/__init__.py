"""The rows of the answer: what MEASURES see of the rows of a match, row by row."""
