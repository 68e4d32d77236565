"""Vega, Vega-Lite and vega-embed as one script, as vl-convert bundles them.

That takes it some seconds and 160 MB, always with the same outcome, which is kept in the user's
cache folder; where it cannot be kept, or others could write to it, it is made each time.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from chronicle.private_folder import check_private, make_private
from replay.report.files import write

_PACKAGE = "vl-convert-python"


@cache
def vega_script() -> str:
    """Return the script, which may stand inside a script element; it sets ``vegaEmbed``."""
    place = _place()
    if place is not None:
        with suppress(OSError, UnicodeDecodeError):
            check_private(place)
            digest, _, script = place.read_text(encoding="utf-8").partition("\n")
            if digest == _digest(script):
                return script
    import vl_convert

    script = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace(
        "</script", "<\\/script"
    )
    if place is not None:
        with suppress(OSError):
            write(place, f"{_digest(script)}\n{script}")
    return script


def _place() -> Path | None:
    """Return where the script is kept; None where somebody else could put one there, or nobody."""
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(named) if named else Path("~/.cache").expanduser()) / "chronicle"
        make_private(folder)
    except (OSError, RuntimeError):
        return None
    return folder / f"vega-{version(_PACKAGE)}.js"


def _digest(script: str) -> str:
    return f"// {hashlib.sha256(script.encode()).hexdigest()}"
