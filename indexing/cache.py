"""A bounded cache that several threads share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps values up to a total weight and drops those unused for longest.

    A single value heavier than ``weight_max`` is handed out and not kept.
    """

    def __init__(self, weight_max: int, weigh: Callable[[V], int]) -> None:
        self._weight_max = weight_max
        self._weigh = weigh
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value kept under ``key``, or make and keep it.

        Two threads may make the same value at once; one of the two is kept.
        """
        found = self.find(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def find(self, key: K) -> V | None:
        """Return the value kept under ``key``, or None."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V) -> None:
        """Keep ``value`` under ``key``, in place of what was kept there."""
        weight = self._weigh(value)
        with self._lock:
            replaced = self._values.pop(key, None)
            if replaced is not None:
                self._weight -= replaced[1]
            if weight > self._weight_max:
                return
            self._values[key] = (value, weight)
            self._weight += weight
            while self._weight > self._weight_max:
                _, (_, dropped) = self._values.popitem(last=False)
                self._weight -= dropped

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()
            self._weight = 0

    def _check(self) -> None:
        assert self._weight == sum(weight for _, weight in self._values.values())
        assert self._weight <= self._weight_max
