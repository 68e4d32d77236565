"""How far a replay should have come at an instant of a clock."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeline:
    """Stream time as a function of a clock, from an instant on at which both are known.

    What is due is computed from that one instant, not from the event before, so that late
    wake-ups never add up.
    """

    at: int
    """Stream time at ``clock``, in the units of the stream."""
    clock: float
    """Seconds."""
    rate: float
    """Units of stream time in a second, above 0; infinite: everything is due."""

    def elapsed(self, clock: float) -> float:
        """Return the units of stream time from ``at`` to an instant; events up to it are due."""
        return math.inf if math.isinf(self.rate) else (clock - self.clock) * self.rate

    def clock_of(self, time: int) -> float:
        """Return the instant at which an event of this stream time is due."""
        return self.clock + (time - self.at) / self.rate

    def at_rate(self, rate: float, clock: float, *, position: int) -> Timeline:
        """Return the timeline that goes on at another rate from where this one is at ``clock``.

        ``position`` is where it is if its own rate is infinite.
        """
        is_endless = math.isinf(self.rate)
        return Timeline(
            position if is_endless else self.at + round(self.elapsed(clock)), clock, rate
        )
