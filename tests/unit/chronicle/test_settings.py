"""Settings of a stream survive as table properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SchemaError, StorageError
from chronicle.settings import StreamSettings


@given(
    st.builds(
        StreamSettings,
        time=st.text(min_size=1, max_size=5),
        block_events=st.integers(1, 10**6),
        file_events=st.integers(1, 10**9),
        fan_out=st.integers(2, 100),
        key=st.none() | st.text(min_size=1, max_size=5),
    )
)
def test_settings_survive_as_properties(settings: StreamSettings):
    properties = {"delta.other": "1", **settings.to_properties()}
    assert StreamSettings.from_properties(properties) == settings


@pytest.mark.parametrize(
    "wrong", [{"block_events": 0}, {"file_events": 0}, {"fan_out": 1}], ids=str
)
def test_settings_out_of_range_are_refused(wrong: dict[str, int]):
    with pytest.raises(SchemaError, match=f"setting '{next(iter(wrong))}'"):
        StreamSettings("t", **wrong)


@pytest.mark.parametrize("change", [{"chronicle.time": None}, {"chronicle.fan_out": "many"}])
def test_missing_or_damaged_property_is_refused(change: dict[str, str | None]):
    properties = {**StreamSettings("t").to_properties(), **change}
    kept = {name: value for name, value in properties.items() if value is not None}
    with pytest.raises(StorageError, match="restore the table's properties"):
        StreamSettings.from_properties(kept)
