"""Aggregates: which there are, what they take, and those that are written with others."""

from __future__ import annotations

from replay.expressions.types import NUMERIC
from replay.language import fold, syntax
from replay.language.bound import (
    Aggregate,
    DataType,
    Expression,
    Literal,
    SortKey,
    SymbolSet,
)
from replay.language.coercion import coerce
from replay.language.source import Source, shown

T = DataType

_FUNCTIONS = {
    **{name: name for name in ("count", "sum", "avg", "min", "max")},
    **{name: name for name in ("var_pop", "var_samp", "stddev_pop", "stddev_samp")},
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "approx_count_distinct": "count",
}
_OF_STREAMS = {
    "first_value": "first",
    "last_value": "last",
    "approx_percentile": "percentile",
    "approx_quantile": "percentile",
    "median": "percentile",
}
"""Aggregates over the rows of a stream, not over those of a match or of matches."""
_OF_MATCHES = {
    **dict.fromkeys(("array_agg", "list"), "array"),
    **dict.fromkeys(("string_agg", "listagg"), "concat"),
    "any_value": "any_value",
    **dict.fromkeys(("max_by", "arg_max"), "max_by"),
    **dict.fromkeys(("min_by", "arg_min"), "min_by"),
}
"""Aggregates over the rows of a match alone."""
OF_MATCHES = frozenset(name.upper() for name in _OF_MATCHES)
_MEDIAN = 0.5
_SAME_IF_DISTINCT = frozenset({"min", "max", "first", "last"})
_CONDITIONS = frozenset({"count_if", "bool_and", "bool_or", "every"})
_ONE = Literal(1, T.INTEGER)
_ZERO = Literal(0, T.INTEGER)
_NONE = Literal(None, T.INTEGER)


def check_aggregate(
    node: syntax.Function, source: Source, *, of_stream: bool = False, of_match: bool = False
) -> None:
    """Check the call of an aggregate but for the type of its argument.

    ``of_stream`` and ``of_match`` say whether it is one over the rows of a stream, in their order,
    and over those of one match.
    """
    name = node.name.name.upper()
    word = name.lower()
    known = {*_FUNCTIONS, *_CONDITIONS, *_OF_STREAMS}
    if word not in (known | _OF_MATCHES.keys() if of_match else known):
        remedy = (
            "it is for MEASURES, and for a SELECT without windows" if word in _OF_MATCHES else ""
        )
        raise source.not_supported(f"the aggregate {name}", node, remedy)
    if node.where is not None and not of_match:
        remedy = "aggregate CASE WHEN … THEN … END, or use COUNT_IF"
        raise source.not_supported(f"{name} with FILTER outside MATCH_RECOGNIZE", node, remedy)
    if word in _OF_STREAMS and not of_stream:
        kind = name.removesuffix("_VALUE")
        remedy = f"write {kind}(…) in MEASURES" if kind != name else ""
        raise source.not_supported(f"the aggregate {name}", node, remedy)
    wanted = 2 if takes_fraction(node) or takes_separator(node) or takes_key(node) else 1
    if len(node.args) != wanted:
        what = "one argument, or *" if name == "COUNT" else "one argument"
        what = "a value and a fraction such as 0.95" if takes_fraction(node) else what
        what = "a text and what stands between two, such as ', '" if takes_separator(node) else what
        what = "a value and what is greatest or least where it is" if takes_key(node) else what
        raise source.error(f"{name} takes {what}, not {len(node.args)}", node)
    is_star = isinstance(node.args[0], syntax.Star)
    if is_star and name != "COUNT":
        raise source.error(f"* stands only in COUNT(*), not in {name}", node.args[0])
    if node.distinct and is_star:
        raise source.error("COUNT(DISTINCT *) names no value; write COUNT(DISTINCT x)", node)
    if node.distinct and name == "COUNT_IF":
        raise source.error("COUNT_IF counts rows; it takes no DISTINCT", node)
    if node.distinct and _OF_STREAMS.get(word) == "percentile":
        raise source.not_supported(f"{name}(DISTINCT …)", node)


def takes_fraction(node: syntax.Function) -> bool:
    """Tell whether the aggregate takes a fraction after its argument."""
    name = node.name.name.lower()
    return _OF_STREAMS.get(name) == "percentile" and name != "median"


def takes_separator(node: syntax.Function) -> bool:
    """Tell whether the aggregate takes a text after its argument, to stand between two."""
    return _OF_MATCHES.get(node.name.name.lower()) == "concat"


def takes_key(node: syntax.Function) -> bool:
    """Tell whether the aggregate takes what is greatest or least after its argument."""
    return _OF_MATCHES.get(node.name.name.lower()) in ("max_by", "min_by")


def is_of_values(node: syntax.Function) -> bool:
    """Tell whether the aggregate makes an array of all values."""
    return _OF_MATCHES.get(node.name.name.lower()) == "array"


def picked(
    node: syntax.Function,
    argument: Expression,
    order: tuple[SortKey, ...],
    symbols: SymbolSet,
    *,
    final: bool,
) -> Expression | None:
    """Return one of the values of rows; None for an aggregate that picks none."""
    function = _OF_MATCHES.get(node.name.name.lower())
    if function not in ("any_value", "max_by", "min_by"):
        return None
    kind = argument.type
    if kind is T.NULL or any(key.expression.type is T.NULL for key in order):
        return Literal(None, kind)
    return Aggregate(function, argument, symbols, kind, final=final, order=order)


def filtered(argument: Expression | None, where: Expression) -> Expression:
    """Return an argument that is NULL where FILTER does not let a row pass; for COUNT(*) of 1."""
    value = _ONE if argument is None else argument
    return fold.call("case", (where, value, Literal(None, value.type)), value.type)


def joined(
    node: syntax.Function,
    argument: Expression,
    between: Expression,
    source: Source,
    symbols: SymbolSet,
    order: tuple[SortKey, ...],
    *,
    final: bool,
) -> Expression:
    """Return the texts of rows one after the other, with a text between two."""
    name = node.name.name.upper()
    if argument.type not in (T.STRING, T.NULL):
        part = node.args[0]
        raise source.error(
            f"{name} takes texts, and {shown(part)} is {argument.type.value}; write "
            "CAST(… AS STRING)",
            part,
        )
    if not isinstance(between, Literal) or not isinstance(between.value, str):
        raise source.error(f"what {name} puts between two texts is a constant text", node.args[1])
    # Each text after the separator, the first of them without.
    each = fold.call("concat", (between, argument), T.STRING)
    each = fold.call(
        "case",
        (fold.call("is_null", (argument,), T.BOOLEAN), Literal(None, T.STRING), each),
        T.STRING,
    )
    whole = Aggregate("concat", each, symbols, T.STRING, node.distinct, final, order=order)
    begin = Literal(len(between.value) + 1, T.INTEGER)
    return fold.call("substring", (whole, begin), T.STRING)


def aggregate_of(
    node: syntax.Function,
    argument: Expression | None,
    source: Source,
    *,
    symbols: SymbolSet = None,
    final: bool = False,
    fraction: float | None = None,
) -> Expression:
    """Return an aggregate that ``check_aggregate`` has let pass.

    ``argument`` is None for ``*``; the others are as in ``bound.Aggregate``.
    """
    name = node.name.name.lower()
    if argument is None:
        return Aggregate("count", None, symbols, T.INTEGER, final=final)
    if name in _CONDITIONS:
        return _of_condition(name, node, argument, source, symbols, final)
    function = _FUNCTIONS[name] if name in _FUNCTIONS else _OF_STREAMS[name]
    argument, result = _argument(function, node, argument, source)
    distinct = node.distinct and function not in _SAME_IF_DISTINCT
    if function == "percentile" and fraction is None:
        fraction = _MEDIAN
    distinct = distinct or name == "approx_count_distinct"
    return Aggregate(function, argument, symbols, result, distinct, final, fraction)


def _argument(
    function: str, node: syntax.Function, argument: Expression, source: Source
) -> tuple[Expression, DataType]:
    """Return the argument as the aggregate takes it, and the type of the result."""
    if argument.type is T.NULL:
        argument = Literal(None, T.DOUBLE)
    kind = argument.type
    if function == "count":
        return argument, T.INTEGER
    if function in _SAME_IF_DISTINCT:
        return argument, kind
    if function in ("sum", "avg") and kind is T.INTERVAL:
        return argument, kind
    if kind not in NUMERIC:
        what = "numbers or intervals" if function in ("sum", "avg") else "numbers"
        part = node.args[0]
        raise source.error(
            f"{node.name.name.upper()} takes {what}, and {shown(part)} is {kind.value}", part
        )
    if function in ("sum", "avg"):
        return argument, kind if function == "sum" else T.DOUBLE
    double = coerce(argument, T.DOUBLE)
    assert double is not None
    return double, T.DOUBLE


def _of_condition(
    name: str,
    node: syntax.Function,
    argument: Expression,
    source: Source,
    symbols: SymbolSet,
    final: bool,
) -> Expression:
    if argument.type is T.NULL:
        argument = fold.UNKNOWN
    if argument.type is not T.BOOLEAN:
        part = node.args[0]
        raise source.error(
            f"{node.name.name.upper()} takes a condition, and {shown(part)} is "
            f"{argument.type.value}",
            part,
        )
    if name == "count_if":
        counted = fold.call("case", (argument, _ONE, _NONE), T.INTEGER)
        return Aggregate("count", counted, symbols, T.INTEGER, final=final)
    as_number = fold.call("case", (argument, _ONE, fold.negate(argument), _ZERO, _NONE), T.INTEGER)
    extreme = "max" if name == "bool_or" else "min"
    return fold.comparison(
        "=", Aggregate(extreme, as_number, symbols, T.INTEGER, final=final), _ONE
    )
