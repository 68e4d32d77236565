"""Vega, Vega-Lite and vega-embed as one script, as vl-convert bundles them.

That takes it some seconds and 160 MB, always with the same outcome, which is kept in the user's
cache folder; where it cannot be kept it is made each time.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from replay.report.files import write

_PACKAGE = "vl-convert-python"


@cache
def vega_script() -> str:
    """Return the script, which may stand inside a script element; it sets ``vegaEmbed``."""
    place = _cache_folder() / f"vega-{version(_PACKAGE)}.js"
    with suppress(OSError, UnicodeDecodeError, RuntimeError):
        digest, _, script = place.read_text(encoding="utf-8").partition("\n")
        if digest == _digest(script):
            return script
    import vl_convert

    script = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace(
        "</script", "<\\/script"
    )
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(place, f"{_digest(script)}\n{script}")
    return script


def _cache_folder() -> Path:
    """Return where caches of the user's programs lie; a folder that need not be there."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path("~/.cache").expanduser()) / "chronicle"


def _digest(script: str) -> str:
    return f"// {hashlib.sha256(script.encode()).hexdigest()}"
