"""Expressions: names resolved by a scope, types checked, casts put in, the rest desugared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from replay.errors import BindError
from replay.expressions.atoms import NEGATED
from replay.expressions.functions.texts import like_regex, lower_like
from replay.expressions.literals import (
    INT64_MAX,
    TimeTextError,
    from_decimal,
    parse_date,
    parse_duration,
    parse_timestamp,
)
from replay.expressions.types import (
    CASTS,
    DECIMAL_DIGITS,
    NUMERIC,
    SCALES,
    TYPE_NAMES,
    TYPES_NOT_YET,
)
from replay.language import fold, syntax
from replay.language.bound import Aggregate, Call, DataType, Expression, Literal
from replay.language.call_binder import bind_function, find_function
from replay.language.coercion import agree, arithmetic, coerce, sides, text_error
from replay.language.functions import AGGREGATES
from replay.language.row_values import COMPARING, without_rows
from replay.language.source import Source, shown

T = DataType


Bind = Callable[[syntax.Expression], Expression]

Reading = (
    syntax.Column
    | syntax.Navigation
    | syntax.ClassifierCall
    | syntax.MatchNumberCall
    | syntax.Function
    | syntax.ScalarQuery
)
"""What reads events, aggregates and subqueries among them."""

Scope = Callable[[Reading, Bind], Expression]
"""What names mean at a place of a query: binds what reads events there, or refuses it."""


_EXACT_DOUBLE = 2**53
"""Whole numbers nearer to 0 are doubles, and each is the only one that rounds to its double."""


class ExpressionBinder:
    """Binds expressions in one scope."""

    def __init__(self, source: Source, scope: Scope, *, of_matches: bool = False) -> None:
        self.source = source
        self.scope = scope
        self.of_matches = of_matches
        """Whether aggregates are over groups of matches, whose counts have any size."""

    def bind(self, node: syntax.Expression) -> Expression:
        """Return the bound expression."""
        single = without_rows(node, self.source) if isinstance(node, COMPARING) else None
        if single is not None:
            return self.bind(single)
        return _BINDERS[type(node)](self, node)

    def condition(self, node: syntax.Expression, where: str) -> Expression:
        """Return a bound expression that must be BOOLEAN."""
        bound = self.bind(node)
        if bound.type is T.NULL:
            return fold.UNKNOWN
        if bound.type is not T.BOOLEAN:
            raise self.source.error(
                f"{where} must be BOOLEAN, and {shown(node)} is {bound.type.value}", node
            )
        return bound

    def compare(
        self, op: str, left: syntax.Expression, right: syntax.Expression, at: syntax.Node
    ) -> Expression:
        """Return the comparison of two nodes."""
        return self.compare_bound(op, (left, self._side(left)), right, at)

    def compare_bound(
        self,
        op: str,
        left: tuple[syntax.Expression, Expression],
        right: syntax.Expression,
        at: syntax.Node,
    ) -> Expression:
        """Return the comparison of a node that is bound already with another."""
        bound = [left[1], self._side(right)]
        one, other = agree(self.source, [left[0], right], bound, "cannot compare", at)
        if one.type is T.DECIMAL_76 and isinstance(one, Literal) and isinstance(other, Literal):
            raise self._out_of_range(at)
        return fold.comparison(op, one, other)

    def _side(self, node: syntax.Expression) -> Expression:
        """Return a side of a comparison; next to a count of matches a number has any size."""
        is_minus = isinstance(node, syntax.Unary) and node.op == "-"
        number = node.operand if isinstance(node, syntax.Unary) and is_minus else node
        if not self.of_matches or not isinstance(number, syntax.Number):
            return self.bind(node)
        if not isinstance(number.value, int) or number.value <= INT64_MAX + is_minus:
            return self.bind(node)
        return Literal(-number.value if is_minus else number.value, T.DECIMAL_76)

    def _out_of_range(self, node: syntax.Node) -> BindError:
        return self.source.error("this number is outside the range of INTEGER (64 bits)", node)

    # -----------------------------------------------------------------------------------------
    # One method per kind of node

    def _number(self, node: syntax.Number) -> Expression:
        if isinstance(node.value, float):
            return Literal(node.value, T.DOUBLE)
        if isinstance(node.value, Decimal):
            return from_decimal(node.value)
        if node.value > INT64_MAX:
            raise self._out_of_range(node)
        return Literal(node.value, T.INTEGER)

    def _text(self, node: syntax.Text) -> Expression:
        return Literal(node.value, T.STRING)

    def _truth(self, node: syntax.Truth) -> Expression:
        return Literal(node.value, T.BOOLEAN)

    def _null(self, _: syntax.Null) -> Expression:
        return Literal(None, T.NULL)

    def _time_text(self, node: syntax.TimeText) -> Expression:
        parse = parse_date if node.kind == "DATE" else parse_timestamp
        return self._constant(node, lambda: parse(node.text))

    def _duration(self, node: syntax.Duration) -> Expression:
        if node.unit in syntax.CALENDAR_UNITS:
            remedy = "they vary in length: give it in DAYS, or write date_add('month', n, ts)"
            raise self.source.not_supported("a duration in months or years", node, remedy)
        return self._constant(node, lambda: parse_duration(node.amount, node.unit))

    def _constant(self, node: syntax.Expression, parse: Callable[[], Literal]) -> Literal:
        try:
            return parse()
        except ValueError as error:
            raise self.source.error(str(error), node) from None

    def _parameter(self, node: syntax.Parameter) -> Expression:
        return self.source.parameter(node)

    def _row_value(self, node: syntax.RowValue) -> Expression:
        raise self.source.error(
            "a row of several values stands on a side of a comparison or of IN, as in "
            "(a, b) = (1, 2); for one value leave out the comma",
            node,
        )

    def _unary(self, node: syntax.Unary) -> Expression:
        if node.op == "NOT":
            return fold.negate(self.condition(node.operand, "the operand of NOT"))
        if isinstance(node.operand, syntax.Number) and node.op == "-":
            # Only so can the least INTEGER be written.
            number = node.operand.value
            if isinstance(number, Decimal):
                return from_decimal(-number)
            if isinstance(number, int) and number > INT64_MAX + 1:
                raise self._out_of_range(node.operand)
            return Literal(-number, T.DOUBLE if isinstance(number, float) else T.INTEGER)
        operand = self.bind(node.operand)
        if operand.type is T.NULL:
            return operand
        if operand.type not in NUMERIC | {T.INTERVAL}:
            raise self.source.error(
                f"cannot negate {shown(node.operand)} ({operand.type.value})", node
            )
        return operand if node.op == "+" else fold.call("neg", (operand,), operand.type)

    def _binary(self, node: syntax.Binary) -> Expression:
        if node.op in NEGATED:
            return self.compare(node.op, node.left, node.right, node)
        nodes, bound = [node.left, node.right], [self.bind(node.left), self.bind(node.right)]
        try:
            result = arithmetic(node.op, bound[0], bound[1])
        except TimeTextError as error:
            raise text_error(self.source, nodes, bound, error) from None
        if result is None:
            raise self.source.error(
                f"cannot apply {node.op} to {sides(nodes, bound)}{_remedy(node.op, bound)}",
                node,
            )
        return result

    def _logical(self, node: syntax.Logical) -> Expression:
        terms = [self.condition(term, f"each side of {node.op}") for term in node.terms]
        return fold.all_of(terms) if node.op == "AND" else fold.any_of(terms)

    def _between(self, node: syntax.Between) -> Expression:
        operand = (node.operand, self.bind(node.operand))
        inside = fold.all_of(
            [
                self.compare_bound(">=", operand, node.low, node),
                self.compare_bound("<=", operand, node.high, node),
            ]
        )
        return fold.negate(inside) if node.negated else inside

    def _in_list(self, node: syntax.InList) -> Expression:
        bound = [self._side(node.operand)]
        first = node.options[0]
        if isinstance(first, syntax.ListParameter):
            bound += self.source.list_parameter(first)
            node = replace(node, options=(first,) * (len(bound) - 1))
        else:
            bound += [self._side(part) for part in node.options]
        if not node.options:  # nothing is in an empty list, not even NULL
            return fold.TRUE if node.negated else fold.FALSE
        chosen = [list(range(len(node.options)))]
        if all(part.type in NUMERIC | {T.NULL} for part in bound):
            chosen = _of_one_kind(bound[1:])
        inside = fold.any_of([self._equals_one(node, bound, options) for options in chosen])
        return fold.negate(inside) if node.negated else inside

    def _equals_one(
        self, node: syntax.InList, bound: list[Expression], chosen: list[int]
    ) -> Expression:
        """Return whether the operand of IN equals one of some of its options, by their numbers."""
        nodes = [node.operand, *(node.options[option] for option in chosen)]
        compared = [bound[0], *(bound[1 + option] for option in chosen)]
        value, *options = agree(self.source, nodes, compared, "cannot compare", node)
        if value.type is T.DECIMAL_76 and isinstance(value, Literal):
            raise self._out_of_range(node)
        if syntax.is_values(node.options[0]):
            return Call("in", (value, *options), T.BOOLEAN)
        constants = [option for option in options if isinstance(option, Literal)]
        terms = [
            fold.comparison("=", value, option)
            for option in options
            if not isinstance(option, Literal)
        ]
        if constants:
            terms.append(fold.call("in", (value, *constants), T.BOOLEAN))
        return fold.any_of(terms)

    def _like(self, node: syntax.Like) -> Expression:
        parts = [part for part in (node.operand, node.pattern, node.escape) if part is not None]
        bound = [self.bind(part) for part in parts]
        for part, expression in zip(parts, bound, strict=True):
            if expression.type not in (T.STRING, T.NULL):
                kind = f"{shown(part)} is {expression.type.value}"
                raise self.source.error(f"LIKE compares texts, and {kind}", part)
        if any(expression.type is T.NULL for expression in bound):
            return fold.UNKNOWN
        for part, expression in zip(parts[1:], bound[1:], strict=True):
            if not isinstance(expression, Literal):
                raise self.source.not_supported("LIKE with a pattern that is no constant", part)
        self._check_like(node, bound[1:])
        if node.any_case:
            texts = [str(part.value) for part in bound[1:] if isinstance(part, Literal)]
            lowered = (lower_like(*texts), "\\")
            operand = fold.call("lower", bound[:1], T.STRING)
            bound = [operand, *(Literal(text, T.STRING) for text in lowered)]
        like = fold.call("like", bound, T.BOOLEAN)
        return fold.negate(like) if node.negated else like

    def _check_like(self, node: syntax.Like, constants: list[Expression]) -> None:
        pattern, *escape = [str(part.value) for part in constants if isinstance(part, Literal)]
        if escape and len(escape[0]) != 1:
            assert node.escape is not None
            raise self.source.error("ESCAPE takes a single character", node.escape)
        try:
            like_regex(pattern, *escape)
        except ValueError as error:
            raise self.source.error(str(error), node.pattern) from None

    def _is_null(self, node: syntax.IsNull) -> Expression:
        test = fold.call("is_null", (self.bind(node.operand),), T.BOOLEAN)
        return fold.negate(test) if node.negated else test

    def _is_truth(self, node: syntax.IsTruth) -> Expression:
        condition = self.condition(node.operand, "the operand of IS TRUE, FALSE or UNKNOWN")
        if node.value is None:
            test = fold.call("is_null", (condition,), T.BOOLEAN)
        else:
            held = condition if node.value else fold.negate(condition)
            test = fold.call("coalesce", (held, fold.FALSE), T.BOOLEAN)
        return fold.negate(test) if node.negated else test

    def _is_distinct(self, node: syntax.IsDistinct) -> Expression:
        nodes = [node.left, node.right]
        sides = agree(
            self.source, nodes, [self.bind(part) for part in nodes], "cannot compare", node
        )
        test = fold.call("is_distinct", sides, T.BOOLEAN)
        return fold.negate(test) if node.negated else test

    def _case(self, node: syntax.Case) -> Expression:
        if node.operand is None:
            conditions = [
                self.condition(when, "the condition of WHEN") for when, _ in node.branches
            ]
        else:
            operand = (node.operand, self.bind(node.operand))
            conditions = [self.compare_bound("=", operand, when, when) for when, _ in node.branches]
        nodes = [value for _, value in node.branches]
        nodes.append(node.otherwise if node.otherwise is not None else syntax.Null(at=node.at))
        values = agree(
            self.source, nodes, [self.bind(value) for value in nodes], "CASE cannot give", node
        )
        pairs = zip(conditions, values[:-1], strict=True)
        args = [part for pair in pairs for part in pair]
        return fold.call("case", (*args, values[-1]), values[-1].type)

    def _cast(self, node: syntax.Cast) -> Expression:
        target = TYPE_NAMES.get(node.type)
        if target is None:
            if node.type in TYPES_NOT_YET:
                raise self.source.not_supported(f"the type {node.type}", node)
            raise self.source.unknown("type", node.type, TYPE_NAMES, node)
        converted = self._converted(node, target)
        if node.length is None:
            return converted
        cut = (converted, Literal(node.length, T.INTEGER))
        return fold.call("left", cut, T.STRING)

    def _converted(self, node: syntax.Cast, target: DataType) -> Expression:
        """Return the operand in another type."""
        operand = self.bind(node.operand)
        if operand.type is target:
            return operand
        if target is T.DECIMAL_76:
            return self._of_any_size(node, operand)
        try:
            converted = coerce(operand, target)
        except TimeTextError as error:
            if node.lenient:
                return Literal(None, target)
            raise text_error(self.source, [node.operand], [operand], error) from None
        if converted is None and (operand.type, target) in CASTS:
            converted = fold.call("cast", (operand,), target)
        if converted is None:
            raise self.source.not_supported(
                f"CAST of {shown(node.operand)} ({operand.type.value}) to {target.value}",
                node,
                _remedy_for_cast(operand.type, target),
            )
        return converted

    def _of_any_size(self, node: syntax.Cast, operand: Expression) -> Expression:
        """Return a count or sum of integers as a DECIMAL that has all its digits."""
        if self.of_matches and isinstance(operand, Aggregate) and operand.type is T.INTEGER:
            return Call("cast", (operand,), T.DECIMAL_76)
        raise self.source.not_supported(
            f"CAST of {shown(node.operand)} to {T.DECIMAL_76.value}",
            node,
            "it is for COUNT and SUM of INTEGER in the query around MATCH_RECOGNIZE",
        )

    def _star(self, node: syntax.Star) -> Expression:
        raise self.source.error("* stands only in COUNT(*)", node)

    def _function(self, node: syntax.Function) -> Expression:
        if node.name.name.upper() in AGGREGATES:
            return self.scope(node, self.bind)
        function = find_function(node, self.source)
        return bind_function(function, node, [self.bind(part) for part in node.args], self.source)

    def _reading(self, node: Reading) -> Expression:
        return self.scope(node, self.bind)


def _of_one_kind(options: list[Expression]) -> list[list[int]]:
    """Return numbers of options that can go to one type and stay what they are.

    As a DOUBLE a whole number from 2**53 on would be another: those and columns of them are not
    compared in one list with doubles.
    """
    has_double = any(option.type is T.DOUBLE for option in options)
    chosen: dict[T, list[int]] = {}
    for number, option in enumerate(options):
        is_small = (
            has_double
            and isinstance(option, Literal)
            and isinstance(option.value, int)
            and abs(option.value) < _EXACT_DOUBLE
        )
        chosen.setdefault(T.DOUBLE if is_small else option.type, []).append(number)
    return list(chosen.values())


_BINDERS: dict[type[syntax.Node], Callable[[ExpressionBinder, Any], Expression]] = {
    syntax.Number: ExpressionBinder._number,
    syntax.Text: ExpressionBinder._text,
    syntax.Truth: ExpressionBinder._truth,
    syntax.Null: ExpressionBinder._null,
    syntax.TimeText: ExpressionBinder._time_text,
    syntax.Duration: ExpressionBinder._duration,
    syntax.Parameter: ExpressionBinder._parameter,
    syntax.Column: ExpressionBinder._reading,
    syntax.RowValue: ExpressionBinder._row_value,
    syntax.Unary: ExpressionBinder._unary,
    syntax.Binary: ExpressionBinder._binary,
    syntax.Logical: ExpressionBinder._logical,
    syntax.Between: ExpressionBinder._between,
    syntax.InList: ExpressionBinder._in_list,
    syntax.Like: ExpressionBinder._like,
    syntax.IsNull: ExpressionBinder._is_null,
    syntax.IsTruth: ExpressionBinder._is_truth,
    syntax.IsDistinct: ExpressionBinder._is_distinct,
    syntax.Case: ExpressionBinder._case,
    syntax.Cast: ExpressionBinder._cast,
    syntax.Star: ExpressionBinder._star,
    syntax.Function: ExpressionBinder._function,
    syntax.Navigation: ExpressionBinder._reading,
    syntax.ClassifierCall: ExpressionBinder._reading,
    syntax.MatchNumberCall: ExpressionBinder._reading,
    syntax.ScalarQuery: ExpressionBinder._reading,
}


def _remedy_for_cast(source: DataType, target: DataType) -> str:
    if source in NUMERIC and target in (T.TIMESTAMP, T.TIMESTAMP_UTC, T.DATE):
        return "write from_unixtime(…) of a number of seconds"
    if target in NUMERIC and source in (T.TIMESTAMP, T.TIMESTAMP_UTC, T.DATE, T.INTERVAL):
        return "write epoch(…), the number of seconds"
    return ""


def _remedy(op: str, bound: list[Expression]) -> str:
    """Return what would make an operation possible, beginning with ``; ``, or nothing."""
    types = {expression.type for expression in bound}
    if op in "+-" and types & {T.TIMESTAMP, T.TIMESTAMP_UTC, T.DATE} and types & NUMERIC:
        return "; add a duration with its unit, such as 30 MINUTES"
    if T.STRING in types:
        return "; arithmetic takes numbers and times"
    if types & SCALES.keys():
        return (
            f"; the product of DECIMALs has the digits behind the point of both, {DECIMAL_DIGITS} "
            "at most: write CAST(… AS DOUBLE) of one"
        )
    return ""


# ---------------------------------------------------------------------------------------------
# Where no event is at hand, such as in WITHIN and LIMIT


def bind_constant(node: syntax.Expression, where: str, source: Source) -> Literal:
    """Return the value of an expression without attributes."""

    def refuse(reading: Reading, _: Bind) -> Expression:
        raise source.error(f"{where} takes a constant, not {shown(reading)}", reading)

    bound = ExpressionBinder(source, refuse).bind(node)
    assert isinstance(bound, Literal)
    return bound
