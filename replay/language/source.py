"""The text of a query with its parameters, and the errors of binding it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from replay.errors import BindError, NotSupportedError, UnknownNameError
from replay.expressions.literals import from_list, from_parameter
from replay.language.bound import Literal
from replay.language.printer import to_sql
from replay.language.syntax import Expression, Identifier, ListParameter, Node, Parameter
from replay.language.tokens import PlaceArguments, place

_SHOWN_LENGTH = 40

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source:
    """What the user gave: text and parameters."""

    text: str | None
    """None for a tree that was not parsed: its errors have no place."""
    parameters: Mapping[str, object]

    def parameter(self, node: Parameter) -> Literal:
        """Return the value of a parameter."""
        return self._read(node, from_parameter)

    def list_parameter(self, node: ListParameter) -> tuple[Literal, ...]:
        """Return the values of a parameter that is a list."""
        return self._read(node, from_list)

    def _read(self, node: Parameter | ListParameter, read: Callable[[object], T]) -> T:
        """Return what is read of a parameter's value."""
        if node.name not in self.parameters:
            if self.parameters:
                raise self.unknown("parameter", node.name, self.parameters, node)
            raise self.error(f"no value for the parameter ':{node.name}'", node)
        try:
            return read(self.parameters[node.name])
        except (TypeError, ValueError) as error:
            raise self.error(f"the parameter ':{node.name}' {error}", node) from None

    def error(self, message: str, node: Node) -> BindError:
        """Return a binding error at a node."""
        return BindError(message, **self.place(node))

    def unknown(
        self, what: str, name: str, candidates: Iterable[str], node: Node, *, listed: str = ""
    ) -> UnknownNameError:
        """Return ``no <what> '<name>'``, with the nearest candidate.

        ``listed`` says where all of them can be read, if they are too many for a message.
        """
        place = self.place(node)
        return UnknownNameError(what, name, candidates=candidates, listed=listed, **place)

    def not_supported(self, what: str, node: Node, remedy: str = "") -> NotSupportedError:
        """Return the error ``<what> is not supported yet`` at a node."""
        message = f"{what} is not supported yet{f'; {remedy}' if remedy else ''}"
        return NotSupportedError(message, **self.place(node))

    def place(self, node: Node) -> PlaceArguments:
        """Return where a node is, as the errors of queries take it."""
        if self.text is None:
            return {"text": None, "line": 0, "column": 0}
        return place(self.text, node.at)


def resolve(identifier: Identifier, names: Iterable[str]) -> str | None:
    """Return the name meant: the exact one, or else the only one in another case.

    A quoted identifier means the exact name only.
    """
    exact = identifier.name
    candidates = tuple(names)
    if exact in candidates:
        return exact
    if identifier.quoted:
        return None
    folded = exact.casefold()
    similar = [name for name in candidates if name.casefold() == folded]
    return similar[0] if len(similar) == 1 else None


def shown(node: Expression) -> str:
    """Return the text of a node for a message, cut if it is long."""
    text = to_sql(node)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[: _SHOWN_LENGTH - 1]}…"
