"""The log of a stream: Delta tables, their versions, and what is kept about them."""
