"""Statements made of parts of another one, which know where each part is from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from replay.errors import QueryError
from replay.language.tokens import Token, ends, place, written


@dataclass(frozen=True, slots=True)
class Composed:
    """A statement made of the tokens of another one.

    Attributes
    ----------
    text
        The statement.
    parameters
        Names of the parameters in it.
    """

    text: str
    starts: tuple[int, ...]
    origins: tuple[int, ...]
    """Where the parts that begin at ``starts`` stand in the text they were taken from."""
    parameters: frozenset[str]
    lists: frozenset[str] = frozenset()
    """Those among them that are lists."""

    def origin(self, at: int) -> int:
        """Return where the part at an offset is from."""
        i = max(0, bisect_right(self.starts, at) - 1)
        return self.origins[i] if self.origins else 0

    def with_selects(self, selects: Mapping[str, str]) -> Composed:
        """Return the statement with queries in the place of relations, by name."""
        names = [name for name in selects if name in self.text]
        if not names:
            return self
        pattern = re.compile(rf"^(?:{'|'.join(names)})\b")  # of a part, not within a text
        parts = [
            pattern.sub(lambda found: f"({selects[found[0]]})", self.text[start:stop])
            for start, stop in pairwise((*self.starts, len(self.text)))
        ]
        starts = tuple(accumulate(map(len, parts[:-1]), initial=0))
        return replace(self, text="".join(parts), starts=starts)

    def between(self, before: str, after: str, origin: int) -> Composed:
        """Return the statement between two texts, of which the second is from a place."""
        starts = (*(len(before) + start for start in self.starts), len(before) + len(self.text))
        text = f"{before}{self.text}{after}"
        return replace(self, text=text, starts=starts, origins=(*self.origins, origin))

    def retell(self, error: QueryError, original: str) -> None:
        """Let an error found in the composed text be one of the text it was taken from."""
        if error.line < 1:
            return
        lines = self.text.split("\n")[: error.line - 1]
        at = self.origin(sum(len(line) + 1 for line in lines) + error.column - 1)
        error.move_to(**place(original, at))


@dataclass(slots=True)
class Composer:
    """Puts statements together, token by token; comments are left out.

    ``is_ours`` says in which language parameters are written: ours (``:x``), or DuckDB's (``$x``).
    """

    is_ours: bool
    _parts: list[str] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _origins: list[int] = field(default_factory=list)
    _parameters: set[str] = field(default_factory=set)
    _lists: set[str] = field(default_factory=set)
    _length: int = 0

    def add(self, text: str, origin: int, *, apart: bool = True) -> None:
        """Add a part; ``apart``: behind a space."""
        if apart and self._parts:
            self._parts.append(" ")
            self._length += 1
        self._starts.append(self._length)
        self._origins.append(origin)
        self._parts.append(text)
        self._length += len(text)

    def add_parameter(
        self, name: str, origin: int, *, apart: bool = True, is_list: bool = False
    ) -> None:
        """Add a parameter.

        DuckDB's ``IN $list`` looks for a value in an array, which knows no NULL; in rows it does.
        """
        self._parameters.add(name)
        text = f"{':' if self.is_ours else '$'}{name}"
        if is_list:
            self._lists.add(name)
            text = text if self.is_ours else f"(SELECT unnest({text}))"
        self.add(text, origin, apart=apart)

    def add_tokens(
        self,
        tokens: Sequence[Token],
        first: int,
        stop: int,
        *,
        parameters: Mapping[int, str],
        replaced: Mapping[int, tuple[int, str]],
    ) -> None:
        """Add tokens.

        ``parameters`` are the names of those that are written in another way than ours, by place;
        ``replaced`` has by its first place what stands for some tokens, and behind which it goes
        on. Tokens that stood together are kept together, since some signs are read as one.
        """
        i = first
        while i < stop:
            token = tokens[i]
            apart = i == first or ends(tokens[i - 1]) != token.at
            if i in replaced:
                i, text = replaced[i]
                self.add(text, token.at)
                continue
            if i in parameters:
                is_list = i > 0 and tokens[i - 1].key == "IN"
                self.add_parameter(parameters[i], token.at, apart=apart, is_list=is_list)
                i += 2 if token.key == "$" else 1
                continue
            self.add(written(token), token.at, apart=apart)
            i += 1

    def compose(self) -> Composed:
        """Return the statement."""
        return Composed(
            "".join(self._parts),
            tuple(self._starts),
            tuple(self._origins),
            frozenset(self._parameters),
            frozenset(self._lists),
        )
