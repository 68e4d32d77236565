"""What the tests of the event store share."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronicle.store import Stream
from tests.unit.chronicle.stream_cases import TICKS, make_stream, ticks


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """Three files of 16, 4 and 10 events in blocks of 4."""
    return make_stream(tmp_path, [ticks(0, 20), ticks(20, 30)], schema=TICKS)
