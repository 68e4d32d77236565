"""The columns of what stands after FROM, by name: of streams, subqueries, joins and windows."""

from __future__ import annotations

from dataclasses import dataclass

from replay.errors import BindError
from replay.language import syntax
from replay.language.bound import WINDOW_END, WINDOW_START, Attribute, DataType
from replay.language.bound import Columns as NamesAndTypes
from replay.language.printer import to_sql
from replay.language.source import Source, resolve
from replay.language.syntax import Identifier


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


def unique_names(columns: tuple[RelationColumn, ...], taken: tuple[str, ...] = ()) -> list[str]:
    """Return a name for each column that no other has: its own, or ``side.own`` where that clashes.

    Parameters
    ----------
    columns
        In their order; their ``name`` is not looked at.
    taken
        Names that stand for something else.
    """
    titles = [column.title for column in columns]
    clashing = {title for title in titles if titles.count(title) > 1} | set(taken)
    names: list[str] = []
    for column in columns:
        name = column.title
        if name in clashing and column.qualifier is not None:
            name = f"{column.qualifier}.{name}"
        while name in (*taken, *names):
            name += "_"
        names.append(name)
    return names


class RelationColumns:
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
        self.columns = columns
        self._source = source
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
        """Return these columns and those of windows.

        Raises
        ------
        BindError
            If a column has the name of one of those.
        """
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
        """Return the columns that ``*`` or ``a.*`` stands for."""
        columns = self.columns
        if star.symbol is not None:
            qualifier = self._qualifier(star.symbol)
            columns = tuple(column for column in columns if column.qualifier == qualifier)
        return [
            syntax.Column(Identifier(column.name, True, at=star.at), at=star.at)
            for column in columns
        ]

    def find(self, node: syntax.Column) -> str | None:
        """Return the name of the column meant; None if there is none.

        Raises
        ------
        BindError
            If several sides have it, or the name before the dot is none of theirs.
        """
        if node.symbol is None and node.name.quoted and node.name.name in self._by_name:
            return node.name.name
        columns = self.columns
        if node.symbol is not None:
            qualifier = self._qualifier(node.symbol)
            columns = tuple(column for column in columns if column.qualifier == qualifier)
        title = resolve(node.name, dict.fromkeys(column.title for column in columns))
        found = [column for column in columns if column.title == title]
        found = [column for column in found if column.qualifier is None] or found
        if len(found) > 1:
            either = " or ".join(f"{column.qualifier}.{to_sql(node.name)}" for column in found)
            raise self._source.error(f"'{title}' is a column of both sides; write {either}", node)
        return found[0].name if found else None

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
        """Return the name the column has in the answer: the one on its side."""
        return self._by_name[self.name(node)].title

    def attribute(self, name: str, node: syntax.Column) -> Attribute:
        """Return the column as an expression.

        Raises
        ------
        BindError
            If its type is none of the language's.
        """
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

    def check_qualifier(self, star: syntax.Star) -> None:
        """Check what stands before ``.*``."""
        if star.symbol is not None:
            self._qualifier(star.symbol)

    def missing(self, node: syntax.Column) -> BindError:
        """Return the error on a column that is not there."""
        titles = list(dict.fromkeys(column.title for column in self.columns))
        return self._source.unknown(self._what, node.name.name, titles, node.name)

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
        """Return the name of the column meant; None if there is none.

        Raises
        ------
        BindError
            Also if it is a column of windows.
        """
        if resolve(node.name, (WINDOW_START, WINDOW_END)) is not None:
            raise self._source.error(
                f"'{node.name.name}' belongs to a window, not to a row; HAVING, SELECT and "
                "ORDER BY can name it",
                node,
            )
        return super().find(node)


def _is(names: tuple[str, ...]) -> str:
    return "are" if len(names) > 1 else "is"
