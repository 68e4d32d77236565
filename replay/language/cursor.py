"""A place in the tokens of a query, the queries that it can name, and the errors found there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from replay.language.syntax import Expression, PatternQuery, SelectQuery
from replay.errors import NotSupportedError, PatternSyntaxError
from replay.language.syntax import Identifier
from replay.language.tokens import (
    END,
    NAME,
    OPERATOR,
    PARAMETER,
    QUOTED,
    STRING,
    Token,
    place,
    tokenize,
)

Item = TypeVar("Item")

DEPTH_MAX = 30
"""Levels of subqueries inside each other."""
READS_MAX = 200
"""Streams a query may read, each as often as it is named: names of WITH are written out."""


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query that WITH gives a name."""

    query: SelectQuery | PatternQuery
    n_reads: int
    """Streams it reads, written out."""
    n_levels: int
    """Levels of subqueries it is, itself one."""


class NamedQueries:
    """The queries a place can name, and what the text so far is written out to."""

    def __init__(self) -> None:
        self.known: dict[str, NamedQuery] = {}
        self.n_reads = 0
        self._depth = 0
        self._deepest = 0

    @property
    def is_too_large(self) -> bool:
        """Whether the query reads more streams, or nests deeper, than it may."""
        return self.n_reads > READS_MAX or self._deepest > DEPTH_MAX

    def read(self, named: NamedQuery | None = None) -> None:
        """Count a stream, or all that a named query reads."""
        self.n_reads += 1 if named is None else named.n_reads
        if named is not None:
            self._deepest = max(self._deepest, self._depth + named.n_levels)

    @contextmanager
    def subquery(self) -> Iterator[None]:
        """Count a level of subqueries more."""
        self._depth += 1
        self._deepest = max(self._deepest, self._depth)
        yield
        self._depth -= 1

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget afterwards what was named inside."""
        outside = dict(self.known)
        yield
        self.known = outside

    def define(self, name: str, parse: Callable[[], SelectQuery | PatternQuery]) -> None:
        """Parse a query and give it a name; it counts where it is named."""
        n_reads, deepest = self.n_reads, self._deepest
        self._deepest = self._depth
        query = parse()
        n_levels = self._deepest - self._depth + 1
        self.known[name] = NamedQuery(query, self.n_reads - n_reads, n_levels)
        self.n_reads, self._deepest = n_reads, deepest


_RESERVED_WORDS = (
    "AND AS BETWEEN CASE ELSE END FALSE FROM IN IS LIKE NOT NULL OR SELECT THEN TRUE WHEN"
)
RESERVED = frozenset(_RESERVED_WORDS.split())
"""Words that are names only in quotes; every other keyword is one only where its clause can be."""

MAX_NESTING = 150
"""Levels of nesting (and operators in a row): far below Python's limit on recursion."""


class Cursor:
    """Reads tokens from left to right, never back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.token = self.tokens[0]
        self.nesting = 0
        self.queries = NamedQueries()
        self.scalar_query: Callable[[Cursor], Expression] | None = None
        """Parses a subquery that is a value, where there may be one."""
        self.index = 0
        self._last = len(self.tokens) - 1

    def replace_tokens(self, tokens: list[Token]) -> None:
        """Go on from the first of other tokens of the same text."""
        self.tokens, self.token, self.index = tokens, tokens[0], 0
        self._last = len(tokens) - 1

    def peek(self, distance: int = 1) -> Token:
        """Return the token ``distance`` further on (END beyond the end)."""
        return self.tokens[min(self.index + distance, self._last)]

    def advance(self) -> Token:
        """Step over the current token and return it."""
        token = self.token
        if self.index < self._last:
            self.index += 1
            self.token = self.tokens[self.index]
        return token

    def accept(self, key: str, *further: str) -> bool:
        """Step over these tokens if all of them come next."""
        if self.token.key != key or (further and not self.at(key, *further)):
            return False
        for _ in range(1 + len(further)):
            self.advance()
        return True

    def at(self, key: str, *further: str) -> bool:
        """Tell whether these tokens come next."""
        if self.token.key != key:
            return False
        return all(self.peek(ahead).key == then for ahead, then in enumerate(further, 1))

    def expect(self, key: str, why: str = "") -> Token:
        """Step over a token that must be there."""
        if self.token.key != key:
            raise self.error(
                f"expected {key}{' ' if why else ''}{why}, found {describe(self.token)}"
            )
        return self.advance()

    def begin_clause(
        self, name: str, given: list[str], places: Mapping[str, int], where: str
    ) -> None:
        """Step over the first word of a clause, which joins those ``given`` before it.

        One that was given, or stands behind one of a later place, is an error; one without a
        place can stand anywhere.
        """
        if name in given:
            raise self.error(f"{name} is given twice")
        for later in given:
            if name in places and places.get(later, 0) > places[name]:
                raise self.error(f"{name} stands before {later} {where}")
        given.append(name)
        self.advance()

    def separated(self, parse: Callable[[Cursor], Item]) -> tuple[Item, ...]:
        """Parse one or more with commas between them."""
        items = [parse(self)]
        while self.accept(","):
            items.append(parse(self))
        return tuple(items)

    def closes(self, opening: Token, key: str = ")") -> bool:
        """Step over what closes an opening token, and tell whether it was there; not at the end."""
        if self.token.kind == END:
            raise self.error(f"this '{opening.text}' is not closed", opening.at)
        return self.accept(key)

    def identifier(self, what: str) -> Identifier:
        """Step over a name."""
        token = self.token
        if token.kind == NAME and token.key not in RESERVED:
            self.advance()
            return Identifier(token.text, at=token.at)
        if token.kind == QUOTED:
            self.advance()
            return Identifier(token.text, True, at=token.at)
        raise self.error(f"expected {what}, found {describe(token)}" + _quoting_hint(token))

    def enter(self) -> None:
        """Count one level of nesting more."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.not_supported(
                f"an expression or pattern nested over {MAX_NESTING} levels deep"
            )

    def leave(self, levels: int = 1) -> None:
        """Count some levels of nesting less."""
        self.nesting -= levels

    def error(self, message: str, at: int | None = None) -> PatternSyntaxError:
        """Return a syntax error here, or at an offset."""
        return PatternSyntaxError(message, **place(self.text, self.token.at if at is None else at))

    def not_supported(
        self, what: str, at: int | None = None, remedy: str = ""
    ) -> NotSupportedError:
        """Return the error ``<what> is not supported yet`` here, or at an offset."""
        message = f"{what} is not supported yet{f'; {remedy}' if remedy else ''}"
        return NotSupportedError(message, **place(self.text, self.token.at if at is None else at))


def describe(token: Token) -> str:
    """Return how an error calls a token."""
    if token.kind == END:
        return "the end of the query"
    if token.kind == STRING:
        return f"the text '{token.text}'"
    if token.kind == QUOTED:
        return f'the name "{token.text}"'
    if token.kind == PARAMETER:
        return f"the parameter ':{token.text}'"
    if token.kind in (NAME, OPERATOR):
        return f"'{token.text}'"
    return f"the number {token.text}"


def _quoting_hint(token: Token) -> str:
    if token.kind == NAME:
        return f' (a keyword; as a name it is written "{token.text}")'
    return ""
