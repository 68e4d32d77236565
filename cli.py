"""The ``chronicle`` command line for a checkout: ``python cli.py query ...``."""

from __future__ import annotations

from replay.console.app import main

if __name__ == "__main__":
    main()
