"""The names of a pattern query: attributes of the stream, symbols of PATTERN and their subsets."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from chronicle.errors import did_you_mean
from replay.errors import BindError
from replay.expressions.types import columns_of_schema, remedy_for
from replay.language import syntax
from replay.language.bound import WINDOW_END, WINDOW_START, Columns, DataType
from replay.language.source import Source, resolve
from replay.language.syntax import Identifier


class Attributes:
    """The attributes of a stream, or the columns of a subquery, by name."""

    def __init__(self, columns: Columns, source: Source, *, what: str = "attribute") -> None:
        self.columns = columns
        self.names: tuple[str, ...] = tuple(name for name, _ in columns)
        self._types = dict(columns)
        self._what = what
        self.in_windows = False
        """Whether rows are matched by windows, whose columns are no attributes."""
        self._source = source
        self._arrow_types: dict[str, pa.DataType] = {}
        self._found: dict[Identifier, tuple[str, DataType]] = {}

    @staticmethod
    def of_schema(schema: pa.Schema, source: Source) -> Attributes:
        """Return the attributes of a stream."""
        attributes = Attributes(columns_of_schema(schema), source)
        attributes._arrow_types = {field.name: field.type for field in schema}
        return attributes

    def find(self, identifier: Identifier, at: syntax.Node) -> tuple[str, DataType]:
        """Return name and type of an attribute."""
        found = self._found.get(identifier)
        if found is None:
            found = self._found[identifier] = self._look_up(identifier, at)
        return found

    def has(self, identifier: Identifier) -> bool:
        """Tell whether there is an attribute of that name."""
        return resolve(identifier, self.names) is not None

    def type_of(self, name: str) -> DataType | None:
        """Return the type of an attribute by its exact name; None if it is none of ours."""
        return self._types[name]

    def unusable(self, name: str, at: syntax.Node) -> BindError:
        """Return the error of an attribute whose type is none of the language's."""
        arrow_type = self._arrow_types.get(name)
        if arrow_type is None:
            return self._source.error(
                f"{self._what} '{name}' has a type that queries cannot use", at
            )
        return self._source.error(
            f"{self._what} '{name}' has the type {arrow_type}, which queries cannot use; "
            f"{remedy_for(arrow_type)}",
            at,
        )

    def _look_up(self, identifier: Identifier, at: syntax.Node) -> tuple[str, DataType]:
        name = resolve(identifier, self.names)
        if name is None:
            raise self._unknown(identifier, at)
        data_type = self.type_of(name)
        if data_type is None:
            raise self.unusable(name, at)
        return name, data_type

    def _unknown(self, identifier: Identifier, at: syntax.Node) -> BindError:
        name = identifier.name
        if self.in_windows and resolve(identifier, (WINDOW_START, WINDOW_END)) is not None:
            return self._source.error(
                f"'{name}' belongs to a window, not to a row; PARTITION BY, SELECT, WHERE, HAVING "
                "and ORDER BY around can name it",
                at,
            )
        if identifier.quoted and not did_you_mean(name, self.names):
            return self._source.error(
                f"no {self._what} '{name}'; a text is written in single quotes: '{name}'", at
            )
        return self._source.unknown(self._what, name, self.names, at)


def symbol_name(identifier: Identifier) -> str:
    """Return the name of a symbol or subset: in upper case, as in SQL, unless it is quoted."""
    return identifier.name if identifier.quoted else identifier.name.upper()


class Symbols:
    """The symbols of a pattern, numbered in the order they appear in, and unions of them."""

    def __init__(self, source: Source) -> None:
        self.names: list[str] = []
        self.negated: dict[int, syntax.Negated] = {}
        """Symbols that stand in PATTERN as !X, and where first."""
        self._subsets: dict[str, tuple[int, ...]] = {}
        self._numbers: dict[str, int] = {}
        self._source = source

    def add(self, identifier: Identifier) -> int:
        """Return the number of a symbol in PATTERN, a new one if it was not there before."""
        name = symbol_name(identifier)
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]

    def add_negated(self, node: syntax.Negated) -> int:
        """Return the number of the symbol of ``!X``."""
        number = self.add(node.symbol)
        self.negated.setdefault(number, node)
        return number

    def add_subset(self, subset: syntax.Subset) -> None:
        """Take in ``U = (A, B)``."""
        name = symbol_name(subset.name)
        if name in self._numbers:
            raise self._source.error(
                f"'{name}' is a symbol of PATTERN; give the subset another name", subset.name
            )
        if name in self._subsets:
            raise self._source.error(f"two subsets are named '{name}'", subset.name)
        members: set[int] = set()
        for member in subset.members:
            number = self._member(member)
            if number in members:
                raise self._source.error(
                    f"the subset '{name}' names '{self.names[number]}' twice", member
                )
            members.add(number)
        self._subsets[name] = tuple(sorted(members))

    def has(self, identifier: Identifier) -> bool:
        """Tell whether there is a symbol or subset of that name."""
        name = symbol_name(identifier)
        return name in self._numbers or name in self._subsets

    def find(self, identifier: Identifier) -> tuple[int, ...]:
        """Return the numbers of a symbol or subset used outside PATTERN."""
        name = symbol_name(identifier)
        if name in self._subsets:
            return self._subsets[name]
        if name not in self._numbers:
            raise self._unknown(identifier, (*self.names, *self._subsets))
        return (self._numbers[name],)

    def unmapped(self, number: int, at: Identifier) -> BindError:
        """Return the error on reading the rows of a symbol that is only negated."""
        name = self.names[number]
        return self._source.error(
            f"'{name}' stands in PATTERN only as !{name}, so no row is mapped to it and there is "
            "nothing to read",
            at,
        )

    def find_defined(self, identifier: Identifier) -> int:
        """Return the number of the symbol that DEFINE names."""
        name = symbol_name(identifier)
        if name in self._subsets:
            members = ", ".join(self.names[number] for number in self._subsets[name])
            raise self._source.error(
                f"'{name}' is a subset and has no condition of its own; define its members "
                f"{members}",
                identifier,
            )
        if name not in self._numbers:
            raise self._unknown(identifier, self.names)
        return self._numbers[name]

    def _member(self, member: Identifier) -> int:
        name = symbol_name(member)
        if name in self._subsets:
            raise self._source.error(
                f"'{name}' is a subset itself; name its members instead", member
            )
        if name not in self._numbers:
            raise self._unknown(member, self.names)
        number = self._numbers[name]
        if number in self.negated:
            raise self._source.error(
                f"'{name}' stands in PATTERN only as !{name}, so no row is mapped to it; leave it "
                "out of the subset",
                member,
            )
        return number

    def _unknown(self, identifier: Identifier, names: Sequence[str]) -> BindError:
        name = symbol_name(identifier)
        similar = [known for known in names if known.casefold() == name.casefold()]
        if similar:
            return self._source.error(
                f"no symbol in PATTERN called '{name}', but \"{similar[0]}\": names without quotes "
                "are read in upper case, and quoted ones as they are written",
                identifier,
            )
        return self._source.unknown("symbol in PATTERN called", name, names, identifier)
