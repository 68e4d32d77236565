"""Functions of the expression language as operators evaluate them: by column and compiled."""
