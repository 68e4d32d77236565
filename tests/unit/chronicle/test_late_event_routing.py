"""Late events go where a sort by (time, arrival) would put them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chronicle.ordinal import child, parse_ordinal, pieces_of
from chronicle.write.append import Placement, place_late
from chronicle.write.rewrite import even_cuts


def test_worked_example():
    # Files [0, 10], [10, 10], [20, 30]: a 10 goes behind both tens, a 15 and a 10 into one file.
    placed = place_late(np.array([-5, 3, 10, 15, 20, 29]), np.array([0, 10, 20]))
    assert placed == [Placement(0, 0, 2), Placement(1, 2, 4), Placement(2, 4, 6)]


@given(
    st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=4), min_size=1, max_size=5),
    st.lists(st.integers(-3, 20), max_size=12),
)
def test_merging_file_by_file_sorts_the_whole(pieces: list[list[int]], late: list[int]):
    stored = sorted(time for piece in pieces for time in piece)
    files, at = [], 0
    for piece in pieces:
        files.append([(time, 0) for time in stored[at : at + len(piece)]])
        at += len(piece)
    times = sorted(late)
    placed = place_late(np.array(times, np.int64), np.array([file[0][0] for file in files]))
    assert [time for p in placed for time in times[p.start : p.stop]] == times
    for p in placed:
        coming = [(time, 1) for time in times[p.start : p.stop]]
        files[p.file] = sorted([*files[p.file], *coming])
    merged = [event for file in files for event in file]
    assert merged == sorted([(time, 0) for time in stored] + [(time, 1) for time in late])


def test_pieces_of_a_file_stand_where_it_stood():
    def ordinal(text: str) -> tuple[int, ...]:
        return parse_ordinal(f"{text}-{'0' * 32}.parquet", events_dir=None)

    assert pieces_of("000001-000000-000002", 1) == ["000001-000000-000002"]
    first, second = pieces_of("000001-000000-000002", 2)
    inner = child(first, 7)
    in_order = ["000001-000000-000001", first, inner, second, "000001-000000-000003"]
    assert sorted(in_order, key=ordinal) == in_order
    assert ordinal(inner) == (1, 0, 2, 0, 7)


@given(st.integers(0, 200), st.integers(1, 40), st.integers(1, 50))
def test_cuts_make_as_few_files_as_can_be_of_whole_blocks(
    n_events: int, file_events: int, block_events: int
):
    cuts = even_cuts(n_events, file_events, block_events)
    sizes = np.diff(cuts)
    assert cuts[0] == 0
    assert cuts[-1] == n_events
    assert (sizes > 0).all()
    assert (sizes <= file_events).all()
    assert len(sizes) <= -(-n_events // file_events)
    if file_events % block_events == 0:
        assert (sizes[:-1] % block_events == 0).all()


def test_a_full_file_is_halved():
    assert list(even_cuts(101, 100, 10)) == [0, 60, 101]
