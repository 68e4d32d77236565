"""The columns that clauses name: of what stands after FROM, and of MATCH_RECOGNIZE's answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replay.errors import BindError
from replay.language import syntax
from replay.language.bound import WINDOW_END, WINDOW_START, Attribute, DataType
from replay.language.bound import Columns as NamesAndTypes
from replay.language.printer import to_sql
from replay.language.source import Source, resolve
from replay.language.syntax import Identifier, PatternQuery

if TYPE_CHECKING:
    from replay.language.matched_rows import MatchedRows


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """One column, as it can be named."""

    qualifier: str | None
    """Alias or name of the side it comes from; None where nothing can stand before it."""
    title: str
    """Its name on that side."""
    name: str
    """Its name in the relation, where no other has it."""
    type: DataType | None
    unusable: str = ""
    """Where ``type`` is None: which type it has."""
    remedy: str = ""
    """Likewise, what to make of it."""
    merged: bool = False
    """Whether USING names it on the right of a join: without a side before it, the left's stands
    for both."""


def unique_names(columns: tuple[RelationColumn, ...], taken: tuple[str, ...] = ()) -> list[str]:
    """Return a name for each column that no other has: its own, or ``side.own`` where that clashes.

    Their ``name`` is not looked at; ``taken`` are names that stand for something else.
    """
    titles = [column.title for column in columns if not column.merged]
    clashing = {title for title in titles if titles.count(title) > 1} | set(taken)
    names: list[str] = []
    for column in columns:
        name = column.title
        if (name in clashing or column.merged) and column.qualifier is not None:
            name = f"{column.qualifier}.{name}"
        while name in (*taken, *names):
            name += "_"
        names.append(name)
    return names


class Columns(ABC):
    """The columns that SELECT and its clauses can name; they may stand in any row of an answer."""

    are_of_stream = False
    """Whether their rows are those of a stream, in its order."""
    matched: MatchedRows | None = None
    """What symbols mean in aggregates; None where there are none."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def all(self, star: syntax.Star) -> list[syntax.Column]:
        """Return the columns that ``*`` or ``m.*`` stands for."""
        names = self._all(star.symbol)
        return [syntax.Column(Identifier(name, True, at=star.at), at=star.at) for name in names]

    def name(self, node: syntax.Column) -> str:
        """Return the name of the column meant."""
        name = self.find(node)
        if name is None:
            raise self.missing(node)
        return name

    def title(self, node: syntax.Column) -> str:
        """Return the name the column has in the answer."""
        return self.name(node)

    def selected(self, name: str, node: syntax.Column) -> Attribute:
        """Return the column as one that is selected as it is."""
        return self.attribute(name, node)

    def of_rows(self) -> Columns:
        """Return those that WHERE and the arguments of aggregates can name."""
        return self

    @abstractmethod
    def find(self, node: syntax.Column) -> str | None:
        """Return the name of the column meant; None if there is none."""

    @abstractmethod
    def attribute(self, name: str, node: syntax.Column) -> Attribute:
        """Return the column as an expression."""

    @abstractmethod
    def check_qualifier(self, symbol: Identifier | None) -> None:
        """Check what stands before a dot."""

    @abstractmethod
    def missing(self, node: syntax.Column) -> BindError:
        """Return the error on a column that is not there."""

    @abstractmethod
    def _all(self, qualifier: Identifier | None) -> Sequence[str]:
        """Return the names of all columns, or of those of a side."""


class RelationColumns(Columns):
    """The columns of a relation; with windows also ``window_start`` and ``window_end``."""

    are_of_stream = True

    def __init__(
        self,
        columns: tuple[RelationColumn, ...],
        source: Source,
        *,
        what: str = "attribute",
        windows: DataType | None = None,
    ) -> None:
        super().__init__(source)
        self.columns = columns
        self._what = what
        self._windows = windows
        self._own = len(columns)
        if windows is not None:
            self.columns += tuple(
                RelationColumn(self._one_qualifier(), name, name, windows)
                for name in (WINDOW_START, WINDOW_END)
            )
        self._by_name = {column.name: column for column in self.columns}

    @property
    def names_and_types(self) -> NamesAndTypes:
        """The columns but for those of windows."""
        return tuple((column.name, column.type) for column in self.columns[: self._own])

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """What can stand before a column."""
        return tuple(dict.fromkeys(c.qualifier for c in self.columns if c.qualifier is not None))

    def _one_qualifier(self) -> str | None:
        """Return what can stand before columns of windows: the one name there is."""
        return self.columns[0].qualifier if self.columns else None

    def with_windows(self, time_type: DataType, node: syntax.Node) -> RelationColumns:
        """Return these columns and those of windows."""
        for name in (WINDOW_START, WINDOW_END):
            if name in self._by_name:
                raise self._source.error(
                    f"the windows add a column '{name}', and there is one of that name; select it "
                    "under another name in a subquery",
                    node,
                )
        return RelationColumns(self.columns, self._source, what=self._what, windows=time_type)

    def of_rows(self) -> RelationColumns:
        """Return the columns without those of windows, which WHERE and aggregates do not see."""
        if self._windows is None:
            return self
        return _RowColumns(self.columns[: self._own], self._source, what=self._what)

    def all(self, star: syntax.Star) -> list[syntax.Column]:
        """Return the columns that ``*`` or ``m.*`` stands for."""
        if not self.columns:
            raise self._nothing(star)
        return super().all(star)

    def _all(self, qualifier: Identifier | None) -> Sequence[str]:
        return [column.name for column in self._of_side(qualifier)]

    def _of_side(self, symbol: Identifier | None) -> tuple[RelationColumn, ...]:
        """Return the columns that can stand after a name and a dot, or without any."""
        if symbol is None:
            return tuple(column for column in self.columns if not column.merged)
        qualifier = self._qualifier(symbol)
        return tuple(column for column in self.columns if column.qualifier == qualifier)

    def find(self, node: syntax.Column) -> str | None:
        """Return the name of the column meant; None if there is none."""
        if node.symbol is None and node.name.quoted and node.name.name in self._by_name:
            return node.name.name
        columns = self._of_side(node.symbol)
        title = resolve(node.name, dict.fromkeys(column.title for column in columns))
        found = [column for column in columns if column.title == title]
        found = [column for column in found if column.qualifier is None] or found
        if len(found) > 1:
            either = " or ".join(f"{column.qualifier}.{to_sql(node.name)}" for column in found)
            raise self._source.error(f"'{title}' is a column of both sides; write {either}", node)
        return found[0].name if found else None

    def title(self, node: syntax.Column) -> str:
        """Return the name the column has in the answer: the one on its side."""
        return self._by_name[self.name(node)].title

    def attribute(self, name: str, node: syntax.Column) -> Attribute:
        """Return the column as an expression."""
        column = self._by_name[name]
        if column.type is None:
            raise self._source.error(
                f"{self._what} '{column.title}' has {column.unusable or 'a type'}, which queries "
                f"can only select as it is{f'; {column.remedy}' if column.remedy else ''}",
                node,
            )
        return Attribute(name, column.type)

    def selected(self, name: str, node: syntax.Column) -> Attribute:  # noqa: ARG002 - never fails
        """Return the column as one that is selected as it is; its type is NULL if none of ours."""
        data_type = self._by_name[name].type
        return Attribute(name, data_type if data_type is not None else DataType.NULL)

    def check_qualifier(self, symbol: Identifier | None) -> None:
        """Check that a side has the name that stands before a dot."""
        self._of_side(symbol)

    def missing(self, node: syntax.Column) -> BindError:
        """Return the error on a column that is not there."""
        if not self.columns:
            return self._nothing(node)
        titles = list(dict.fromkeys(column.title for column in self.columns))
        return self._source.unknown(self._what, node.name.name, titles, node.name)

    def _nothing(self, node: syntax.Column | syntax.Star) -> BindError:
        what = to_sql(node)
        return self._source.error(f"this SELECT has no FROM; write SELECT {what} FROM stream", node)

    def _qualifier(self, symbol: Identifier) -> str:
        qualifier = resolve(symbol, self.qualifiers)
        if qualifier is None:
            known = " and ".join(f"'{name}'" for name in self.qualifiers)
            raise self._source.error(
                f"'{symbol.name}' names nothing after FROM; there {_is(self.qualifiers)} "
                f"{known or 'no name'}",
                symbol,
            )
        return qualifier


class _RowColumns(RelationColumns):
    """The columns of rows where there are windows, too."""

    def find(self, node: syntax.Column) -> str | None:
        """Return the name of the column meant; None if there is none."""
        if resolve(node.name, (WINDOW_START, WINDOW_END)) is not None:
            raise self._source.error(
                f"'{node.name.name}' belongs to a window, not to a row; HAVING, SELECT and "
                "ORDER BY can name it",
                node,
            )
        return super().find(node)


def _is(names: tuple[str, ...]) -> str:
    return "are" if len(names) > 1 else "is"


class AnswerColumns(Columns):
    """The columns of MATCH_RECOGNIZE's answer by name."""

    def __init__(
        self,
        query: PatternQuery,
        columns: tuple[tuple[str, DataType | None], ...],
        source: Source,
        attribute_names: Sequence[str],
        matched: MatchedRows | None = None,
    ) -> None:
        super().__init__(source)
        self.matched = matched
        self.names = tuple(name for name, _ in columns)
        self._types = dict(columns)
        self._query = query
        self._attribute_names = attribute_names

    def _all(self, qualifier: Identifier | None) -> Sequence[str]:
        self.check_qualifier(qualifier)
        if not self.names:
            raise self._nothing()
        return self.names

    def find(self, node: syntax.Column) -> str | None:
        """Return the name of the column meant; None if there is none."""
        self.check_qualifier(node.symbol)
        return resolve(node.name, self.names)

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

    def check_qualifier(self, symbol: Identifier | None) -> None:
        """Check that the answer has the name that stands before a dot."""
        if symbol is None:
            return
        if self.matched is not None and self.matched.has(symbol):
            raise self.matched.unaggregated(symbol)
        alias = self._query.alias
        known = [alias.name] if alias is not None else []
        if resolve(symbol, known) is None:
            hint = f"its alias '{known[0]}'" if known else "no alias here"
            read = self._query.qualifier
            is_source = read is not None and resolve(symbol, [read]) is not None
            remedy = (
                "an alias of it stands behind MATCH_RECOGNIZE (…)"
                if is_source and not known
                else "values of symbols are named in MEASURES"
            )
            raise self._source.error(
                f"'{symbol.name}' does not name the result of MATCH_RECOGNIZE, which has "
                f"{hint}; {remedy}",
                symbol,
            )
