"""Run the command line as ``python -m cli``."""

from __future__ import annotations

from cli.app import main

if __name__ == "__main__":
    main()
