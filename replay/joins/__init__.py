"""Planning of joins: which side is asked first, and what then is read of the other."""
