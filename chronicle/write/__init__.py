"""Every change of a stream: append, adopt, rewrite, delete, new columns; and its commit."""
