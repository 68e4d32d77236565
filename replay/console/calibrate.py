"""The command that measures the weights of the cost model."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.console.options import JsonOption, StoreOption, store_of
from replay.console.progress import Progress, shown
from replay.console.show import print_table, say
from replay.console.startup import let_scipy_in

if TYPE_CHECKING:
    from replay.calibration.measure import Calibration
    from replay.calibration.sample import Checked


def calibrate(
    store: StoreOption,
    stream: Annotated[
        str | None, typer.Argument(help="Stream to measure on; else the largest.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=3600, help="How long to measure.")
    ] = 45.0,
    report: Annotated[
        bool,
        typer.Option("--report", help="Run a sample of queries: estimated against measured."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure; store nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure what work costs on this machine and store, for planning to choose by.

    Example: chronicle calibrate --store data --report
    """
    let_scipy_in()
    from replay.calibration.measure import calibrate as measure
    from replay.calibration.measure import choose_stream, keep
    from replay.calibration.sample import check_estimates
    from replay.engines.weights import check_storable

    opened = store_of(store)
    chosen = choose_stream(opened, stream)
    if not dry_run:
        check_storable(opened.path)
    begins = f"measuring on stream '{chosen.name}' for about {seconds:g} s"
    with Progress("measuring"):
        done = measure(chosen, seconds=seconds, progress=_progress(begins, "measured"))
    for note in done.notes:
        say(f"note: {note}")
    checked: list[Checked] = []
    if report:
        show = _progress("carrying out a sample of queries", "carried out")
        with Progress("carrying out queries"):
            checked = list(check_estimates(opened, chosen, done.fit.parameters, progress=show))
    if as_json:
        shown = done.to_dict() | ({"sample": [one.to_dict() for one in checked]} if report else {})
        print(json.dumps(shown, indent=2))
    else:
        _print_weights(done)
        if report:
            _print_sample(checked)
    if dry_run:
        say("nothing was stored")
        return
    say(f"stored in '{keep(opened, done)}'; queries are planned by it from now on")


def _progress(begins: str, verb: str) -> Callable[[float], None]:
    """Return what says that work begins, and every tenth of how far it has come.

    A bar that is drawn shows each hundredth instead.
    """
    said = -1

    def show(share: float) -> None:
        nonlocal said
        tenth, bar = int(share * 10), shown()
        if said < 0:
            say(begins)
            said = 0
        if bar is not None:
            bar.count(int(share * 100), 100)
            return
        if tenth > said:
            said = tenth
            say(f"{verb} {tenth * 10} %")

    return show


def _print_weights(done: Calibration) -> None:
    shown: dict[str, Any] = done.to_dict()
    rows = [
        (
            name.removesuffix("_s"),
            _time(weight["value"]),
            weight["unit"].removeprefix("s "),
            _time(weight["default"]),
            "measured" if weight["measured"] else "default",
        )
        for name, weight in shown["weights"].items()
    ]
    print_table(("weight", "value", "unit", "default", "from"), rows)
    fit = shown["fit"]
    print(
        f"R² {fit['r2']:.4f} over {fit['operations']:,} operations; half are estimated within "
        f"{fit['median_error']:.0%}, nine of ten within {fit['error_of_9_in_10']:.0%}; besides, "
        f"{_time(fit['overhead_s'])} per operation\n"
    )
    kinds = [
        (
            kind["kind"],
            str(kind["operations"]),
            f"{_time(kind['seconds_min'])} to {_time(kind['seconds_max'])}",
            f"{kind['median_error']:.0%}",
            f"{kind['bias']:+.0%}",
        )
        for kind in shown["kinds"]
    ]
    print_table(("operation", "timed", "took", "median error", "bias"), kinds)


def _print_sample(checked: list[Checked]) -> None:
    print()
    rows = [
        (
            str(one.number),
            f"{one.plan}{' *' if one.chosen else ''}",
            _time(one.estimated_s),
            _time(one.measured_s),
            f"{one.error:+.0%}",
            f"{one.estimated_blocks:,.0f}",
            f"{one.read_blocks:,}",
        )
        for one in checked
    ]
    heads = ("query", "plan", "estimated", "measured", "error", "blocks estimated", "read")
    print_table(heads, rows)
    if checked:
        middle = statistics.median(abs(one.error) for one in checked)
        print(f"* chosen; half of the {len(checked)} plans are estimated within {middle:.0%}")


def _time(seconds: float) -> str:
    """Return a time with the unit it reads best in."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
