"""What is typed into the shell: where statements end, what commands mean, what words may become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle import ChronicleError
from replay.console.shell_input import (
    COMMANDS,
    FORMATS,
    Settings,
    completions,
    is_blank,
    read_command,
    split_statements,
)

BODIES = st.sampled_from(
    [
        "SELECT 1",
        "';'",
        "'it''s; '",
        '";"',
        '"a""b;"',
        "a-b",
        "x / y",
        "''",
        "a - b",
        "PATTERN (A B)",
    ]
)
BLANKS = st.sampled_from([" ", "\n", "-- a; b\n", "/* ; ' \n */", "--\r\n", "/**/"])
STATEMENTS = st.lists(st.tuples(BLANKS, BODIES, BLANKS).map("".join), max_size=5)


@given(statements=STATEMENTS, rest=st.lists(BLANKS | BODIES, max_size=3).map(" ".join))
def test_each_statement_ends_at_its_own_semicolon(statements: list[str], rest: str) -> None:
    text = "".join(f"{statement};" for statement in statements) + rest

    assert split_statements(text) == ([f"{each};".strip() for each in statements], rest)


@given(STATEMENTS)
def test_lines_that_come_one_by_one_give_the_same_statements(statements: list[str]) -> None:
    whole = "".join(f"{statement};\n" for statement in statements)
    found, pending = [], ""
    for line in whole.splitlines(keepends=True):
        done, pending = split_statements(pending + line)
        found += done

    assert found == split_statements(whole)[0]
    assert is_blank(pending)


def test_relations_of_a_temporal_pattern_are_no_ends_of_statements() -> None:
    first = "FROM s DEFINE A AS x, B AS y PATTERN A meets;overlaps B; B contains A WITHIN 5;"
    second = (
        "SELECT * FROM s MATCH_SITUATIONS (DEFINE A AS x\nPATTERN A meets; overlaps B WITHIN 5);"
    )
    assert split_statements(f"{first} {second}\n SELECT 1;") == ([first, second, "SELECT 1;"], "")
    # At the end of a line it ends what is written so far, which is told what it lacks.
    assert split_statements("FROM s PATTERN A meets B;\n") == (["FROM s PATTERN A meets B;"], "\n")


@pytest.mark.parametrize("text", ["SELECT 'a;", 'SELECT "a;', "SELECT 1 /* ;", "SELECT 1 -- ;"])
def test_what_is_still_open_waits(text: str) -> None:
    assert split_statements(text) == ([], text)


@pytest.mark.parametrize("text", [";", " ; ; ", "-- nothing\n;", "/* ; */;"])
def test_nothing_but_blanks_is_no_statement(text: str) -> None:
    assert split_statements(text)[0] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (".plan full", Settings(plan="full")),
        (".explain on", Settings(explain=True)),
        (".timing on;", Settings(timing=True)),
        (".format csv", Settings(output_format="csv")),
        (".rows 7", Settings(rows=7)),
        (".timeout 30s", Settings(timeout="30s")),
        (".timeout off", Settings()),
        (".param low 5", Settings(params={"low": 5})),
        (".param :who Ann Lee;", Settings(params={"who": "Ann Lee"})),
        (".param day 2024-05-01", Settings(params={"day": "2024-05-01"})),
    ],
)
def test_a_command_changes_one_setting(line: str, expected: Settings) -> None:
    assert read_command(line, Settings()).settings == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (".fromat csv", "did you mean '.format'"),
        (".x", ".help lists them"),
        (".format parquet", ", ".join(FORMATS)),
        (".rows none", "give a number"),
        (".rows 0", "give a number"),
        (".describe", "needs a value"),
        (".explain", "on, off"),
        (".param low", "give a name and a value, as .param s 5"),
    ],
)
def test_what_is_no_command_is_told(line: str, said: str) -> None:
    with pytest.raises(ChronicleError) as refused:
        read_command(line, Settings())
    assert said in str(refused.value)


def test_every_command_of_the_help_is_one() -> None:
    values = {
        ".describe": "s",
        ".param": "low 5",
        ".plan": "full",
        ".format": "json",
        ".rows": "1",
        ".timeout": "1s",
    }
    for command in COMMANDS:
        read_command(f"{command} {values.get(command, 'on')}", Settings())


def test_words_become_commands_keywords_and_names_in_their_case() -> None:
    names = ["speed", "selected", "Ticks"]

    assert completions(".e", names) == [".explain"]
    assert completions("sel", names) == ["select", "selected"]
    assert completions("MATCH_", names) == [
        "MATCH_NUMBER",
        "MATCH_RECOGNIZE",
        "MATCH_SITUATIONS",
    ]
    assert completions("ti", names) == ["Ticks"]
