"""Tokens and their places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import PatternSyntaxError
from replay.language.tokens import place, tokenize


def texts(query):
    return [token.text for token in tokenize(query)]


def test_words_signs_and_values():
    assert texts("""A.x>=1.5e3 AND "a ""b" <> 'it''s':p{,3}?""") == [
        *("A", ".", "x", ">=", "1.5e3", "AND", 'a "b', "<>", "it's", "p", "{", ",", "3", "}", "?"),
        "",
    ]


def test_comments_are_skipped():
    assert texts("a -- b 'c\n/* d\n -- */ - e /* f */") == ["a", "-", "e", ""]


def test_exclusion_is_one_sign_each():
    assert texts("{- A -}") == ["{-", "A", "-}", ""]


@pytest.mark.parametrize("number", ["1", "1.", ".5", "1e5", "12.5E-3"])
def test_number(number):
    (token, _) = tokenize(number)
    assert (token.kind, token.text) == ("number", number)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("a 'b", "this text is not closed"),
        ('a "b', "this name is not closed"),
        ("a /* b", "this comment is not closed"),
        ('""', "a name cannot be empty"),
        ("a # b", "no query has the sign '#'"),
        ("5x", "runs into what follows"),
        ("1.2.3", "runs into what follows"),
    ],
)
def test_what_is_no_token(query, words):
    with pytest.raises(PatternSyntaxError, match=words):
        tokenize(query)


def test_long_text_that_is_not_closed_is_found_at_once():
    with pytest.raises(PatternSyntaxError):
        tokenize("'" + "a" * 100_000)


@given(st.text("ab 1.'\"/*-\n\r\t{}:x", max_size=30))
def test_every_token_is_where_it_says(query):
    try:
        tokens = tokenize(query)
    except PatternSyntaxError:
        return
    for token in tokens[:-1]:
        where = place(query, token.at)
        line = query.splitlines()[where["line"] - 1]
        assert line[where["column"] - 1] == query[token.at]
