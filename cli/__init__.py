"""The command line: parse, call, print, exit code."""

from __future__ import annotations

from cli.app import main

__all__ = ["main"]
