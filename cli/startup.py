"""Keep commands quick to start."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002
        if fullname == "pandas":
            raise ModuleNotFoundError(f"no module '{fullname}' is wanted", name=fullname)


def keep_pandas_out() -> None:
    """Let PyArrow find no pandas, once and for all.

    It loads pandas with the first array it makes, wherever pandas is installed (Spark's workers
    need it); that takes as long as many a query, and nothing of it is used.
    """
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    blind = _NoPandas()
    sys.meta_path.insert(0, blind)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(blind)
