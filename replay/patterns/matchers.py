"""The matcher a program needs, and what all matchers have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replay.patterns.matcher import PatternMatcher
from replay.patterns.matches import Matches
from replay.patterns.program import MatchProgram

if TYPE_CHECKING:
    from replay.patterns.strategies.count import MatchCounter
    from replay.patterns.strategies.matcher import StrategyMatcher

    Matcher = PatternMatcher | StrategyMatcher

# The strategies are loaded by those who ask for one: a tenth of a second that most queries need not
# spend.


def new_matcher(program: MatchProgram, n_events: int | None = None) -> Matcher:
    """Return a matcher of the program, which has seen nothing yet.

    ``n_events`` is of the stream whose stretches it is given; None: it is given all of it.
    """
    if program.strategy is None:
        return PatternMatcher(program, n_events)
    from replay.patterns.strategies.matcher import StrategyMatcher

    return StrategyMatcher(program, n_events)


def new_counter(program: MatchProgram, n_events: int | None = None) -> MatchCounter:
    """Return what counts the matches of a strategy; see ``is_countable`` and `new_matcher`."""
    from replay.patterns.strategies.count import MatchCounter

    return MatchCounter(program, n_events)


def is_countable(program: MatchProgram) -> bool:
    """Return whether the matches can be counted without being made."""
    if program.strategy is None:
        return False
    from replay.patterns.strategies.count import why_not_countable

    return why_not_countable(program) is None


def certain_matches(matcher: Matcher) -> Iterator[Matches]:
    """Yield what is certain and was not taken yet, in parts of bounded size.

    Those of a strategy, of which there may be exponentially many, are looked for as they are asked.
    """
    if not isinstance(matcher, PatternMatcher):
        yield from matcher.batches()
    elif len(found := matcher.take()):
        yield found
