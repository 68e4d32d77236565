"""The matcher a program needs, and what all matchers have in common."""

from __future__ import annotations

from collections.abc import Iterator

from replay.operators.matcher import PatternMatcher
from replay.operators.matches import Matches
from replay.operators.program import MatchProgram
from replay.operators.strategies.matcher import StrategyMatcher

Matcher = PatternMatcher | StrategyMatcher


def new_matcher(program: MatchProgram) -> Matcher:
    """Return a matcher of the program, which has seen nothing yet."""
    return PatternMatcher(program) if program.strategy is None else StrategyMatcher(program)


def certain_matches(matcher: Matcher) -> Iterator[Matches]:
    """Yield what is certain and was not taken yet, in parts of bounded size.

    Those of a strategy, of which there may be exponentially many, are looked for as they are asked.
    """
    if isinstance(matcher, StrategyMatcher):
        yield from matcher.batches()
    elif len(found := matcher.take()):
        yield found
