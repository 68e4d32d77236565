"""Planning: requirements and summaries in, a plan out; knows no class of query, reads no file."""
