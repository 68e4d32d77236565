"""Expressions where no event is at hand, such as in WITHIN and LIMIT: constants."""

from __future__ import annotations

from collections.abc import Callable

from replay.errors import BindError
from replay.language import syntax
from replay.language.bound import Expression, Literal
from replay.language.expression_binder import ExpressionBinder
from replay.language.source import Source, shown

_Bind = Callable[[syntax.Expression], Expression]


class ConstantScope:
    """A place where no event is at hand, such as WITHIN."""

    def __init__(self, source: Source, where: str) -> None:
        self._source = source
        self._where = where

    def column(self, node: syntax.Column) -> Expression:
        """Refuse an attribute."""
        raise self._refusal(node)

    def navigation(self, node: syntax.Navigation, _: _Bind) -> Expression:
        """Refuse navigation."""
        raise self._refusal(node)

    def classifier(self, node: syntax.ClassifierCall) -> Expression:
        """Refuse ``CLASSIFIER()``."""
        raise self._refusal(node)

    def match_number(self, node: syntax.MatchNumberCall) -> Expression:
        """Refuse ``MATCH_NUMBER()``."""
        raise self._refusal(node)

    def aggregate(self, node: syntax.Function, _: _Bind) -> Expression:
        """Refuse an aggregate."""
        raise self._refusal(node)

    def _refusal(self, node: syntax.Node) -> BindError:
        return self._source.error(f"{self._where} takes a constant, not {shown(node)}", node)


def bind_constant(node: syntax.Expression, where: str, source: Source) -> Literal:
    """Return the value of an expression without attributes.

    Raises
    ------
    BindError
        If it reads an event.
    """
    bound = ExpressionBinder(source, ConstantScope(source, where)).bind(node)
    assert isinstance(bound, Literal)
    return bound
