"""The bounded cache against its bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexing.cache import BoundedCache


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 7))))
def test_weight_stays_within_the_bound(steps: list[tuple[int, int]]) -> None:
    cache: BoundedCache[int, int] = BoundedCache(10, lambda value: value)
    for key, value in steps:
        cache.put(key, value)
        cache._check()
        assert cache.find(key) == value


def test_value_unused_for_longest_is_dropped_first() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3, lambda _: 1)
    for key in "abc":
        cache.put(key, 1)
    assert cache.find("a") == 1
    cache.put("d", 1)
    assert [key for key in "abcd" if cache.find(key) is not None] == ["a", "c", "d"]


def test_value_heavier_than_the_bound_is_made_and_not_kept() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3, lambda value: value)
    assert cache.get("a", lambda: 5) == 5
    assert cache.find("a") is None
    cache._check()


def test_kept_value_is_not_made_again() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3, lambda _: 1)
    assert cache.get("a", lambda: 1) == 1
    assert cache.get("a", lambda: 2) == 1
