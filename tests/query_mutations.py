"""Queries with something wrong with them: mutations of those in docs, goldens and the fuzz.

``mutated_query(seed)`` is a pure function of its seed and of the texts it begins from.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.pattern_cases import pattern_case

ROOT = Path(__file__).parents[1]
FUZZED = 400
"""Seeds of the pattern fuzz whose queries are begun from, too."""

_TOKEN = re.compile(r"\w+|'[^']*'|\"[^\"]*\"|\s+|<>|<=|>=|=>|\|\||\{-|-\}|.", re.DOTALL)
_NUMBERS = (
    *("0", "-1", "1000000", "1000000000", "9223372036854775807", "9223372036854775808"),
    *("1e308", "1e309", "1e-400", "0.1e-5", "1.5", "9" * 40, "9" * 5000, "00", "1_0", "0x10"),
)
_SIGNS = (
    *"éßŉİ\U0001d538\u200b\u202e\x00\ud7ff\ufeff٣²\u2028",
    *("'", '"', "/*", "--", "`", "\\", "::", ";", "@", "{", "}", "[", "]", "!", "?", ":p", "☃"),
)
_QUANTIFIERS = (
    *("{1000000}", "{0}", "{1000000,}", "{,1000000}", "{999999999}", "{3,2}", "*", "+?", "{,}"),
    *("{4096}", "{2}{2}", "{1000}", "{99999999999999999999}"),
)
_AROUND = (
    *(("(", ")"), ("NOT ", ""), ("- ", ""), ("ABS(", ")"), ("CASE WHEN TRUE THEN ", " END")),
    *(("(SELECT * FROM ", ")"), ("PREV(", ")"), ("", " + 1"), ("", " || 'x'"), ("", " AND TRUE")),
    *(("", " OR x"), ("", ", x"), ("", " | A"), ("(A | ", ")*"), ("CAST(", " AS DOUBLE)")),
)
_DEPTHS = (1, 1, 1, 2, 5, 40, 149, 151, 1000, 20_000)


def mutated_query(seed: int) -> str:
    """Return a query that is mutated in one place to three."""
    choose = random.Random(seed)
    tokens = _TOKEN.findall(_any_text(choose))
    mutations = choose.choice((_MUTATIONS, _GENTLE))
    for _ in range(choose.choice((1, 1, 1, 1, 2, 2, 3))):
        if tokens:
            tokens = choose.choice(mutations)(choose, tokens)
    return "".join(tokens)


@cache
def texts() -> tuple[tuple[str, ...], ...]:
    """Return the queries that are mutated: of docs, of goldens, and of the pattern fuzz."""
    pages: list[str] = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        pages += re.findall(r"```sql\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    golden: list[str] = []
    for path in sorted((ROOT / "tests" / "golden" / "queries").glob("*.txt")):
        cases = path.read_text(encoding="utf-8").split("\n== ")[1:]
        queries = [case.split("\n", 1)[1].split("\n--\n")[0] for case in cases]
        golden += [query for query in queries if query and not query.startswith("{")]
    return tuple(pages), tuple(golden), tuple(pattern_case(seed).sql for seed in range(FUZZED))


def _any_text(choose: random.Random) -> str:
    (chosen,) = choose.choices(texts(), weights=(5, 1, 4))
    return choose.choice(chosen)


@cache
def _words() -> tuple[str, ...]:
    every = (text for group in texts() for text in group)
    found = {token for text in every for token in _TOKEN.findall(text) if not token.isspace()}
    return tuple(sorted(found))


# ---------------------------------------------------------------------------------------------
# Mutations: tokens in, tokens out

_Tokens = list[str]


def _place(choose: random.Random, tokens: _Tokens) -> int:
    """Return a token that is no space, if one is met soon."""
    places = [choose.randrange(len(tokens)) for _ in range(4)]
    return next((place for place in places if not tokens[place].isspace()), places[0])


def _deleted(choose: random.Random, tokens: _Tokens) -> _Tokens:
    at, n = _place(choose, tokens), choose.choice((1, 1, 1, 2, 5))
    return tokens[:at] + tokens[at + n :]


def _doubled(choose: random.Random, tokens: _Tokens) -> _Tokens:
    at, n = _place(choose, tokens), choose.choice((1, 1, 3, 8, 20))
    times = choose.choice((1, 1, 1, 2, 200))
    return tokens[: at + n] + [" ", *tokens[at : at + n]] * times + tokens[at + n :]


def _swapped(choose: random.Random, tokens: _Tokens) -> _Tokens:
    one = _place(choose, tokens)
    like = [at for at, token in enumerate(tokens) if _kind(token) == _kind(tokens[one])]
    other = choose.choice(like)
    tokens = [*tokens]
    tokens[one], tokens[other] = tokens[other], tokens[one]
    return tokens


def _replaced(choose: random.Random, tokens: _Tokens) -> _Tokens:
    at = _place(choose, tokens)
    like = tokens if choose.random() < 0.5 else _words()
    others = [token for token in like if _kind(token) == _kind(tokens[at])]
    return [*tokens[:at], choose.choice(others or [""]), *tokens[at + 1 :]]


def _exchanged(choose: random.Random, tokens: _Tokens) -> _Tokens:
    """Put one name, number or text of the query where another of its kind stands."""
    plain = [at for at, token in enumerate(tokens) if _kind(token) not in ("sign", "keyword")]
    at = choose.choice(plain or [0])
    like = [token for token in tokens if _kind(token) == _kind(tokens[at])]
    return [*tokens[:at], choose.choice(like), *tokens[at + 1 :]]


def _computed(choose: random.Random, tokens: _Tokens) -> _Tokens:
    """Put an expression where a name or number stands."""
    plain = [at for at, token in enumerate(tokens) if _kind(token) in ("name", "number")]
    at = choose.choice(plain or [0])
    (before, after), depth = choose.choice(_AROUND), choose.choice((1, 1, 2, 5, 40))
    return [*tokens[:at], before * depth, tokens[at], after * depth, *tokens[at + 1 :]]


def _kind(token: str) -> str:
    """Return what a token may be exchanged with, so that a text has a chance to stay a query."""
    if token.isdecimal():
        return "number"
    if token.isidentifier():
        return "keyword" if token.isupper() and len(token) > 1 else "name"
    return token[:1] if token[:1] in "'\"" else "sign"


def _inserted(choose: random.Random, tokens: _Tokens) -> _Tokens:
    at = _place(choose, tokens)
    return [*tokens[:at], " ", choose.choice(_words()), " ", *tokens[at:]]


def _in_other_case(choose: random.Random, tokens: _Tokens) -> _Tokens:
    change: Callable[[str], str] = choose.choice((str.lower, str.upper, str.swapcase, str.title))
    if choose.random() < 0.3:
        return [change(token) for token in tokens]
    at = _place(choose, tokens)
    return [*tokens[:at], change(tokens[at]), *tokens[at + 1 :]]


def _blown_up(choose: random.Random, tokens: _Tokens) -> _Tokens:
    numbers = [at for at, token in enumerate(tokens) if token.isdecimal()]
    at = choose.choice(numbers) if numbers else _place(choose, tokens)
    return [*tokens[:at], choose.choice(_NUMBERS), *tokens[at + 1 :]]


def _quantified(choose: random.Random, tokens: _Tokens) -> _Tokens:
    at = next((at for at, token in enumerate(tokens) if token.upper() == "PATTERN"), 0)
    at = min(at + choose.randint(1, 8), len(tokens))
    return [*tokens[:at], choose.choice(_QUANTIFIERS), *tokens[at:]]


def _with_sign(choose: random.Random, tokens: _Tokens) -> _Tokens:
    at = _place(choose, tokens)
    token, within = tokens[at], choose.randint(0, len(tokens[at]))
    return [
        *tokens[:at],
        token[:within] + choose.choice(_SIGNS) + token[within:],
        *tokens[at + 1 :],
    ]


def _wrapped(choose: random.Random, tokens: _Tokens) -> _Tokens:
    at, n = _place(choose, tokens), choose.choice((1, 1, 1, 1, 3, 5))
    (before, after), depth = choose.choice(_AROUND), choose.choice(_DEPTHS)
    return [*tokens[:at], before * depth, *tokens[at : at + n], after * depth, *tokens[at + n :]]


def _cut(choose: random.Random, tokens: _Tokens) -> _Tokens:
    at = _place(choose, tokens)
    return tokens[:at] if choose.random() < 0.7 else tokens[at:]


def _spliced(choose: random.Random, tokens: _Tokens) -> _Tokens:
    other = _TOKEN.findall(_any_text(choose))
    at, behind = _place(choose, tokens), _place(choose, other)
    return tokens[:at] + other[behind:]


_MUTATIONS: tuple[Callable[[random.Random, _Tokens], _Tokens], ...] = (
    *[_blown_up] * 3,
    *[_replaced] * 4,
    *[_swapped] * 2,
    *[_in_other_case] * 2,
    *[_wrapped] * 2,
    *(_quantified, _deleted, _doubled, _inserted),
    *(_with_sign, _cut, _spliced),
)

_GENTLE = (_blown_up, _blown_up, _exchanged, _exchanged, _exchanged, _computed, _in_other_case)
"""Mutations that leave many a query one."""
