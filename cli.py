"""The ``chronicle`` command line for a checkout: ``python cli.py query ...``."""

from __future__ import annotations

from replay.console.entry import main

if __name__ == "__main__":
    main()
