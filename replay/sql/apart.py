"""A statement taken apart: what is ours in it, what DuckDB reads, and what is left to DuckDB.

`take_apart` is pure: which engine runs a statement is decided by its text alone. The largest
queries that our language reads whole and that hold one of our clauses are *cuts*: Chronicle answers
them. Of a MATCH_RECOGNIZE in a SELECT that is not ours the clause alone is cut out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from chronicle.errors import did_you_mean
from replay.errors import NotSupportedError, PatternSyntaxError, QueryError, UnknownNameError
from replay.language import parse_query
from replay.language.cursor import MAX_NESTING, RESERVED
from replay.language.statements import in_temporal_pattern
from replay.language.syntax import WINDOW_ARGUMENTS, streams_of
from replay.language.tokens import (
    END,
    NAME,
    NUMBER,
    PARAMETER,
    QUOTED,
    STRING,
    Token,
    ends,
    place,
    quoted,
    tokenize,
)
from replay.sql.allowed import check_allowed
from replay.sql.bounds import Bounds, time_bounds
from replay.sql.composed import Composed, Composer
from replay.sql.constructs import (
    END_FROM,
    PATTERN_CLAUSES,
    TABLE_FUNCTIONS,
    begins_sources,
    closings,
    has_construct,
    is_definition,
    is_pattern_clause,
    is_window_call,
    is_window_join,
    outside_patterns,
)
from replay.sql.ordered import Orderer, Ordering
from replay.sql.parameters import parameters_of
from replay.sql.rewriting import rewritten
from replay.sql.scope import Named, Scope, find, goes_along, input_of
from replay.sql.windows import split_windows, written_name

STATEMENTS_CACHED = 256
"""Statements taken apart that are kept per process."""


MADE_UP = "chronicle_part_"
"""How the relations begin that stand for parts; no name of the text may."""


@dataclass(frozen=True, slots=True)
class Input:
    """What DuckDB answers before a cut is, since our language cannot read it."""

    name: str
    """What it is called in the cut."""
    query: Composed
    ordered: Composed | None = None
    """The query with its rows as they stand in the streams, if it binds."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of the statement that Chronicle answers."""

    relation: str
    """The name its answer has in DuckDB."""
    query: Composed
    inputs: tuple[Input, ...]
    streams: tuple[str, ...]
    """Streams it reads; inputs are none."""
    line: int
    outer: frozenset[str]
    """Names of the sources around it, in lower case: none of them may be read in it."""
    bounds: Bounds | None = None
    """What WHERE around it asks of times of its answer."""


@dataclass(frozen=True, slots=True)
class Read:
    """A stream, a table in memory or a file that DuckDB reads."""

    relation: str
    name: str
    is_file: bool
    at: int


@dataclass(frozen=True, slots=True)
class Apart:
    """A statement taken apart."""

    text: str
    """As it was written."""
    main: Composed
    """What DuckDB runs."""
    cuts: tuple[Cut, ...]
    """In the order in which they can be answered."""
    reads: tuple[Read, ...]
    words: frozenset[str]
    """All names in what DuckDB runs, in lower case; with ``*`` if there is a star."""

    @property
    def queries(self) -> tuple[Composed, ...]:
        """All statements it is made of."""
        inputs = [one for cut in self.cuts for one in cut.inputs]
        ordered = [one.ordered for one in inputs if one.ordered is not None]
        queries = [*(cut.query for cut in self.cuts), *(one.query for one in inputs), *ordered]
        return (self.main, *queries)

    @property
    def names(self) -> tuple[str, ...]:
        """Streams and tables in memory it reads, each once."""
        reads = [read.name for read in self.reads if not read.is_file]
        return tuple(dict.fromkeys([*reads, *(name for cut in self.cuts for name in cut.streams)]))


@dataclass(frozen=True, slots=True)
class Ours:
    """A statement that is ours once its parameters are written as our language does."""

    query: Composed


@lru_cache(STATEMENTS_CACHED)
def take_apart(text: str) -> Apart | Ours | None:
    """Return a statement taken apart; None if nothing in it is for DuckDB.

    Raises a QueryError for what neither can answer.
    """
    scanner = _Scanner(text)
    last = next(i for i, token in enumerate(scanner.tokens) if token.kind == END)
    while last and scanner.tokens[last - 1].key == ";":
        last -= 1
    for i in range(last):
        if scanner.tokens[i].key == ";" and not in_temporal_pattern(scanner.tokens, i):
            raise scanner.error("one statement at a time; this ends the first one", i)
    if not has_construct(scanner.tokens, scanner.closing, 0, last):
        query = scanner.compose(0, last, is_ours=True)
        return Ours(query) if scanner.has_other_parameters else None
    if scanner.tokens[0].key == "CREATE":
        raise scanner.not_supported(
            "CREATE STREAM of a statement that goes beyond Chronicle's own language",
            0,
            "create it from the part that is Chronicle's",
        )
    if scanner.tokens[0].key not in ("SELECT", "WITH", "("):
        return None
    return scanner.scan(last)


# ---------------------------------------------------------------------------------------------


_NO_ALIAS_WORDS = """
    ANTI ASOF CROSS FULL INNER JOIN LEFT MATCH_RECOGNIZE MATCH_SITUATIONS NATURAL ON PIVOT
    POSITIONAL RIGHT SEMI TABLESAMPLE UNPIVOT USING WITHIN
"""
_NO_ALIAS = RESERVED | END_FROM | frozenset(_NO_ALIAS_WORDS.split())
"""Words after a source that are no alias of it."""

_QUERY_BEGINS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
_SETS = ("UNION", "INTERSECT", "EXCEPT")

_SELECTS = frozenset({"ALL", "DISTINCT", "RETURNING", "SELECT"})
"""Words before a star that stands for columns."""


@dataclass(slots=True)
class _Scanner:
    """Goes through a statement once, and notes what is cut out and what DuckDB reads."""

    text: str
    tokens: list[Token] = field(init=False)
    closing: dict[int, int] = field(init=False)
    parameters: dict[int, str] = field(init=False)
    has_other_parameters: bool = field(init=False)
    cuts: list[Cut] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    replaced: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By its first place, what stands for some tokens and where it goes on."""
    rewritten: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Likewise, what DuckDB reads otherwise than our language."""
    sources: set[str] = field(default_factory=set)
    """Names and aliases of sources, in lower case."""
    has_rows: bool = False
    """Whether a query begins with FROM or TABLE, which give all columns."""
    no_calls: set[int] = field(default_factory=set)
    """Places of names before a parenthesis that are aliases and queries with columns."""

    def __post_init__(self) -> None:
        tokens = tokenize(self.text, is_foreign=True)
        self.tokens = [*tokens, tokens[-1], tokens[-1]]  # so that one can look two ahead
        self.closing = closings(self.tokens)
        depth = 0
        for i, token in enumerate(self.tokens):
            if token.key in ("(", "[", "{") and i not in self.closing:
                raise self.error(f"this '{token.text}' is not closed", i)
            if token.kind == STRING and self._has_escapes(i):
                raise self.not_supported("a text with escapes, E'…',", i, "write '…' || chr(10)")
            depth += (token.key in ("(", "[", "{")) - (token.key in (")", "]", "}"))
            if depth > MAX_NESTING:
                raise self.not_supported(f"a statement nested over {MAX_NESTING} levels deep", i)
        self.parameters = parameters_of(self.text, self.tokens, self.closing)
        others = [i for i in self.parameters if self.tokens[i].kind != PARAMETER]
        self.has_other_parameters = bool(others)

    def _has_escapes(self, i: int) -> bool:
        """Tell whether a text is one of those that DuckDB would end elsewhere."""
        before = self.tokens[max(i - 1, 0)]
        return before.key == "E" and ends(before) == self.tokens[i].at

    # --- errors -------------------------------------------------------------------------------

    def error(self, message: str, i: int) -> PatternSyntaxError:
        """Return a syntax error at a token."""
        return PatternSyntaxError(message, **place(self.text, self.tokens[i].at))

    def not_supported(self, what: str, i: int, remedy: str = "") -> NotSupportedError:
        """Return the error ``<what> is not supported`` at a token."""
        message = f"{what} is not supported{f'; {remedy}' if remedy else ''}"
        return NotSupportedError(message, **place(self.text, self.tokens[i].at))

    # --- composing ----------------------------------------------------------------------------

    def compose(self, first: int, stop: int, *, is_ours: bool) -> Composed:
        """Return some tokens as a statement of ours or of DuckDB."""
        composer = Composer(is_ours)
        self._add(composer, first, stop)
        return composer.compose()

    def _add(
        self, composer: Composer, first: int, stop: int, ordering: Ordering | None = None
    ) -> None:
        replaced: Mapping[int, tuple[int, str]] = {}
        if not composer.is_ours:
            changed = {} if ordering is None else ordering.replaced
            replaced = {**self.rewritten, **self.replaced, **changed}
        composer.add_tokens(self.tokens, first, stop, parameters=self.parameters, replaced=replaced)

    def _with_before(
        self, composer: Composer, scope: Scope, ordering: Ordering | None = None
    ) -> None:
        """Add the queries of WITH that are in scope."""
        latest = {known.name.lower(): known for known in scope}
        chosen = [known for known in scope if latest[known.name.lower()] is known]
        for n, known in enumerate(chosen):
            word = "WITH RECURSIVE" if any(k.is_recursive for k in chosen) else "WITH"
            composer.add(word if n == 0 else ",", self.tokens[known.first].at)
            self._add(composer, known.first, known.stop, ordering)

    def _ordered(self, first: int, stop: int, scope: Scope) -> Composed | None:
        """Return a query with its rows as they stand in the streams; None if they have no place."""
        orderer = Orderer(
            self.tokens, self.closing, self.replaced, self._reads_all, self._behind_alias
        )
        ordering = orderer.ordering(first, stop, scope)
        if ordering is None:
            return None
        composer = Composer(is_ours=False)
        self._with_before(composer, scope, ordering)
        self._add(composer, first, stop, ordering)
        composer.add(ordering.end, self.tokens[first].at)
        return composer.compose()

    # --- going through ------------------------------------------------------------------------

    def scan(self, stop: int) -> Apart:
        """Return the statement of the tokens before ``stop``, taken apart."""
        for i, token in enumerate(self.tokens[:stop]):
            is_long = len(token.text) >= len(PATTERN_CLAUSES[0]) - 3
            if is_long and token.kind == NAME and self.tokens[i + 1].key == "(":
                hint = did_you_mean(token.key, PATTERN_CLAUSES)
                if hint and token.key not in PATTERN_CLAUSES:
                    raise self.error(f"there is no {token.key}{hint}", i)
            if token.kind in (NAME, QUOTED) and token.text.lower().startswith(MADE_UP):
                raise PatternSyntaxError(
                    f"names that begin with {MADE_UP} are Chronicle's own",
                    **place(self.text, token.at),
                )
        self.rewritten = dict(rewritten(self.text, self.tokens, self.closing))
        self._query(0, stop, (), frozenset())
        # What Chronicle's answers and sources stand for.
        replaced = {i for first, (end, _) in self.replaced.items() for i in range(first, end)}
        what_runs = [i for i in range(stop) if i not in replaced]
        check_allowed(self.text, self.tokens, what_runs, self.no_calls)
        words = {token.text.lower() for token in self.tokens if token.kind in (NAME, QUOTED)}
        if self.has_rows or any(self._reads_all(i) for i in range(stop)):
            words.add("*")
        main = self.compose(0, stop, is_ours=False)
        return Apart(self.text, main, tuple(self.cuts), tuple(self.reads), frozenset(words))

    def _reads_all(self, i: int) -> bool:
        """Tell whether a token stands for columns without a name, such as a star or a source."""
        token, before, after = self.tokens[i], self.tokens[max(i - 1, 0)], self.tokens[i + 1]
        if token.key in ("COLUMNS", "NATURAL"):
            return True
        if token.key == "ON" and before.key == "DISTINCT" and after.key == "(":
            return self.tokens[self.closing[i + 1] + 1].key == "*"
        if token.key == "*":
            is_count = before.key == "(" and after.key == ")" and self.tokens[i - 2].key == "COUNT"
            is_product = before.kind in (NUMBER, STRING, QUOTED, PARAMETER) or (
                before.key in (")", "]") or (before.kind == NAME and before.key not in _SELECTS)
            )
            return not is_count and not is_product
        if token.kind not in (NAME, QUOTED) or i in self.replaced or i in self.no_calls:
            return False
        return token.text.lower() in self.sources and after.key != "." and before.key != "."

    def _query(self, first: int, stop: int, scope: Scope, outer: frozenset[str]) -> None:
        """Go through a query with its WITH and its sides of UNION."""
        if self._cut_query(first, stop, scope, outer):
            return
        i = first
        if self.tokens[i].key == "WITH":
            i, scope = self._named(i, stop, scope)
        sides = list(self._sides(i, stop))
        for a, b in sides:
            self._side(a, b, scope, outer)
        last = sides[-1][1]
        if last < stop:  # ORDER BY and the like of all sides
            self._walk(last, stop, scope, outer, in_query=True)

    def _named(self, i: int, stop: int, scope: Scope) -> tuple[int, Scope]:
        """Go through WITH; return the place behind it, and the scope with its names."""
        is_recursive = self.tokens[i + 1].key == "RECURSIVE"
        i += 2 if is_recursive else 1
        while True:
            first, name = i, self.tokens[i]
            if name.kind not in (NAME, QUOTED):
                raise self.error("expected a name for a query after WITH", i)
            i += 1
            if self.tokens[i].key == "(":  # its columns
                self.no_calls.add(i - 1)
                i = self.closing[i] + 1
            i = self._expect(i, "AS", f"and a query after {name.text}")
            while self.tokens[i].key in ("NOT", "MATERIALIZED"):
                i += 1
            opening = i
            self._expect(i, "(", f"and a query after {name.text} AS")
            end = self.closing[opening]
            self._check_begins_query(opening + 1)
            is_plain = opening == first + 2 and not is_recursive
            query = self._ours(opening + 1, end, scope) if is_plain else None
            ours = None
            if isinstance(query, Composed):
                ours = frozenset(map(str.lower, streams_of(parse_query(query.text))))
            own = Named(name.text, first, end + 1, ours, is_recursive)
            inside = (*scope, own) if is_recursive else scope
            self._query(opening + 1, end, inside, frozenset())
            scope = (*scope, own)
            i = end + 1
            if i >= stop or self.tokens[i].key != ",":
                return i, scope
            i += 1

    def _expect(self, i: int, key: str, why: str) -> int:
        if self.tokens[i].key != key:
            raise self.error(f"expected {key} {why}", i)
        return i + 1

    def _check_begins_query(self, i: int) -> None:
        if self.tokens[i].key not in (*_QUERY_BEGINS, "("):
            raise self.error("expected a query, which begins with SELECT", i)

    def _sides(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the sides of UNION, INTERSECT and EXCEPT; the last one ends before ORDER BY."""
        begin, has_several = first, False
        for i in self._level(first, stop):
            if self.tokens[i].key in _SETS and i > begin:
                has_several = True
                yield begin, i
                begin = i + 1
                if self.tokens[begin].key in ("ALL", "DISTINCT"):
                    begin += 1
                if self.tokens[begin].key == "BY":
                    begin += 2
        end = stop
        if has_several:
            ordering = ("ORDER", "LIMIT", "OFFSET", "FETCH")
            end = next(
                (i for i in self._level(begin, stop) if self.tokens[i].key in ordering), stop
            )
        yield begin, end

    def _level(self, first: int, stop: int) -> Iterator[int]:
        """Yield the places of tokens outside of all parentheses."""
        i = first
        while i < stop:
            yield i
            i = self.closing[i] + 1 if i in self.closing else i + 1

    def _side(self, first: int, stop: int, scope: Scope, outer: frozenset[str]) -> None:
        if first >= stop:
            raise self.error("expected a query here", first)
        self.has_rows |= self.tokens[first].key in ("FROM", "TABLE")
        if self.tokens[first].key == "(":
            end = self.closing[first]
            self._check_begins_query(first + 1)
            self._query(first + 1, end, scope, outer)
            self._walk(end + 1, stop, scope, outer, in_query=True)
        elif self.tokens[first].key == "TABLE":
            self._walk(self._source(first + 1, scope, outer), stop, scope, outer)
        elif not self._cut_query(first, stop, scope, outer):
            self._cut_windows(first, stop, scope, outer)
            self._walk(first, stop, scope, outer, in_query=True)

    # --- cuts ---------------------------------------------------------------------------------

    def _holds_ours(self, first: int, stop: int) -> bool:
        """Tell whether one of our clauses stands in these tokens."""
        return any(self._is_ours(i) for i in range(first, stop))

    def _is_ours(self, i: int) -> bool:
        if self.tokens[i].key == "JOIN":
            return is_window_join(self.tokens, i)
        is_clause = is_pattern_clause(self.tokens, i) or is_definition(self.tokens, i)
        return is_clause or is_window_call(self.tokens, i)

    def _ours(self, first: int, stop: int, scope: Scope, before: str = "") -> Composed | QueryError:
        """Return tokens as a query of ours, or why they are none."""
        if not before and has_construct(self.tokens, self.closing, first, stop):
            return NotSupportedError("")
        composer = self._begun(first, stop, scope)
        if before:
            composer.add(before, self.tokens[first].at)
        self._add(composer, first, stop)
        return self._parsed(composer)

    def _begun(self, first: int, stop: int, scope: Scope) -> Composer:
        """Return a query of ours with the queries of WITH that some tokens name."""
        composer = Composer(is_ours=True)
        names = {t.text.lower() for t in self.tokens[first:stop] if t.kind in (NAME, QUOTED)}
        needed: list[Named] = []
        for known in reversed(scope):
            is_named = known.name.lower() in names and find(scope, known.name) is known
            if is_named and goes_along(scope, known):
                needed.insert(0, known)
                inside = self.tokens[known.first : known.stop]
                names |= {t.text.lower() for t in inside if t.kind in (NAME, QUOTED)}
        self._with_before(composer, tuple(needed))
        return composer

    def _parsed(self, composer: Composer) -> Composed | QueryError:
        """Return a query of ours, or why it is none."""
        composed = composer.compose()
        try:
            parse_query(composed.text)
        except QueryError as error:
            composed.retell(error, self.text)
            return error
        return composed

    def _reads_outer(self, first: int, stop: int, outer: frozenset[str]) -> bool:
        """Tell whether a query refers to a row around it, outside of its patterns."""
        others = outer - set(self._source_names(first, stop))
        return any(
            self.tokens[i].text.lower() in others and self.tokens[i + 1].key == "."
            for i in outside_patterns(self.tokens, self.closing, first, stop)
            if self.tokens[i].kind in (NAME, QUOTED)
        )

    def _clause(self, first: int, stop: int, scope: Scope, before: str) -> Composed:
        """Return a source with its pattern clause as a query of ours, which it must be."""
        found = self._ours(first, stop, scope, before)
        if isinstance(found, QueryError):
            raise found
        return found

    def _cut_query(self, first: int, stop: int, scope: Scope, outer: frozenset[str]) -> bool:
        """Cut out a whole query if it is ours and holds one of our clauses; tell whether."""
        if not self._holds_ours(first, stop) or self._reads_outer(first, stop, outer):
            return False
        found = self._ours(first, stop, scope)
        if isinstance(found, Composed):
            bounds = None
            if self.closing.get(first - 1) == stop:  # in parentheses, as sources are
                inner = found.between("SELECT * FROM (", ")", self.tokens[stop].at)
                bounds = self._bounds(first - 1, stop + 1, inner)
            self._cut(first, stop, found, scope, outer, is_query=True, bounds=bounds)
            return True
        if found.line:  # nothing in it is for DuckDB, and our language cannot read it
            raise found
        return False

    def _cut_windows(self, first: int, stop: int, scope: Scope, outer: frozenset[str]) -> None:
        """Cut the groups of a SELECT over windows out, so that DuckDB runs the rest over them."""
        split = split_windows(self.tokens, self.closing, first, stop)
        if split is None:
            return
        begin, end = split.source
        if has_construct(self.tokens, self.closing, begin, split.all_at or end):
            call = next(i for i in range(begin, end) if is_window_call(self.tokens, i))
            name = self.tokens[call].key
            raise self.not_supported(
                f"{name}(…) over rows that DuckDB has to find",
                call,
                "find them in WITH: WITH found AS (SELECT … WHERE …) "
                f"SELECT … FROM {name}(TABLE found, …)",
            )
        composer = self._begun(begin, end, scope)
        relation, at = self._relation(), self.tokens[begin].at
        keys = ", ".join(map(quoted, split.keys))
        composer.add(f"SELECT {keys}", at)
        for n, (a, b) in enumerate(split.aggregates):
            composer.add(",", self.tokens[a].at, apart=False)
            self._add(composer, a, b)
            composer.add(f"AS {relation}_{n}", self.tokens[a].at)
        self._add(composer, begin, split.all_at or end)
        if split.all_at is not None:
            composer.add(keys, self.tokens[split.all_at].at)
        query = self._parsed(composer)
        if isinstance(query, QueryError):
            raise query
        self._cut(begin, end, query, scope, outer)
        alias = "" if split.name is None else f" AS {quoted(split.name)}"
        self.replaced[begin] = (end, f"FROM {relation}{alias}")
        if split.having is not None:
            self.replaced[split.having] = (split.having + 1, "WHERE")
        for n, (a, b) in enumerate(split.aggregates):
            is_item = self.tokens[a - 1].key in ("SELECT", ",") and b <= begin
            has_name = not is_item or self.tokens[b].key not in (",", "FROM")
            name = "" if has_name else f" AS {written_name(self.tokens[a:b])}"
            self.replaced[a] = (b, f"{relation}_{n}{name}")

    def _cut(
        self,
        first: int,
        stop: int,
        query: Composed,
        scope: Scope,
        outer: frozenset[str],
        *,
        is_query: bool = False,
        inputs: tuple[Input, ...] = (),
        bounds: Bounds | None = None,
    ) -> None:
        """Note that some tokens are answered by Chronicle."""
        relation = self._relation()
        names = streams_of(parse_query(query.text))
        for name in names:
            known = input_of(scope, name)
            if known is not None and known.first <= first < known.stop:
                raise self.not_supported(
                    "one of Chronicle's clauses over the recursive query it stands in", first
                )
            if known is not None:
                inputs = (*inputs, self._input(name, known, scope))
        given = {found.name for found in inputs}
        streams = tuple(name for name in names if name not in given)
        line = place(self.text, self.tokens[first].at)["line"]
        self.cuts.append(Cut(relation, query, inputs, streams, line, outer, bounds))
        text = f"SELECT * FROM {relation}" if is_query else relation + self._own_alias(first, stop)
        self.replaced[first] = (stop, text)

    def _input(self, name: str, known: Named, scope: Scope) -> Input:
        """Return the query that gives a cut all rows of one that WITH names."""
        before = scope[: scope.index(known)]
        composer = Composer(is_ours=False)
        self._with_before(composer, (*before, known))
        composer.add(f"SELECT * FROM {quoted(known.name)}", self.tokens[known.first].at)
        ordered = None
        if not known.is_recursive and self.tokens[known.first + 2].key == "(":
            ordered = self._ordered(known.first + 3, known.stop - 1, before)
        return Input(name, composer.compose(), ordered)

    def _relation(self) -> str:
        return f"{MADE_UP}{len(self.cuts) + len(self.reads)}"

    def _own_alias(self, first: int, stop: int) -> str:
        """Return the alias of a relation without one: what it was called, if that is a name."""
        following = self.tokens[stop]
        if self._is_alias(stop) or following.key == "AS":
            return ""
        token = self.tokens[first]
        return f" AS {quoted(token.text)}" if token.kind in (NAME, QUOTED, STRING) else ""

    def _is_alias(self, i: int) -> bool:
        token = self.tokens[i]
        return token.kind == QUOTED or (token.kind == NAME and token.key not in _NO_ALIAS)

    def _bounds(self, first: int, stop: int, query: Composed) -> Bounds | None:
        """Return what WHERE asks of times of a source that a cut answers and that stands alone.

        Not where an alias gives its columns other names.
        """
        where = self._behind_alias(stop)
        if self.tokens[first - 1].key != "FROM" or self.tokens[where].key != "WHERE":
            return None
        if self.tokens[where - 1].key == ")" and where > stop:
            return None
        name = self.tokens[where - 1 if where > stop else first].text.lower()
        columns, text = time_bounds(self.tokens, self.closing, where, (name,))
        if not columns:
            return None
        return Bounds(columns, query.between("", f" WHERE {text}", self.tokens[where].at))

    # --- sources ------------------------------------------------------------------------------

    def _walk(
        self,
        first: int,
        stop: int,
        scope: Scope,
        outer: frozenset[str],
        *,
        in_query: bool = False,
        in_from: bool = False,
    ) -> None:
        """Go through tokens of one level: sources where they are expected, queries everywhere."""
        if in_query:
            outer |= frozenset(self._source_names(first, stop))
        i, expects = first, in_from
        while i < stop:
            token = self.tokens[i]
            if in_from and token.key == "JOIN":
                self._refuse_window_join(i)
            if expects and token.key != "LATERAL":
                i, expects = self._source(i, scope, outer), False
                continue
            if is_pattern_clause(self.tokens, i):
                raise self.not_supported(
                    f"{token.key} here",
                    i,
                    "it stands behind a stream, or a query in parentheses, of FROM",
                )
            if i in self.closing:
                self._inside(i, scope, outer)
                i = self.closing[i] + 1
                continue
            if i in self.replaced and begins_sources(self.tokens, i):
                i = self.replaced[i][0]
                continue
            if in_query and begins_sources(self.tokens, i):
                in_from = expects = True
            elif token.key in END_FROM:
                in_from = False
            elif in_from and token.key in ("JOIN", ","):
                expects = True
            i += 1

    def _inside(self, opening: int, scope: Scope, outer: frozenset[str]) -> None:
        """Go through what stands in parentheses."""
        end, i = self.closing[opening], opening + 1
        if self._is_query_in(opening):
            self._query(i, end, scope, outer)
        else:
            self._walk(i, end, scope, outer)

    def _is_query_in(self, opening: int) -> bool:
        """Tell whether a query stands in parentheses; its first side may have its own."""
        first, stop = opening + 1, self.closing[opening]
        begins = self.tokens[first].key
        if begins == "(" and any(self.tokens[i].key in _SETS for i in self._level(first, stop)):
            begins = "SELECT"
        return self.tokens[opening].key == "(" and begins in _QUERY_BEGINS

    def _refuse_window_join(self, i: int) -> None:
        if is_window_join(self.tokens, i):
            raise self.not_supported(
                "a join of Chronicle's (ASOF, WITHIN) in a SELECT that DuckDB runs",
                i,
                "join in a subquery of its own: FROM (SELECT … FROM a JOIN b WITHIN … ON …) AS j",
            )

    def _source_names(self, first: int, stop: int) -> Iterator[str]:
        """Yield the names that the sources of a SELECT have, in lower case."""
        in_from = False
        for i in self._level(first, stop):
            if begins_sources(self.tokens, i):
                in_from = True
            elif self.tokens[i].key in END_FROM:
                in_from = False
            elif in_from and self._is_alias(i):
                yield self.tokens[i].text.lower()

    def _source(self, i: int, scope: Scope, outer: frozenset[str]) -> int:
        """Go through a source of FROM; return the place behind it."""
        token, following = self.tokens[i], self.tokens[i + 1]
        if token.key == "(":
            return self._in_parentheses(i, scope, outer)
        if token.kind == STRING:
            return self._read(i, i + 1, token.text, is_file=True)
        if token.key == "VALUES" or token.kind not in (NAME, QUOTED):
            return i + 1
        if following.key == "(":
            return self._table_function(i, scope, outer)
        if following.key == ".":
            raise UnknownNameError(
                "stream",
                f"{token.text}.{self.tokens[i + 2].text}",
                candidates=(),
                listed="a stream with a dot in its name is quoted",
                **place(self.text, token.at),
            )
        end = self._behind_clause(i + 1)
        if end is not None:
            query = self._clause(i, end, scope, "SELECT * FROM")
            self._cut(i, end, query, scope, outer, bounds=self._bounds(i, end, query))
            return self._behind_alias(end)
        if find(scope, token.text) is not None:
            return self._behind_alias(i + 1)
        return self._read(i, i + 1, token.text, is_file=False)

    def _read(self, first: int, stop: int, name: str, *, is_file: bool) -> int:
        """Note that DuckDB reads a stream, a table or a file; return the place behind it."""
        read = Read(self._relation(), name, is_file, self.tokens[first].at)
        self.sources.add(name.lower())
        self.reads.append(read)
        self.replaced[first] = (stop, read.relation + self._own_alias(first, stop))
        return self._behind_alias(stop)

    def _behind_alias(self, i: int) -> int:
        """Return the place behind an alias, if there is one, with its list of columns."""
        if self.tokens[i].key == "AS":
            i += 1
        elif not self._is_alias(i):
            return i
        self.no_calls.add(i)
        self.sources.add(self.tokens[i].text.lower())
        i += 1
        return self.closing[i] + 1 if self.tokens[i].key == "(" else i

    def _behind_clause(self, i: int) -> int | None:
        """Return the place behind the pattern clause of a source, None if it has none."""
        if not is_pattern_clause(self.tokens, i):
            if self.tokens[i].key != "AS" and not self._is_alias(i):
                return None
            i += 2 if self.tokens[i].key == "AS" else 1
        return self.closing[i + 1] + 1 if is_pattern_clause(self.tokens, i) else None

    def _in_parentheses(self, i: int, scope: Scope, outer: frozenset[str]) -> int:
        """Go through a subquery or a join in parentheses; return the place behind it."""
        end = self.closing[i]
        if not self._is_query_in(i):
            self._walk(i + 1, end, scope, outer, in_from=True)
            return self._behind_alias(end + 1)
        stop = self._behind_clause(end + 1)
        if stop is None:
            self._query(i + 1, end, scope, outer)
            return self._behind_alias(end + 1)
        if not has_construct(self.tokens, self.closing, i + 1, end):
            query = self._clause(i, stop, scope, "SELECT * FROM")
            self._cut(i, stop, query, scope, outer, bounds=self._bounds(i, stop, query))
            return self._behind_alias(stop)
        self._query(i + 1, end, scope, outer)
        composer = Composer(is_ours=False)
        self._with_before(composer, scope)
        composer.add("SELECT * FROM (", self.tokens[i].at)
        self._add(composer, i + 1, end)
        composer.add(")", self.tokens[end].at)
        name = self._relation()
        query = self._clause(end + 1, stop, scope, f"SELECT * FROM {name}")
        given = Input(name, composer.compose(), self._ordered(i + 1, end, scope))
        self._cut(i, stop, query, scope, outer, inputs=(given,))
        return self._behind_alias(stop)

    def _table_function(self, i: int, scope: Scope, outer: frozenset[str]) -> int:
        token, inside = self.tokens[i], self.tokens[i + 2]
        end = self.closing[i + 1]
        window = inside if token.key == "TABLE" else token
        if token.key == "TABLE" and window.key not in WINDOW_ARGUMENTS:
            hint = did_you_mean(window.key, WINDOW_ARGUMENTS)
            known = ", ".join(WINDOW_ARGUMENTS)
            raise self.error(
                f"expected a window function ({known}) after TABLE (, found {window.text}{hint}",
                i + 2,
            )
        if window.key in WINDOW_ARGUMENTS:
            raise self.not_supported(
                f"{window.key}(…) in a SELECT that DuckDB runs",
                i,
                "aggregate in a query of its own: WITH w AS (SELECT window_start, COUNT(*) AS n "
                f"FROM TABLE({window.key}(…)) GROUP BY window_start) SELECT … FROM w",
            )
        if token.text.lower() not in TABLE_FUNCTIONS:
            known = ", ".join(sorted(TABLE_FUNCTIONS))
            hint = did_you_mean(token.text, TABLE_FUNCTIONS)
            raise self.not_supported(
                f"the table function {token.text}",
                i,
                f"FROM takes streams, tables, files ('f.parquet'), subqueries and {known}{hint}",
            )
        self._walk(i + 2, end, scope, outer)
        return self._behind_alias(end + 1)
