"""Negation in SQL semantics: a repetition none of whose rows satisfies the negated symbol."""

from __future__ import annotations

from replay.errors import NotSupportedError
from replay.language.bound import (
    CURRENT,
    Aggregate,
    Alternate,
    Anchor,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Call,
    Classifier,
    Concat,
    DataType,
    Exclusion,
    Expression,
    Literal,
    Negation,
    Pattern,
    Repeat,
    Symbol,
    is_nullable,
    walk,
)
from replay.patterns.conditions.across import SymbolConditions


def without_negations(query: BoundPatternQuery) -> tuple[Pattern, SymbolConditions]:
    """Return the pattern less its negations, and the conditions that stand for them. Pure.

    ``A !X Z* B`` becomes ``A Y* B``, where ``Y`` is a further symbol with the condition
    ``Z AND NOT (X IS TRUE)`` that is shown as ``Z``.

    NotSupportedError is raised where a negation does not stand beside an unbounded repetition of
    one symbol, or where its condition reads rows whose meaning would depend on the repetition.
    """
    rewriter = _Rewriter(query)
    pattern = rewriter.rewrite(query.pattern)
    return pattern, rewriter.conditions()


class _Rewriter:
    """Replaces negations, and keeps the symbols made for them."""

    def __init__(self, query: BoundPatternQuery) -> None:
        self._query = query
        self._made: dict[tuple[int, tuple[int, ...], bool], int] = {}
        self._symbols = list(query.symbols)
        self._defines = list(query.defines)
        self._shown = list(range(len(query.symbols)))
        self._negated: set[int] = set()

    def conditions(self) -> SymbolConditions:
        """Return the conditions of all symbols; those only negated need none of their own."""
        for symbol in self._negated:
            self._defines[symbol] = None
        return SymbolConditions(tuple(self._symbols), tuple(self._defines), tuple(self._shown))

    def rewrite(self, pattern: Pattern) -> Pattern:
        """Return the pattern without negations."""
        return self._rewrite(pattern, begun=False)

    def _rewrite(self, pattern: Pattern, *, begun: bool) -> Pattern:
        """Rewrite; ``begun`` says that a row was mapped before, however the match began."""
        match pattern:
            case Concat():
                return self._sequence(_flat(pattern), begun=begun)
            case Negation():
                return self._sequence([pattern], begun=begun)
            case Alternate(branches):
                return Alternate(tuple(self._rewrite(b, begun=begun) for b in branches))
            case Repeat(body, low, high, greedy):
                return Repeat(self._rewrite(body, begun=begun), low, high, greedy)
            case Exclusion(body):
                return Exclusion(self._rewrite(body, begun=begun))
            case _:
                return pattern

    def _sequence(self, parts: list[Pattern], *, begun: bool) -> Pattern:
        solid = [part for part in parts if not isinstance(part, Negation)]
        negated: list[set[int]] = [set() for _ in solid]
        before = -1
        for part in parts:
            if not isinstance(part, Negation):
                before += 1
                continue
            beside = [k for k in (before, before + 1) if 0 <= k < len(solid) and _is_gap(solid[k])]
            if not beside:
                raise NotSupportedError(
                    f"!{self._query.symbols[part.index]} stands beside no unbounded repetition of "
                    "one symbol, so no rows lie there; use SEMANTICS SKIP TILL NEXT or ANY"
                )
            for k in beside:
                negated[k].add(part.index)
        written: list[Pattern] = []
        for part, of in zip(solid, negated, strict=True):
            gap = tuple(sorted(of))
            written.append(
                self._gap(part, gap, begun=begun) if gap else self._rewrite(part, begun=begun)
            )
            begun = begun or not is_nullable(part)
        return written[0] if len(written) == 1 else Concat(tuple(written))

    def _gap(self, pattern: Pattern, negated: tuple[int, ...], *, begun: bool) -> Pattern:
        match pattern:
            case Exclusion(body):
                return Exclusion(self._gap(body, negated, begun=begun))
            case Repeat(Symbol(index), low, high, greedy):
                symbol = self._symbol(index, negated, begun=begun)
                return Repeat(Symbol(symbol), low, high, greedy)
        raise AssertionError(pattern)

    def _symbol(self, repeated: int, negated: tuple[int, ...], *, begun: bool) -> int:
        """Return the symbol that stands for one none of whose rows satisfies the others."""
        key = repeated, negated, begun
        if key not in self._made:
            self._made[key] = len(self._symbols)
            own = self._query.defines[repeated]
            parts: list[Expression] = [] if own is None else [own]
            parts += [_not_true(self._tested(s, repeated, begun=begun)) for s in negated]
            self._negated.update(negated)
            self._symbols.append(self._query.symbols[repeated])
            self._defines.append(Call("and", tuple(parts), DataType.BOOLEAN))
            self._shown.append(repeated)
        return self._made[key]

    def _tested(self, symbol: int, repeated: int, *, begun: bool) -> Expression:
        """Return the negated symbol's condition, as a row of the repetition is tested by it."""
        define = self._query.defines[symbol]
        if define is None:
            return Literal(True, DataType.BOOLEAN)
        if not begun and any(_is_match_first(part) for part in walk(define)):
            raise self._ambiguous(symbol, repeated)
        return self._at_row(define, symbol, repeated)

    def _at_row(self, expression: Expression, symbol: int, repeated: int) -> Expression:
        match expression:
            case Call(op, args, of):
                return Call(op, tuple(self._at_row(a, symbol, repeated) for a in args), of)
            case Attribute(name, of, anchor, offset):
                return Attribute(name, of, self._anchor(anchor, symbol, repeated), offset)
            case Classifier(of, anchor, offset):
                return Classifier(of, self._anchor(anchor, symbol, repeated), offset)
            case Aggregate(symbols=symbols):
                if symbols is None or {symbol, repeated} & set(symbols):
                    raise self._ambiguous(symbol, repeated)
        return expression

    def _anchor(self, anchor: Anchor, symbol: int, repeated: int) -> Anchor:
        """Return the anchor, where the rows of the repetition so far make no difference to it."""
        if anchor.kind is AnchorKind.CURRENT:
            return anchor
        if anchor.symbols is None:
            if anchor.offset == 0:
                return CURRENT if anchor.kind is AnchorKind.LAST else anchor
            raise self._ambiguous(symbol, repeated)
        if symbol in anchor.symbols and anchor.kind is AnchorKind.LAST and anchor.offset == 0:
            return CURRENT
        if anchor.symbols == (symbol,) and anchor.offset == 0:
            return CURRENT  # the row under test is the only one of the symbol
        if {symbol, repeated} & set(anchor.symbols):
            raise self._ambiguous(symbol, repeated)
        return anchor

    def _ambiguous(self, symbol: int, repeated: int) -> NotSupportedError:
        name, other = self._query.symbols[symbol], self._query.symbols[repeated]
        return NotSupportedError(
            f"the condition of !{name} counts rows that {other} may be mapped to, which is not "
            f"supported yet; let it read the row itself and symbols before {other}"
        )


def _is_match_first(part: Expression) -> bool:
    """Whether the first row of the match is read."""
    if not isinstance(part, Attribute | Classifier):
        return False
    return part.anchor.kind is AnchorKind.FIRST and part.anchor.symbols is None


def _flat(pattern: Pattern) -> list[Pattern]:
    """Return the parts of a sequence, those of sequences in it among them."""
    if isinstance(pattern, Concat):
        return [inner for part in pattern.parts for inner in _flat(part)]
    return [pattern]


def _is_gap(pattern: Pattern) -> bool:
    if isinstance(pattern, Exclusion):
        return _is_gap(pattern.body)
    return isinstance(pattern, Repeat) and isinstance(pattern.body, Symbol) and pattern.high is None


def _not_true(condition: Expression) -> Expression:
    """Return NOT (condition IS TRUE)."""
    false = Literal(False, DataType.BOOLEAN)
    known = Call("coalesce", (condition, false), DataType.BOOLEAN)
    return Call("not", (known,), DataType.BOOLEAN)
