"""What the machine remembers of states it failed from, where conditions look across rows."""
