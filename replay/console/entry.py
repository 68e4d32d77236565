"""Where the command begins: before anything is imported that takes long."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; say so where Ctrl-C comes while it is imported."""
    try:
        from replay.console.app import main as run

        run()
    except KeyboardInterrupt:
        from replay.console.show import INTERRUPTED, say

        say("interrupted")
        sys.exit(INTERRUPTED)
