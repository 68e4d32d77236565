"""Drawing: one look for all figures, each saved as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WHISKERS = (5, 95)
"""Percentiles at which the whiskers of a box end, as in the thesis."""


def new_figure(n_panels: int) -> tuple[Any, list[Any]]:
    """Return a figure and its panels, side by side."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise SystemExit(
            "matplotlib draws the figures; install the extra 'bench', or give --no-figures"
        ) from error
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "chronicle"  # equal numbers give equal files
    figure, panels = plt.subplots(
        1, n_panels, figsize=(5.2 * n_panels, 3.6), layout="constrained", squeeze=False
    )
    return figure, list(panels[0])


def save(figure: Any, name: str, folder: Path) -> None:
    """Save a figure in both formats, without a date inside, and let go of it."""
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=120)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def bars(panel: Any, labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
    """Draw groups of bars, one group for each label."""
    width = 0.8 / max(len(series), 1)
    for k, (name, values) in enumerate(series.items()):
        places = [i + (k - (len(series) - 1) / 2) * width for i in range(len(labels))]
        panel.bar(places, values, width, label=name)
    wrapped = [label.replace(" (", "\n(") for label in labels]
    panel.set_xticks(range(len(labels)), wrapped, fontsize=7)
    panel.legend(fontsize=7, ncols=2)


def boxes(panel: Any, labels: Sequence[str], values: Sequence[Sequence[float]]) -> None:
    """Draw boxes from the 25th to the 75th percentile, whiskers at the 5th and the 95th."""
    panel.boxplot(list(values), tick_labels=list(labels), whis=WHISKERS, showfliers=False)


def log_scale(panel: Any, values: Sequence[float], *, least: float) -> None:
    """Use a logarithmic scale from ``least`` on, where there is something to show on it."""
    if any(value > least for value in values):
        panel.set_yscale("log")
        panel.set_ylim(bottom=least)
