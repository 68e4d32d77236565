"""What names mean in SELECT and its clauses: columns of what is asked, and names given there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replay.errors import BindError
from replay.language import syntax
from replay.language.aggregate_binder import aggregate_of, check_aggregate, takes_fraction
from replay.language.bound import Attribute, DataType, Expression
from replay.language.expression_binder import Bind, ExpressionBinder, Reading, bind_constant
from replay.language.printer import to_sql
from replay.language.relation_columns import Columns
from replay.language.source import Source, resolve, shown
from replay.language.syntax import Identifier


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result: its name, and what it is."""

    name: str
    expression: Expression

    @staticmethod
    def resolve(node: syntax.Column, names: Sequence[str]) -> str | None:
        """Return the name of SELECT that a column without a qualifier means."""
        return None if node.symbol is not None else resolve(node.name, names)


@dataclass(frozen=True, slots=True)
class RowRules:
    """What a clause may name."""

    clause: str
    outputs: tuple[Output, ...] = ()
    """The names given in SELECT that it sees."""
    outputs_first: bool = False
    """Whether they win over columns."""
    hidden: tuple[str, ...] = ()
    """The names given in SELECT that it does not see."""
    aggregates: bool = False
    inside: str = ""
    """Name of the aggregate the expression stands in."""
    distinct: bool = False
    """Whether the names of SELECT are all there is."""


@dataclass(frozen=True, slots=True)
class OuterScope:
    """Names in one clause.

    Where there are keys, the binder looks for them first: a column that comes here is none.
    """

    source: Source
    answer: Columns
    rules: RowRules
    keys: tuple[Expression, ...] | None = None

    def __call__(self, node: Reading, _: Bind) -> Expression:
        """Return what a name, an aggregate or FIRST and LAST of a stream mean; refuse others."""
        match node:
            case syntax.Column():
                return self._column(node)
            case syntax.Function():
                return self._aggregate(node)
            case syntax.Navigation():
                return self._navigation(node)
            case syntax.ClassifierCall():
                raise self._inside_only(node, "CLASSIFIER")
            case syntax.ScalarQuery():
                raise self.source.not_supported("a subquery", node)
        raise self._inside_only(node, "MATCH_NUMBER")

    def _column(self, node: syntax.Column) -> Expression:
        """Return a column of the answer, or what SELECT gives this name to."""
        rules = self.rules
        if rules.distinct:
            raise self._not_selected(node)
        output = self._output(node)
        if output is not None and rules.outputs_first:
            return output
        name = self.answer.find(node)
        if name is not None:
            if self.keys is not None:
                raise self._not_grouped(node)
            return self.answer.attribute(name, node)
        if output is not None:
            return output
        if Output.resolve(node, rules.hidden) is not None:
            raise self.source.error(
                f"'{node.name.name}' is a name that SELECT gives, which {rules.clause} does not "
                "see; repeat its expression here",
                node,
            )
        raise self.answer.missing(node)

    def _navigation(self, node: syntax.Navigation) -> Expression:
        """Return ``FIRST(x)`` or ``LAST(x)``, aggregates of a stream, and refuse the others."""
        if node.kind not in ("FIRST", "LAST") or not self.answer.are_of_stream:
            raise self._inside_only(node, node.kind)
        if node.offset is not None:
            raise self.source.not_supported(f"{node.kind}(x, n) outside MATCH_RECOGNIZE", node)
        return self._aggregate(first_or_last(node))

    def _aggregate(self, node: syntax.Function) -> Expression:
        """Return an aggregate over the rows of a group."""
        rules = self.rules
        if rules.distinct:
            raise self._not_selected(node)
        if rules.inside:
            raise self.source.error(
                f"{rules.inside} cannot hold another aggregate, {shown(node)}", node
            )
        if not rules.aggregates:
            remedy = "; write HAVING" if rules.clause == "WHERE" else ""
            raise self.source.error(
                f"{rules.clause} looks at one row and cannot hold the aggregate {shown(node)}"
                f"{remedy}",
                node,
            )
        if node.scope is not None:
            raise self._inside_only(node, node.scope)
        matched = self.answer.matched
        if matched is not None and matched.reads(node):
            return matched.bind(node)
        check_aggregate(node, self.source, of_stream=self.answer.are_of_stream)
        part = node.args[0]
        if isinstance(part, syntax.Star):
            self.answer.check_qualifier(part.symbol)
            return aggregate_of(node, None, self.source)
        inside = RowRules(
            rules.clause,
            hidden=(*rules.hidden, *(output.name for output in rules.outputs)),
            inside=node.name.name.upper(),
        )
        scope = OuterScope(self.source, self.answer.of_rows(), inside)
        argument = ExpressionBinder(self.source, scope).bind(part)
        fraction = fraction_of(node, self.source) if takes_fraction(node) else None
        return aggregate_of(node, argument, self.source, fraction=fraction)

    def _output(self, node: syntax.Column) -> Expression | None:
        outputs = self.rules.outputs
        name = Output.resolve(node, [output.name for output in outputs])
        expression = next((output.expression for output in outputs if output.name == name), None)
        return None if expression is None else self.computable(expression, node)

    def computable(self, output: Expression, node: syntax.Node) -> Expression:
        """Return what SELECT gives a name to."""
        if isinstance(output, Attribute) and output.type is DataType.NULL:
            column = syntax.Column(Identifier(output.name, True, at=node.at), at=node.at)
            return self.answer.attribute(output.name, column)
        return output

    def _not_grouped(self, node: syntax.Column) -> BindError:
        name = to_sql(node)
        grouped = "add it to GROUP BY" if self.keys else f"add GROUP BY {name}"
        return self.source.error(
            f"column '{node.name.name}' is neither in GROUP BY nor inside an aggregate; "
            f"{grouped}, or write MAX({name})",
            node,
        )

    def _not_selected(self, node: syntax.Expression) -> BindError:
        return self.source.error(
            f"with SELECT DISTINCT, ORDER BY takes what is selected, and {shown(node)} is not",
            node,
        )

    def _inside_only(self, node: syntax.Node, kind: str) -> BindError:
        return self.source.error(
            f"{kind} belongs into MATCH_RECOGNIZE; name it in MEASURES and use that name here",
            node,
        )


def fraction_of(node: syntax.Function, source: Source) -> float:
    """Return the fraction of a percentile."""
    part = node.args[1]
    where = f"the fraction of {node.name.name.upper()}"
    value = bind_constant(part, where, source).value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise source.error(f"{where} is a number from 0 to 1, not {shown(part)}", part)


def first_or_last(node: syntax.Navigation) -> syntax.Function:
    """Return ``FIRST(x)`` or ``LAST(x)`` as the aggregate it is over rows of a stream."""
    name = Identifier(f"{node.kind}_VALUE", at=node.at)
    return syntax.Function(name, (node.operand,), scope=node.scope, at=node.at)


class KeyedBinder(ExpressionBinder):
    """Binds expressions made of keys: what rows are grouped by, or what DISTINCT selects.

    An expression is looked up whole before its parts are, as it was written, so that nothing the
    binder rewrites can hide a key.
    """

    def __init__(
        self,
        source: Source,
        scope: OuterScope,
        free: ExpressionBinder,
        keys: tuple[Expression, ...],
    ) -> None:
        super().__init__(source, scope, of_matches=free.of_matches)
        self._free = free
        self._keys = keys

    def bind(self, node: syntax.Expression) -> Expression:
        """Return the bound expression."""
        if self._keys and not isinstance(node, syntax.Star):
            bound = self._free.bind(node)
            if bound in self._keys:
                return bound
        return super().bind(node)
