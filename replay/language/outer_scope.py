"""What names mean in SELECT and its clauses: columns of what is asked, and names given there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from replay.errors import BindError
from replay.language import syntax
from replay.language.aggregate_binder import aggregate_of, check_aggregate, takes_fraction
from replay.language.bound import Attribute, DataType, Expression
from replay.language.expression_binder import ExpressionBinder, bind_constant
from replay.language.printer import to_sql
from replay.language.source import Source, resolve, shown
from replay.language.syntax import Identifier, PatternQuery


class Columns(Protocol):
    """The columns that SELECT and its clauses can name."""

    @property
    def are_of_stream(self) -> bool:
        """Whether their rows are those of a stream, in its order."""
        ...

    def all(self, star: syntax.Star) -> list[syntax.Column]:
        """Return the columns that ``*`` or ``m.*`` stands for."""
        ...

    def find(self, node: syntax.Column) -> str | None:
        """Return the name of the column meant; None if there is none."""
        ...

    def name(self, node: syntax.Column) -> str:
        """Return the name of the column meant; raise `missing` if there is none."""
        ...

    def title(self, node: syntax.Column) -> str:
        """Return the name the column has in the answer."""
        ...

    def attribute(self, name: str, node: syntax.Column) -> Attribute:
        """Return the column as an expression."""
        ...

    def selected(self, name: str, node: syntax.Column) -> Attribute:
        """Return the column as one that is selected as it is."""
        ...

    def check_qualifier(self, star: syntax.Star) -> None:
        """Check what stands before ``.*``."""
        ...

    def missing(self, node: syntax.Column) -> BindError:
        """Return the error on a column that is not there."""
        ...

    def of_rows(self) -> Columns:
        """Return those that WHERE and the arguments of aggregates can name."""
        ...


class AnswerColumns:
    """The columns of MATCH_RECOGNIZE's answer by name."""

    are_of_stream = False

    def __init__(
        self,
        query: PatternQuery,
        columns: tuple[tuple[str, DataType | None], ...],
        source: Source,
        attribute_names: Sequence[str],
    ) -> None:
        self.names = tuple(name for name, _ in columns)
        self._types = dict(columns)
        self._query = query
        self._source = source
        self._attribute_names = attribute_names

    def all(self, star: syntax.Star) -> list[syntax.Column]:
        """Return the columns that ``*`` or ``m.*`` stands for."""
        self._check_qualifier(star.symbol)
        if not self.names:
            raise self._nothing()
        return [
            syntax.Column(Identifier(name, True, at=star.at), at=star.at) for name in self.names
        ]

    def find(self, node: syntax.Column) -> str | None:
        """Return the name of the column meant; None if there is none."""
        self._check_qualifier(node.symbol)
        return resolve(node.name, self.names)

    def name(self, node: syntax.Column) -> str:
        """Return the name of the column meant.

        Raises
        ------
        BindError
            If there is none.
        """
        name = self.find(node)
        if name is None:
            raise self.missing(node)
        return name

    def title(self, node: syntax.Column) -> str:
        """Return the name the column has in the answer: its own."""
        return self.name(node)

    def of_rows(self) -> AnswerColumns:
        """Return these columns: every clause sees the same."""
        return self

    def attribute(self, name: str, node: syntax.Column) -> Attribute:
        """Return the column as an expression."""
        data_type = self._types[name]
        if data_type is None:
            raise self._source.error(
                f"column '{name}' has a type that queries can only select as it is, with nothing "
                "but LIMIT around",
                node,
            )
        return Attribute(name, data_type)

    def selected(self, name: str, node: syntax.Column) -> Attribute:
        """Return the column as one that is selected as it is."""
        return self.attribute(name, node)

    def check_qualifier(self, star: syntax.Star) -> None:
        """Check what stands before ``.*``."""
        self._check_qualifier(star.symbol)

    def missing(self, node: syntax.Column) -> BindError:
        """Return the error on a column that is not there."""
        if not self.names:
            return self._nothing()
        attribute = resolve(node.name, self._attribute_names)
        if attribute is not None:
            name = to_sql(node.name)
            return self._source.error(
                f"attribute '{attribute}' is not part of the answer, which has one row per match; "
                f"name it in MEASURES, such as LAST({name}) AS {name}",
                node.name,
            )
        return self._source.unknown(
            "column of the answer called", node.name.name, self.names, node.name
        )

    def _nothing(self) -> BindError:
        return self._source.error(
            "nothing to select: the answer has the columns of PARTITION BY and MEASURES, and "
            "there are none; add a measure such as MEASURES MATCH_NUMBER() AS no",
            self._query,
        )

    def _check_qualifier(self, qualifier: Identifier | None) -> None:
        if qualifier is None:
            return
        alias = self._query.alias
        known = [alias.name] if alias is not None else []
        if resolve(qualifier, known) is None:
            hint = f"its alias '{known[0]}'" if known else "no alias here"
            read = self._query.qualifier
            is_source = read is not None and resolve(qualifier, [read]) is not None
            remedy = (
                "an alias of it stands behind MATCH_RECOGNIZE (…)"
                if is_source and not known
                else "values of symbols are named in MEASURES"
            )
            raise self._source.error(
                f"'{qualifier.name}' does not name the result of MATCH_RECOGNIZE, which has "
                f"{hint}; {remedy}",
                qualifier,
            )


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


class OuterScope:
    """Names in one clause.

    Where there are keys, the binder looks for them first: a column that comes here is none.
    """

    def __init__(
        self,
        source: Source,
        answer: Columns,
        rules: RowRules,
        keys: tuple[Expression, ...] | None = None,
    ) -> None:
        self._source = source
        self._answer = answer
        self._rules = rules
        self._keys = keys

    def column(self, node: syntax.Column) -> Expression:
        """Return a column of the answer, or what SELECT gives this name to."""
        rules = self._rules
        if rules.distinct:
            raise self._not_selected(node)
        output = self._output(node)
        if output is not None and rules.outputs_first:
            return output
        name = self._answer.find(node)
        if name is not None:
            if self._keys is not None:
                raise self._not_grouped(node)
            return self._answer.attribute(name, node)
        if output is not None:
            return output
        if Output.resolve(node, rules.hidden) is not None:
            raise self._source.error(
                f"'{node.name.name}' is a name that SELECT gives, which {rules.clause} does not "
                "see; repeat its expression here",
                node,
            )
        raise self._answer.missing(node)

    def navigation(
        self, node: syntax.Navigation, bind: Callable[[syntax.Expression], Expression]
    ) -> Expression:
        """Return ``FIRST(x)`` or ``LAST(x)``, aggregates of a stream, and refuse the others."""
        if node.kind not in ("FIRST", "LAST") or not self._answer.are_of_stream:
            raise self._inside_only(node, node.kind)
        if node.offset is not None:
            raise self._source.not_supported(f"{node.kind}(x, n) outside MATCH_RECOGNIZE", node)
        name = Identifier(f"{node.kind}_VALUE", at=node.at)
        call = syntax.Function(name, (node.operand,), scope=node.scope, at=node.at)
        return self.aggregate(call, bind)

    def classifier(self, node: syntax.ClassifierCall) -> Expression:
        """Refuse ``CLASSIFIER()``."""
        raise self._inside_only(node, "CLASSIFIER")

    def match_number(self, node: syntax.MatchNumberCall) -> Expression:
        """Refuse ``MATCH_NUMBER()``."""
        raise self._inside_only(node, "MATCH_NUMBER")

    def aggregate(
        self, node: syntax.Function, _: Callable[[syntax.Expression], Expression]
    ) -> Expression:
        """Return an aggregate over the rows of a group."""
        rules = self._rules
        if rules.distinct:
            raise self._not_selected(node)
        if rules.inside:
            raise self._source.error(
                f"{rules.inside} cannot hold another aggregate, {shown(node)}", node
            )
        if not rules.aggregates:
            remedy = "; write HAVING" if rules.clause == "WHERE" else ""
            raise self._source.error(
                f"{rules.clause} looks at one row and cannot hold the aggregate {shown(node)}"
                f"{remedy}",
                node,
            )
        if node.scope is not None:
            raise self._inside_only(node, node.scope)
        check_aggregate(node, self._source, of_stream=self._answer.are_of_stream)
        part = node.args[0]
        if isinstance(part, syntax.Star):
            self._answer.check_qualifier(part)
            return aggregate_of(node, None, self._source)
        inside = RowRules(
            rules.clause,
            hidden=(*rules.hidden, *(output.name for output in rules.outputs)),
            inside=node.name.name.upper(),
        )
        scope = OuterScope(self._source, self._answer.of_rows(), inside)
        argument = ExpressionBinder(self._source, scope).bind(part)
        fraction = self._fraction(node) if takes_fraction(node) else None
        return aggregate_of(node, argument, self._source, fraction=fraction)

    def _fraction(self, node: syntax.Function) -> float:
        """Return the fraction of a percentile."""
        part = node.args[1]
        where = f"the fraction of {node.name.name.upper()}"
        value = bind_constant(part, where, self._source).value
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value)
        raise self._source.error(f"{where} is a number from 0 to 1, not {shown(part)}", part)

    def _output(self, node: syntax.Column) -> Expression | None:
        outputs = self._rules.outputs
        name = Output.resolve(node, [output.name for output in outputs])
        expression = next((output.expression for output in outputs if output.name == name), None)
        return None if expression is None else self.computable(expression, node)

    def computable(self, output: Expression, node: syntax.Node) -> Expression:
        """Return what SELECT gives a name to.

        Raises
        ------
        BindError
            If it is a column of a type that can only be selected.
        """
        if isinstance(output, Attribute) and output.type is DataType.NULL:
            column = syntax.Column(Identifier(output.name, True, at=node.at), at=node.at)
            return self._answer.attribute(output.name, column)
        return output

    def _not_grouped(self, node: syntax.Column) -> BindError:
        name = to_sql(node)
        remedy = f"add it to GROUP BY, or write MAX({name})" if self._keys else f"write MAX({name})"
        return self._source.error(
            f"column '{node.name.name}' is neither in GROUP BY nor inside an aggregate; {remedy}",
            node,
        )

    def _not_selected(self, node: syntax.Expression) -> BindError:
        return self._source.error(
            f"with SELECT DISTINCT, ORDER BY takes what is selected, and {shown(node)} is not",
            node,
        )

    def _inside_only(self, node: syntax.Node, kind: str) -> BindError:
        return self._source.error(
            f"{kind} belongs into MATCH_RECOGNIZE; name it in MEASURES and use that name here",
            node,
        )


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
        super().__init__(source, scope)
        self._free = free
        self._keys = keys

    def bind(self, node: syntax.Expression) -> Expression:
        """Return the bound expression.

        Raises
        ------
        BindError, UnknownNameError, NotSupportedError
            With the place.
        """
        if self._keys and not isinstance(node, syntax.Star):
            bound = self._free.bind(node)
            if bound in self._keys:
                return bound
        return super().bind(node)
