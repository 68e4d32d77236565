"""The command line: parse, call, print, exit code. Nothing imports it."""
