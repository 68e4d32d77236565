"""The options that say how files are read, shared by the commands that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Literal

import typer

from replay.console.options import names

_READING: dict[str, tuple[Any, str]] = {
    "format": (str | None, "parquet, csv, json or arrow; else by file ending."),
    "delimiter": (str | None, "What separates CSV cells, as ';' or tab; else found out."),
    "quote": (str | None, "What encloses CSV cells; '' for nothing."),
    "encoding": (str | None, "Of text files, as utf-16 or latin-1."),
    "decimal_comma": (bool, "1,5 is one and a half."),
    "null": (list[str] | None, "A text that stands for no value, as NA; may be given again."),
    "columns": (list[str] | None, "Names for CSV files without a header line, as a,b,c."),
    "schema": (str | None, "Types of text columns, as 'a INT, b STRING'; else found out."),
    "flatten": (bool, "Fields of JSON objects become columns: a.b becomes a_b."),
    "time_format": (str | None, "Pattern of times, as dd/MM/yyyy HH:mm or %d/%m/%Y."),
    "time_unit": (
        Literal["s", "ms", "us", "ns"] | None,
        "Unit of times that are numbers since 1970.",
    ),
    "time_zone": (str | None, "Zone of local times, as Europe/Berlin."),
    "ambiguous": (
        Literal["earlier", "later", "infer"] | None,
        "Which of two instants a local time is that clocks show twice; infer: by the file's order.",
    ),
}
"""Types and help of the fields of ``ReadOptions``, options of the commands that read files."""


MENDED = ("delimiter", "quote", "encoding", "decimal_comma", "null", "time_format", "time_unit",
          "time_zone", "ambiguous")  # fmt: skip
"""Those of them that a file of mended rows may need."""


def reads_files(
    command: Callable[..., None], taken: Sequence[str] = tuple(_READING)
) -> Callable[..., None]:
    """Let a command take options of `_READING`, which reach it together as ``reading``."""
    options = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=False if kind is bool else None,
            annotation=Annotated[kind, typer.Option(f"--{name.replace('_', '-')}", help=text)],
        )
        for name, (kind, text) in _READING.items()
        if name in taken
    ]
    own = signature(command, eval_str=True)
    parameters: list[Parameter] = []
    for parameter in own.parameters.values():
        parameters += options if parameter.name == "reading" else [parameter]

    @wraps(command)
    def run(**given: Any) -> None:
        reading = {name: given.pop(name) for name in taken}
        sign = reading["delimiter"]
        reading["delimiter"] = "\t" if sign in ("tab", "\\t") else sign
        reading["null"] = tuple(reading["null"] or ())
        if "columns" in reading:
            reading["columns"] = names(reading["columns"])
        command(**given, reading=reading)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run
