"""Temporal patterns over situations: conditions, relations, durations, and what they return."""

from __future__ import annotations

from dataclasses import dataclass

from replay.expressions.types import type_of_moments
from replay.language import allen, syntax
from replay.language.bound import (
    DETECTION_TIME,
    Attribute,
    Columns,
    DataType,
    Measure,
    Relation,
    Situation,
    SituationRelation,
)
from replay.language.expression_binder import ExpressionBinder
from replay.language.relation_columns import RelationColumns
from replay.language.situation_scope import ConditionScope, ReturnScope
from replay.language.source import Source, resolve
from replay.language.syntax import Identifier, MatchSituations
from replay.language.window_binder import span_of_time

SITUATIONS_MAX = 64
"""So many truths of an event are one word."""


def bind_situations(
    node: syntax.Situations,
    relation: Relation,
    columns: RelationColumns,
    time: Attribute,
    source: Source,
) -> SituationRelation:
    """Resolve names and check types of a temporal pattern over the rows of a relation."""
    return _Binder(node.clauses, relation, columns, time, source).bind()


@dataclass(frozen=True, slots=True)
class _Binder:
    """Binds the clauses of one temporal pattern."""

    clauses: MatchSituations
    relation: Relation
    columns: RelationColumns
    time: Attribute
    source: Source

    def bind(self) -> SituationRelation:
        """Return the bound pattern."""
        clauses = self.clauses
        names = self._names()
        partition_by = self._partition_by()
        valid_for = None
        if clauses.valid_for is not None:
            valid_for = self._span(clauses.valid_for, "the duration of VALID FOR")
        situations = tuple(self._situation(define, names) for define in clauses.defines)
        pairs = self._pairs(names)
        if len(names) > 1 and clauses.within is None:
            raise self.source.error(
                "a pattern of several situations needs WITHIN, which says how far apart they may "
                "be; write WITHIN and a duration",
                clauses,
            )
        within = None if clauses.within is None else self._span(clauses.within, "WITHIN")
        returns = self._returns(names, partition_by)
        return SituationRelation(
            source=self.relation,
            source_time=self.time,
            partition_by=tuple(attribute.name for attribute in partition_by),
            valid_for=valid_for,
            situations=situations,
            pairs=pairs,
            within=within,
            is_final=clauses.is_final,
            returns=returns,
            columns=self._columns(names, partition_by, returns),
        )

    # -----------------------------------------------------------------------------------------
    # Situations

    def _names(self) -> tuple[str, ...]:
        """Return the names of the situations, each another, and all of them in PATTERN."""
        defines, pattern = self.clauses.defines, self.clauses.pattern
        names: list[str] = []
        for define in defines:
            if resolve(define.name, names) is not None:
                raise self.source.error(
                    f"situation '{define.name.name}' is defined twice; join its conditions by AND",
                    define.name,
                )
            names.append(define.name.name)
        if len(names) > SITUATIONS_MAX:
            raise self.source.not_supported(
                f"a pattern of more than {SITUATIONS_MAX} situations", defines[SITUATIONS_MAX]
            )
        named = {self._found(name, names) for term in pattern for name in (term.left, term.right)}
        for define, name in zip(defines, names, strict=True):
            if len(names) > 1 and name not in named:
                raise self.source.error(
                    f"situation '{name}' does not occur in PATTERN; relate it to another one, or "
                    "leave it out",
                    define.name,
                )
        return tuple(names)

    def _found(self, name: Identifier, names: list[str] | tuple[str, ...]) -> str:
        found = resolve(name, names)
        if found is None:
            raise self.source.unknown("situation in DEFINE called", name.name, names, name)
        return found

    def _situation(self, define: syntax.SituationDefine, names: tuple[str, ...]) -> Situation:
        name = define.name.name
        scope = ConditionScope(self.source, self.columns, names, name, self.time)
        binder = ExpressionBinder(self.source, scope)
        written = define.condition
        if (
            isinstance(written, syntax.Between)
            and binder.bind(written.operand).type is DataType.BOOLEAN
        ):
            raise self.source.error(
                "behind a column or parentheses BETWEEN compares; how long the situation lasts "
                "is written AT LEAST d AT MOST d there",
                written,
            )
        condition = binder.condition(define.condition, f"DEFINE {name}")
        at_least, at_most = (
            None if bound is None else self._span(bound, f"{words} of {name}")
            for bound, words in ((define.at_least, "AT LEAST"), (define.at_most, "AT MOST"))
        )
        if at_least is not None and at_most is not None and at_least > at_most:
            assert define.at_least is not None
            raise self.source.error(
                f"a situation '{name}' would last longer at least than at most; swap the two",
                define.at_least,
            )
        return Situation(name, condition, at_least, at_most)

    def _span(self, node: syntax.Expression, what: str) -> int:
        return span_of_time(node, what, (self.time.name, self.time.type), self.source)

    # -----------------------------------------------------------------------------------------
    # Pairs

    def _pairs(self, names: tuple[str, ...]) -> tuple[tuple[int, int, int], ...]:
        """Return the relations of each pair; a pair given twice satisfies both."""
        pairs: dict[tuple[int, int], int] = {}
        for term in self.clauses.pattern:
            left, right = (names.index(self._found(n, names)) for n in (term.left, term.right))
            if left == right:
                raise self.source.error(
                    f"situation '{names[left]}' is related to itself; define it twice under two "
                    "names",
                    term,
                )
            relations = term.relations
            if left > right:
                left, right, relations = right, left, allen.inverse(relations)
            both = pairs.get((left, right), allen.ALL) & relations
            if not both:
                raise self.source.error(
                    f"'{names[left]}' and '{names[right]}' are related twice, and no relation is "
                    "in both; join relations of which one holds by ;",
                    term,
                )
            pairs[left, right] = both
        return tuple((left, right, relations) for (left, right), relations in pairs.items())

    # -----------------------------------------------------------------------------------------
    # Columns

    def _partition_by(self) -> tuple[Attribute, ...]:
        attributes: list[Attribute] = []
        for column in self.clauses.partition_by:
            attribute = self.columns.attribute(self.columns.name(column), column)
            if attribute in attributes:
                raise self.source.error(f"PARTITION BY names '{attribute.name}' twice", column)
            attributes.append(attribute)
        return tuple(attributes)

    def _returns(
        self, names: tuple[str, ...], partition_by: tuple[Attribute, ...]
    ) -> tuple[Measure, ...]:
        keys = tuple(attribute.name for attribute in partition_by)
        scope = ReturnScope(self.source, self.columns, names, keys)
        binder = ExpressionBinder(self.source, scope)
        return tuple(
            Measure(measure.name.name, binder.bind(measure.expression))
            for measure in self.clauses.returns
        )

    def _columns(
        self,
        names: tuple[str, ...],
        partition_by: tuple[Attribute, ...],
        returns: tuple[Measure, ...],
    ) -> Columns:
        """Return the columns of the answer; no two have one name, in whatever case."""
        time_type = type_of_moments(self.time.type)
        own: list[tuple[str, DataType | None]] = [(a.name, a.type) for a in partition_by]
        times = [f"{name}_{border}" for name in names for border in ("start", "end")]
        times.append(DETECTION_TIME)
        for column, name in zip(self.clauses.partition_by, (name for name, _ in own), strict=True):
            if name in times:
                raise self.source.error(
                    f"two columns of the answer are named '{name}': one of PARTITION BY and a time "
                    "of the match; give the situation another name",
                    column,
                )
        for measure, bound in zip(self.clauses.returns, returns, strict=True):
            name = measure.name.name
            if name in times or name in (taken for taken, _ in own):
                raise self.source.error(
                    f"two columns of the answer are named '{name}'; give this one another name",
                    measure.name,
                )
            own.append((name, bound.type))
        return (*own, *((name, time_type) for name in times))
