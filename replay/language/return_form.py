"""The form of the papers, ``RETURN … FROM … PATTERN SEQ(…)``, to the syntax tree of SQL.

A-Seq (SIGMOD 2014) and COGRA (SIGMOD 2019) write aggregates over sequences so. The form adds no
meaning: what is returned is the tree of a MATCH_RECOGNIZE with SEMANTICS and the query around it,
of which every node has the place it was written at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from chronicle.errors import did_you_mean
from replay.errors import PatternSyntaxError
from replay.language import syntax
from replay.language.bound import Semantics
from replay.language.cursor import Cursor, describe
from replay.language.duration_parser import refuse_unknown_unit
from replay.language.expression_parser import AND, parse_expression
from replay.language.functions import AGGREGATES
from replay.language.printer import to_sql
from replay.language.source import resolve
from replay.language.syntax import Expression, Identifier, PatternQuery, RowPattern
from replay.language.tokens import END, NAME, QUOTED, STRING, Token

Source = syntax.StreamName | syntax.Subquery

_SEMANTICS = {
    "SKIP-TILL-ANY-MATCH": Semantics.SKIP_TILL_ANY,
    "SKIP-TILL-NEXT-MATCH": Semantics.SKIP_TILL_NEXT,
    "CONTIGUOUS": Semantics.CONTIGUOUS,
}
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CLAUSE_WORDS = frozenset({"SEMANTICS", "WHERE", "GROUP", "WITHIN", "SLIDE", "OR"})
_FOLLOWING = "next "
"""What the qualifier of a column begins with that was written ``NEXT(F).y``: no name has a blank
there but a quoted one, which no type is called by."""


def parse_return_form(cursor: Cursor, source: Callable[[Cursor], Source]) -> PatternQuery:
    """Parse a whole query that begins with RETURN; ``source`` parses what stands behind FROM."""
    _join_next(cursor)
    at = cursor.expect("RETURN").at
    items = cursor.separated(_item)
    cursor.expect("FROM", "and a stream after what is returned")
    form = _Form(cursor, items, source(cursor), at)
    if cursor.accept("TYPE"):
        cursor.expect("BY", "and the column that holds the type of an event")
        form.type_by = cursor.identifier("the column that holds the type of an event")
    cursor.expect("PATTERN", "and SEQ(…)")
    form.pattern = _alternatives(form)
    while cursor.token.key in _CLAUSES:
        name, parse = _CLAUSES[cursor.token.key]
        cursor.begin_clause(name, form.given, {}, "")
        parse(form)
    if cursor.token.key == "SLIDE":
        raise cursor.error("SLIDE says how far windows move, and stands behind WITHIN, their size")
    if cursor.token.kind != END and cursor.token.key != ";":
        raise cursor.error(
            "expected SEMANTICS, WHERE, GROUP-BY, WITHIN or the end, found "
            f"{describe(cursor.token)}"
        )
    return _translated(form)


# ---------------------------------------------------------------------------------------------
# Parsing


@dataclass(slots=True)
class _Type:
    """An event of the pattern: its type, and what it is called."""

    name: Identifier
    type: str
    is_named: bool
    is_negated: bool
    n_places: int = 1


@dataclass(slots=True)
class _Form:
    """The clauses as they are written."""

    cursor: Cursor
    items: tuple[syntax.SelectItem, ...]
    source: Source
    at: int
    type_by: Identifier | None = None
    pattern: RowPattern | None = None
    types: dict[str, _Type] = field(default_factory=dict)
    """By what they are called, in the order of the pattern."""
    semantics: syntax.Strategy | None = None
    terms: list[Expression] = field(default_factory=list)
    same: list[Identifier] = field(default_factory=list)
    """Attributes of ``[a, b]``."""
    group_by: tuple[Identifier, ...] = ()
    within: Expression | None = None
    slide: Expression | None = None
    given: list[str] = field(default_factory=list)

    def error(self, message: str, at: int) -> PatternSyntaxError:
        """Return a syntax error at an offset."""
        return self.cursor.error(message, at)

    def called(self, qualifier: Identifier) -> _Type:
        """Return the event that a name before a dot means."""
        name = resolve(Identifier(qualifier.name), self.types)
        if name is None:
            known = ", ".join(self.types)
            hint = did_you_mean(qualifier.name, self.types) or f" (there are: {known})"
            raise self.error(f"PATTERN has nothing called '{qualifier.name}'{hint}", qualifier.at)
        found = self.types[name]
        if found.n_places > 1 and not found.is_named:
            raise self.error(
                f"PATTERN has {found.n_places} events of type {name}, and '{qualifier.name}' may "
                f"be each; give them names, as in SEQ({name} first, {name} second)",
                qualifier.at,
            )
        return found


def _join_next(cursor: Cursor) -> None:
    """Make one name of each ``NEXT(F)`` before a dot, since a call has no attribute."""
    tokens, joined = cursor.tokens, []
    i = 0
    while i < len(tokens):
        keys = [token.key for token in tokens[i : i + 5]]
        is_next = keys[:2] == ["NEXT", "("] and keys[3:] == [")", "."]
        if is_next and tokens[i + 2].kind in (NAME, QUOTED, STRING):
            inside = tokens[i + 2]
            joined.append(Token(QUOTED, f"{_FOLLOWING}{inside.text}", QUOTED, tokens[i].at))
            i += 4
        else:
            joined.append(tokens[i])
            i += 1
    cursor.replace_tokens(joined)


def _item(cursor: Cursor) -> syntax.SelectItem:
    first = cursor.token
    expression = parse_expression(cursor)
    if cursor.accept("AS"):
        return syntax.SelectItem(expression, cursor.identifier("a name after AS"), at=first.at)
    if isinstance(expression, syntax.Column) and expression.symbol is None:
        return syntax.SelectItem(expression, at=first.at)
    written = " ".join(cursor.text[first.at : cursor.token.at].split())
    alias = Identifier(written, True, at=first.at)
    return syntax.SelectItem(expression, alias, at=first.at)


def _alternatives(form: _Form) -> RowPattern:
    """Parse patterns with OR between them."""
    form.cursor.enter()
    at = form.cursor.token.at
    branches = [_repeated(form)]
    while form.cursor.accept("OR"):
        branches.append(_repeated(form))
    form.cursor.leave()
    return branches[0] if len(branches) == 1 else syntax.Alternation(tuple(branches), at=at)


def _repeated(form: _Form) -> RowPattern:
    cursor = form.cursor
    at = cursor.token.at
    if cursor.accept("!"):
        return syntax.Negated(_event(form, is_negated=True), at=at)
    body = _group(form)
    quantifier = _QUANTIFIERS.get(cursor.token.key)
    if quantifier is None:
        return body
    cursor.advance()
    return syntax.Quantified(body, *quantifier, at=at)


def _group(form: _Form) -> RowPattern:
    """Parse SEQ(…), a group in parentheses, or an event."""
    cursor = form.cursor
    token = cursor.token
    if cursor.accept("SEQ", "("):
        parts = [_alternatives(form)]
        while cursor.accept(","):
            parts.append(_alternatives(form))
        _close(cursor, token, "the events of SEQ")
        return parts[0] if len(parts) == 1 else syntax.Sequence(tuple(parts), at=token.at)
    if cursor.accept("("):
        inside = _alternatives(form)
        _close(cursor, token, "the pattern")
        return inside
    return syntax.SymbolPattern(_event(form, is_negated=False), at=token.at)


def _close(cursor: Cursor, opening: Token, what: str) -> None:
    if not cursor.closes(opening):
        raise cursor.error(f"expected ',' or ')' after {what}, found {describe(cursor.token)}")


def _event(form: _Form, *, is_negated: bool) -> Identifier:
    """Parse ``Type [name]``; a type may be written as a text."""
    cursor = form.cursor
    token = cursor.token
    if token.kind == STRING or (token.kind == NAME and token.key != "OR"):
        kind = cursor.advance().text  # also END and the like, which are no names elsewhere
    else:
        kind = cursor.identifier("the type of an event").name
    following = cursor.token
    is_named = following.kind in (NAME, QUOTED) and following.key not in _CLAUSE_WORDS
    name = cursor.identifier("a name").name if is_named else kind
    known = form.types.get(name)
    if known is None:
        called = Identifier(name, True, at=token.at)
        form.types[name] = _Type(called, kind, is_named, is_negated)
    elif known.type != kind:
        raise form.error(f"'{name}' is called an event of type {known.type} before", token.at)
    else:
        known.n_places += 1
    return Identifier(name, True, at=token.at)


def _semantics(form: _Form) -> None:
    cursor = form.cursor
    at = cursor.token.at
    words = [cursor.advance().key]
    while cursor.accept("-"):
        words.append(cursor.advance().key)
    kind = _SEMANTICS.get("-".join(words))
    if kind is None:
        known = ", ".join(name.lower() for name in _SEMANTICS)
        raise form.error(f"there is no SEMANTICS {'-'.join(words).lower()}; there are {known}", at)
    form.semantics = syntax.Strategy(kind, at=at)


def _where(form: _Form) -> None:
    cursor = form.cursor
    while True:
        opening = cursor.token
        if cursor.accept("["):
            form.same += cursor.separated(lambda inside: inside.identifier("an attribute"))
            if not cursor.closes(opening, "]"):
                raise cursor.error(f"expected ',' or ']', found {describe(cursor.token)}")
        else:
            form.terms.append(parse_expression(cursor, AND))
        if not cursor.accept("AND"):
            return


def _group_by(form: _Form) -> None:
    form.cursor.accept("-")
    form.cursor.expect("BY", "after GROUP")
    form.group_by = form.cursor.separated(lambda inside: inside.identifier("an attribute"))


def _within(form: _Form) -> None:
    cursor = form.cursor
    form.within = parse_expression(cursor)
    refuse_unknown_unit(cursor, if_near=True)
    if cursor.accept("SLIDE"):
        form.slide = parse_expression(cursor)
        refuse_unknown_unit(cursor, if_near=True)


_CLAUSES: dict[str, tuple[str, Callable[[_Form], None]]] = {
    "SEMANTICS": ("SEMANTICS", _semantics),
    "WHERE": ("WHERE", _where),
    "GROUP": ("GROUP-BY", _group_by),
    "WITHIN": ("WITHIN", _within),
}


# ---------------------------------------------------------------------------------------------
# Translation


def _translated(form: _Form) -> PatternQuery:
    """Return the query that the form stands for."""
    assert form.pattern is not None
    borders = [_column(name, form.at) for name in ("window_start", "window_end")]
    of_window = borders if form.within is not None else []
    keys = [syntax.Column(name, at=name.at) for name in form.group_by]
    named = {key.name.name.casefold() for key in keys}
    same = [syntax.Column(n, at=n.at) for n in form.same if n.name.casefold() not in named]
    recognize = syntax.MatchRecognize(
        (),
        form.pattern,
        (*of_window, *keys, *same),
        defines=tuple(_defines(form)),
        strategy=form.semantics or syntax.Strategy(Semantics.SKIP_TILL_ANY, at=form.at),
        at=form.at,
    )
    items = [syntax.SelectItem(column, at=form.at) for column in of_window]
    items += [_selected(form, item, named) for item in form.items]
    return PatternQuery(
        tuple(items),
        form.source,
        recognize,
        None,
        _windows(form),
        group_by=(*of_window, *keys),
        at=form.at,
    )


def _column(name: str, at: int) -> syntax.Column:
    return syntax.Column(Identifier(name, at=at), at=at)


def _windows(form: _Form) -> syntax.WindowCall | None:
    if form.within is None:
        return None
    function = "SLIDING" if form.slide is None else "HOP"
    lengths = (form.within,) if form.slide is None else (form.slide, form.within)
    return syntax.WindowCall(
        function, form.source, (), None, lengths, is_within=True, at=form.within.at
    )


def _selected(form: _Form, item: syntax.SelectItem, keys: set[str]) -> syntax.SelectItem:
    """Return a column of the answer: aggregates over events by their names, keys as they are."""

    def change(node: syntax.Node) -> Expression | None:
        match node:
            case syntax.Function() if node.name.name.upper() in AGGREGATES:
                return replace(node, args=tuple(_argument(form, part) for part in node.args))
            case syntax.Column(name, None) if name.name.casefold() not in keys:
                raise form.error(
                    f"'{name.name}' is an attribute of single events; write it in GROUP-BY, or "
                    f"aggregate it, as in MAX({next(iter(form.types))}.{name.name})",
                    node.at,
                )
            case syntax.Column(_, symbol) if symbol is not None:
                _check_no_next(form, symbol)
                return replace(node, symbol=form.called(symbol).name)
        return None

    return syntax.SelectItem(_rewritten(item.expression, change), item.alias, at=item.at)


def _argument(form: _Form, part: Expression) -> Expression:
    """Return what an aggregate is over: of ``COUNT(E)`` all events that E names."""
    if isinstance(part, syntax.Column) and part.symbol is None:
        return syntax.Star(form.called(part.name).name, at=part.at)

    def change(node: syntax.Node) -> Expression | None:
        if not isinstance(node, syntax.Column | syntax.Star) or node.symbol is None:
            return None
        _check_no_next(form, node.symbol)
        return replace(node, symbol=replace(form.called(node.symbol).name, at=node.symbol.at))

    return _rewritten(part, change)


def _check_no_next(form: _Form, symbol: Identifier) -> None:
    if symbol.name.startswith(_FOLLOWING):
        raise form.error(
            "NEXT(…) is for conditions of WHERE, between events that follow", symbol.at
        )


def _defines(form: _Form) -> Iterator[syntax.Define]:
    """Yield the condition of each event that has one."""
    conditions: dict[str, list[Expression]] = {name: [] for name in form.types}
    if form.type_by is not None:
        for name, event in form.types.items():
            column = syntax.Column(form.type_by, at=form.type_by.at)
            text = syntax.Text(event.type, at=event.name.at)
            conditions[name].append(syntax.Binary("=", column, text, at=form.type_by.at))
    order = _Order(form)
    for term in form.terms:
        name, condition = _term(form, order, term)
        conditions[name].append(condition)
    for name, terms in conditions.items():
        if terms:
            at = terms[0].at
            whole = terms[0] if len(terms) == 1 else syntax.Logical("AND", tuple(terms), at=at)
            yield syntax.Define(form.types[name].name, whole, at=at)


def _term(form: _Form, order: _Order, term: Expression) -> tuple[str, Expression]:
    """Return whose condition a term of WHERE is, and that condition."""
    columns = [node for node in syntax.nodes_of(term) if isinstance(node, syntax.Column)]
    names: dict[str, None] = {}
    following: dict[str, None] = {}
    for column in columns:
        if column.symbol is None:
            raise form.error(
                f"'{column.name.name}' may be of any event; write whose it is, as in "
                f"{next(iter(form.types))}.{column.name.name}",
                column.at,
            )
        is_next = column.symbol.name.startswith(_FOLLOWING)
        written = column.symbol.name.removeprefix(_FOLLOWING) if is_next else column.symbol.name
        found = form.called(Identifier(written, at=column.symbol.at))
        (following if is_next else names)[found.name.name] = None
    if not names and not following:
        raise form.error("a condition of WHERE is about events; name one of them", term.at)
    if following:
        return _pair(form, order, term, list(names), list(following))
    if len(names) > 2:
        raise form.cursor.not_supported(
            "a condition on more than two events", term.at, "write conditions on two of them"
        )
    return order.last_of(list(names), term), _with_symbols(form, term)


def _pair(
    form: _Form, order: _Order, term: Expression, names: list[str], following: list[str]
) -> tuple[str, Expression]:
    """Return the condition of an event on the one right before it, where that is mapped to E."""
    if len(names) != 1 or len(following) != 1:
        raise form.error(
            "NEXT(F).y is compared with a value of the event before, of one name: E.x < NEXT(F).y",
            term.at,
        )
    before, after = names[0], following[0]
    order.check_next(before, after, term)

    def change(node: syntax.Node) -> Expression | None:
        if not isinstance(node, syntax.Column) or node.symbol is None:
            return None
        plain = syntax.Column(node.name, at=node.at)
        if node.symbol.name.startswith(_FOLLOWING):
            return plain
        return syntax.Navigation("LAST", plain, syntax.Number(1, at=node.at), at=node.at)

    at = term.at
    symbol = syntax.Navigation("LAST", syntax.ClassifierCall(at=at), syntax.Number(1, at=at), at=at)
    nothing = syntax.Text("", at=at)
    known = syntax.Function(Identifier("COALESCE", at=at), (symbol, nothing), at=at)
    is_other = syntax.Binary("<>", known, syntax.Text(before, at=at), at=at)
    return after, syntax.Logical("OR", (is_other, _rewritten(term, change)), at=at)


def _with_symbols(form: _Form, term: Expression) -> Expression:
    """Return a term that names events as the translation does."""

    def change(node: syntax.Node) -> Expression | None:
        if not isinstance(node, syntax.Column) or node.symbol is None:
            return None
        return replace(node, symbol=replace(form.called(node.symbol).name, at=node.symbol.at))

    return _rewritten(term, change)


class _Order:
    """Which events of the pattern may follow which."""

    def __init__(self, form: _Form) -> None:
        self._form = form
        self._next: set[tuple[str, str]] = set()
        assert form.pattern is not None
        self._enter(form.pattern)
        self._later = set(self._next)
        for middle in form.types:
            self._later |= {
                (a, d) for a, b in self._later for c, d in self._later if b == c == middle
            }

    def _enter(self, pattern: RowPattern) -> tuple[set[str], set[str], bool]:
        """Note what follows what; return what may come first and last, and if nothing may."""
        match pattern:
            case syntax.SymbolPattern(symbol):
                return {symbol.name}, {symbol.name}, False
            case syntax.Sequence(parts):
                firsts, lasts, is_empty = set[str](), set[str](), True
                for part in parts:
                    first, last, may_be_empty = self._enter(part)
                    self._next |= {(a, b) for a in lasts for b in first}
                    firsts |= first if is_empty else set()
                    lasts = last | (lasts if may_be_empty else set())
                    is_empty = is_empty and may_be_empty
                return firsts, lasts, is_empty
            case syntax.Alternation(branches):
                found = [self._enter(branch) for branch in branches]
                firsts = {name for first, _, _ in found for name in first}
                lasts = {name for _, last, _ in found for name in last}
                return firsts, lasts, any(is_empty for *_, is_empty in found)
            case syntax.Quantified(body, low, high):
                first, last, is_empty = self._enter(body)
                if high != 1:
                    self._next |= {(a, b) for a in last for b in first}
                return first, last, is_empty or low == 0
        return set(), set(), True

    def check_next(self, before: str, after: str, term: Expression) -> None:
        """Check that an event may come right behind another."""
        for name in (before, after):
            if self._form.types[name].is_negated:
                raise self._form.error(
                    f"'{name}' is negated, so no event is before or behind it; leave NEXT out",
                    term.at,
                )
        if (before, after) not in self._next:
            raise self._form.error(
                f"'{after}' never comes right behind '{before}' in PATTERN, so NEXT({after}) says "
                "nothing",
                term.at,
            )

    def last_of(self, names: list[str], term: Expression) -> str:
        """Return which of the names is the later: its condition a term on both is."""
        negated = [name for name in names if self._form.types[name].is_negated]
        if len(names) == 1:
            return names[0]
        if len(negated) == 2:
            raise self._form.error(
                "a condition on two negated events has no event to hold of", term.at
            )
        if negated:
            return negated[0]
        one, other = names
        if (one, other) in self._later:
            return other
        if (other, one) in self._later:
            return one
        raise self._form.error(
            f"'{one}' and '{other}' are never in one match of PATTERN, so no condition is on both",
            term.at,
        )


# ---------------------------------------------------------------------------------------------
# Trees


def _rewritten(node: Expression, change: Callable[[syntax.Node], Expression | None]) -> Expression:
    """Return a tree with every node replaced for which ``change`` gives another, parents first."""
    changed = change(node)
    if changed is not None:
        return changed
    parts: dict[str, Any] = {
        one.name: _changed(getattr(node, one.name), change) for one in fields(node)
    }
    return replace(node, **parts)


def _changed(part: object, change: Callable[[syntax.Node], Expression | None]) -> object:
    """Return a part of a node likewise; what is no node stays."""
    if isinstance(part, tuple):
        return tuple(_changed(inner, change) for inner in part)
    return _rewritten(part, change) if isinstance(part, Expression) else part


# ---------------------------------------------------------------------------------------------
# The SQL it stands for


def printed(query: PatternQuery, source: str) -> str:
    """Return the SQL of a query that `parse_return_form` gave, whose source is written so."""
    clause = query.recognize
    if query.windows is not None:
        lengths = ", ".join(map(to_sql, query.windows.arguments))
        source = f"TABLE({query.windows.function}(TABLE {source}, {lengths}))"
    items = ", ".join(
        to_sql(item.expression) + ("" if item.alias is None else f" AS {to_sql(item.alias)}")
        for item in query.select
    )
    assert clause.strategy is not None
    defines = [f"{to_sql(one.symbol)} AS {to_sql(one.condition)}" for one in clause.defines]
    lines = [
        f"SELECT {items}",
        f"FROM {source} MATCH_RECOGNIZE (",
        *([f"  PARTITION BY {_listed(clause.partition_by)}"] if clause.partition_by else []),
        f"  PATTERN ({_printed(clause.pattern, is_part=False)})",
        f"  SEMANTICS {clause.strategy.kind.value}",
        *([f"  DEFINE {', '.join(defines)}"] if defines else []),
        ")" + (f" GROUP BY {_listed(query.group_by)}" if query.group_by else ""),
    ]
    return "\n".join(lines)


def _listed(nodes: Iterable[Expression]) -> str:
    return ", ".join(map(to_sql, nodes))


def _printed(pattern: RowPattern, *, is_part: bool) -> str:
    """Return a row pattern, in parentheses where it is a part of another."""
    match pattern:
        case syntax.SymbolPattern(symbol):
            return to_sql(symbol)
        case syntax.Negated(symbol):
            return f"!{to_sql(symbol)}"
        case syntax.Quantified(body, low, high):
            sign = next(sign for sign, of in _QUANTIFIERS.items() if of == (low, high))
            text = f"{_printed(body, is_part=True)}{sign}"
        case syntax.Sequence(parts):
            text = " ".join(_printed(part, is_part=True) for part in parts)
        case syntax.Alternation(branches):
            text = " | ".join(_printed(branch, is_part=True) for branch in branches)
    is_atom = isinstance(pattern, syntax.Quantified)
    return f"({text})" if is_part and not is_atom else text
