"""What is typed into the shell: statements, commands, and words that may be meant. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from chronicle.errors import ChronicleError, did_you_mean
from replay.console.answers import FOR_PEOPLE
from replay.console.options import parameters
from replay.console.show import ROWS_SHOWN

FORMATS = (*FOR_PEOPLE, "json", "jsonl", "csv")
"""Those a terminal can show."""

HELP = """\
Write a query and end it with ; it may have several lines. Ctrl-C ends a query that runs.
.streams              list the streams of the store
.describe STREAM      time range, columns, indexes and sizes of a stream
.plan auto|full|tree|all|relevant|index-only|indexes=A.x,C
                      which plan queries take
.param NAME VALUE     give :NAME in queries a value; .param alone lists them
.explain on|off       print the plan and its steps in place of the answer
.timing on|off        say how long each query took
.format table|expanded|json|jsonl|csv
                      how answers are printed
.rows N               how many rows a table shows
.timeout 30s|off      end queries that take longer
.help                 this list
.quit                 leave, as Ctrl-D does"""

COMMANDS = tuple(sorted(re.findall(r"^\.\w+", HELP, re.MULTILINE)))

_WORDS = (
    "AFTER ALL ANALYZE AND ANY AS ASC ASOF AVG BETWEEN BY CASE CAST CLASSIFIER COUNT CREATE "
    "CUMULATE DEFINE DESC DESCRIBE DESCRIPTOR DISTINCT ELSE EMIT END EXCEPT EXCLUDE EXISTS EXPLAIN "
    "FALSE FILTER FIRST FROM GROUP HAVING HOP IN INTERVAL IS JOIN LAST LEFT LIKE LIMIT MATCH "
    "MATCH_NUMBER MATCH_RECOGNIZE MATCH_SITUATIONS MAX MEASURES MIN NEXT NOT NULL NULLS OFFSET ON "
    "ONE OR ORDER ORIGIN OVER PARTITION PAST PATTERN PER PREV QUALIFY RETURN ROW ROWS SELECT "
    "SESSION SHOW SKIP STREAM STREAMS SUBSET SUM TABLE THEN TO TRUE TUMBLE UNION USING VALID WHEN "
    "WHERE WITH WITHIN"
)
_KEYWORDS = tuple(_WORDS.split())

_PIECE = re.compile(
    r"""
      (?P<blank>  \s+ | --[^\r\n]* | /\*.*?\*/ )
    | (?P<end>    ; )
    | (?P<open>   /\* | '(?! [^']* (?: '' [^']* )* ' ) | "(?! [^"]* (?: "" [^"]* )* " ) )
    | (?P<body>   ' [^']* (?: '' [^']* )* ' | " [^"]* (?: "" [^"]* )* " | [^\s'";/-]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)


def split_statements(text: str) -> tuple[list[str], str]:
    """Return the statements that a ``;`` ends, and the text behind the last of them.

    A ``;`` in a text, a quoted name or a comment ends nothing, nor does one in a temporal pattern
    where more stands behind it on its line. What holds nothing but blanks and comments is no
    statement.

    Examples
    --------
    >>> split_statements("SELECT ';' FROM s; -- done; or not")
    (["SELECT ';' FROM s;"], ' -- done; or not')
    """
    statements, begin, has_body, in_pattern = [], 0, False, False
    for piece in _PIECE.finditer(text):
        if piece["open"] is not None:
            break
        body = piece["body"]
        if piece["end"] is not None and not (in_pattern and _has_more(text, piece.end())):
            if has_body:
                statements.append(text[begin : piece.end()].strip())
            begin, has_body, in_pattern = piece.end(), False, False
        elif body is not None:
            has_body = True
            word = body.upper()
            # Behind PATTERN a row pattern stands in parentheses, a temporal one does not.
            in_pattern = word == "PATTERN" or (in_pattern and not word.startswith(("(", "WITHIN")))
    return statements, text[begin:]


def _has_more(text: str, at: int) -> bool:
    return bool(text[at:].partition("\n")[0].strip())


def is_blank(text: str) -> bool:
    """Return whether a text holds nothing but blanks and comments."""
    return all(piece["blank"] is not None for piece in _PIECE.finditer(text))


@dataclass(frozen=True, slots=True)
class Settings:
    """How the shell asks, and shows what it gets."""

    plan: str = "auto"
    output_format: str = "table"
    rows: int = ROWS_SHOWN
    timeout: str | None = None
    explain: bool = False
    timing: bool = False
    params: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Action:
    """Something the shell is to do at once."""

    name: Literal["help", "quit", "streams", "describe", "params", "set"]
    value: str = ""
    settings: Settings | None = None
    """The settings from now on, of ``set``."""


def read_command(line: str, settings: Settings) -> Action:
    """Return what a line that begins with a point asks for."""
    name, _, value = line.strip().rstrip(";").partition(" ")
    value = value.strip()
    match name:
        case ".help":
            return Action("help")
        case ".quit" | ".exit":
            return Action("quit")
        case ".streams":
            return Action("streams")
        case ".describe":
            return Action("describe", _given(name, value))
        case ".param" if not value:
            return Action("params")
        case _:
            return Action("set", value, _changed(name, value, settings))


def _changed(name: str, value: str, settings: Settings) -> Settings:
    match name:
        case ".plan":
            return replace(settings, plan=_given(name, value))
        case ".param":
            param, _, text = value.removeprefix(":").partition(" ")
            if not text.strip():
                raise ChronicleError(f"'{name} {value}': give a name and a value, as .param s 5")
            given = parameters([f"{param}={text.strip()}"])
            return replace(settings, params={**settings.params, **given})
        case ".explain":
            return replace(settings, explain=_one_of(name, value, ("on", "off")) == "on")
        case ".timing":
            return replace(settings, timing=_one_of(name, value, ("on", "off")) == "on")
        case ".format":
            return replace(settings, output_format=_one_of(name, value, FORMATS))
        case ".rows":
            if not value.isdecimal() or int(value) == 0:
                raise ChronicleError(f"'{name} {value}': give a number of rows, as .rows 100")
            return replace(settings, rows=int(value))
        case ".timeout":
            timeout = _given(name, value)
            return replace(settings, timeout=None if timeout == "off" else timeout)
    hint = did_you_mean(name, COMMANDS)
    raise ChronicleError(f"no command '{name}'{hint or '; .help lists them'}")


def _given(name: str, value: str) -> str:
    if not value:
        raise ChronicleError(f"{name} needs a value; .help says which")
    return value


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ChronicleError(f"{name} takes one of {', '.join(choices)}, not '{value}'")
    return value


def completions(begun: str, names: Iterable[str]) -> list[str]:
    """Return what a word that was begun may become: a command, a keyword, or one of the names.

    Keywords are written as the word was begun, in small letters or in capitals.
    """
    if begun.startswith("."):
        return [command for command in COMMANDS if command.startswith(begun)]
    folded = begun.casefold()
    keywords = [word.lower() if begun.islower() else word for word in _KEYWORDS]
    found = {word for word in (*keywords, *names) if word.casefold().startswith(folded)}
    return sorted(found, key=lambda word: (word.casefold(), word))
