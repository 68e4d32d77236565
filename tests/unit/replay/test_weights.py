"""The calibration file: written whole, read back, and never the cause of an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from chronicle import create_store
from chronicle.maintenance.check import check_store
from costmodel.calibration import WEIGHTS
from costmodel.parameters import DEFAULT_PARAMETERS
from replay.engines.weights import (
    CALIBRATION_FILE,
    calibration_content,
    load_weights,
    machine_facts,
    parse_weights,
    store_weights,
)

MEASURED = replace(DEFAULT_PARAMETERS, block_s=1e-5, value_s=2e-9, seek_s=3e-5)


def content(**changed: Any) -> dict[str, Any]:
    made = calibration_content(
        MEASURED, stream="s", calibrated_at="2026-03-01T12:00:00+00:00", fit={"r2": 0.9}
    )
    return made | changed


def test_without_a_file_the_defaults_count(tmp_path: Path) -> None:
    loaded = load_weights(tmp_path)
    assert loaded.parameters == DEFAULT_PARAMETERS
    assert loaded.parameters.source == "defaults"
    assert loaded.warning is None


def test_weights_are_read_back_with_their_source(tmp_path: Path) -> None:
    store_weights(tmp_path, content())
    found = load_weights(tmp_path).parameters
    assert all(getattr(found, name) == getattr(MEASURED, name) for name in WEIGHTS)
    assert found.source == "calibrated 2026-03-01 on stream 's'"
    assert found.full_margin == DEFAULT_PARAMETERS.full_margin
    assert load_weights(tmp_path).warning is None


def test_a_new_file_is_read_without_a_new_process(tmp_path: Path) -> None:
    store_weights(tmp_path, content())
    assert load_weights(tmp_path).parameters.block_s == 1e-5
    newer = calibration_content(
        replace(MEASURED, block_s=7e-5), stream="s", calibrated_at="2026-03-02", fit={}
    )
    store_weights(tmp_path, newer)
    assert load_weights(tmp_path).parameters.block_s == 7e-5
    (tmp_path / CALIBRATION_FILE).unlink()
    assert load_weights(tmp_path).parameters == DEFAULT_PARAMETERS


def test_another_machine_is_named_and_its_weights_count(tmp_path: Path) -> None:
    machine = machine_facts() | {"cores": 96, "pyarrow": "1.0"}
    store_weights(tmp_path, content(machine=machine))
    loaded = load_weights(tmp_path)
    assert loaded.parameters.block_s == 1e-5
    assert "in other circumstances" in loaded.parameters.source
    assert f"cores 96 then, {machine_facts()['cores']} now" in loaded.parameters.source
    assert "pyarrow 1.0 then" in loaded.parameters.source
    assert "python" not in loaded.parameters.source
    assert loaded.warning is None


def without(name: str) -> dict[str, Any]:
    made = content()
    del made["weights"][name]
    return made


def with_weight(value: Any) -> dict[str, Any]:
    made = content()
    made["weights"]["seek_s"] = value
    return made


@pytest.mark.parametrize(
    ("written", "said"),
    [
        pytest.param("", "no JSON", id="empty"),
        pytest.param("\x00\xff", "no JSON", id="no text"),
        pytest.param(json.dumps(content())[:-30], "no JSON", id="cut off"),
        pytest.param("[]", "no calibration", id="a list"),
        pytest.param('{"weights": {}}', "no calibration", id="foreign"),
        pytest.param(json.dumps(content(format_version=4)), "version 4", id="later"),
        pytest.param(json.dumps(content(weights=[1])), "no weights", id="weights are a list"),
        pytest.param(json.dumps(without("match_s")), "match_s is None", id="one is missing"),
        pytest.param(json.dumps(with_weight("1")), "seek_s is '1'", id="text"),
        pytest.param(json.dumps(with_weight(True)), "seek_s is True", id="true"),
        pytest.param(json.dumps(with_weight(-1e-9)), "not between", id="negative"),
        pytest.param(json.dumps(with_weight(float("nan"))), "not between", id="NaN"),
        pytest.param(json.dumps(with_weight(10**400)), "not between", id="no double"),
        pytest.param(json.dumps(with_weight(1e300)), "not between", id="absurd"),
        pytest.param("[" * 100_000, "no JSON", id="deep"),
    ],
)
def test_damaged_file_is_a_warning_and_the_defaults(
    tmp_path: Path, written: str, said: str
) -> None:
    (tmp_path / CALIBRATION_FILE).write_text(written, encoding="latin-1")
    loaded = load_weights(tmp_path)
    assert replace(loaded.parameters, source="defaults") == DEFAULT_PARAMETERS
    assert loaded.parameters.source.startswith("defaults, as calibration.json")
    assert loaded.warning is not None
    assert said in loaded.warning
    assert "chronicle calibrate" in loaded.warning


def test_a_file_of_before_windows_and_joins_were_measured_keeps_their_defaults(
    tmp_path: Path,
) -> None:
    old = content(format_version=1)
    for name in ("fold_s", "pane_s", "cut_s", "merge_s", "node_s", "ask_s", "join_s"):
        del old["weights"][name]
    store_weights(tmp_path, old)
    loaded = load_weights(tmp_path)
    assert loaded.warning is None
    assert loaded.parameters.block_s == MEASURED.block_s
    assert loaded.parameters.fold_s == DEFAULT_PARAMETERS.fold_s


def test_a_file_of_before_entries_were_charged_without_their_keys_keeps_their_defaults(
    tmp_path: Path,
) -> None:
    store_weights(tmp_path, content(format_version=2))
    loaded = load_weights(tmp_path)
    assert loaded.warning is None
    assert loaded.parameters.entry_s == DEFAULT_PARAMETERS.entry_s
    assert loaded.parameters.sort_s == DEFAULT_PARAMETERS.sort_s
    assert loaded.parameters.merge_s == MEASURED.merge_s


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_weight_its_version_has_may_not_be_missing(tmp_path: Path, version: int) -> None:
    made = without("seek_s" if version == 1 else "merge_s")
    store_weights(tmp_path, made | {"format_version": version})
    assert "is None, no number" in str(load_weights(tmp_path).warning)


def test_a_folder_in_its_place_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / CALIBRATION_FILE).mkdir()
    loaded = load_weights(tmp_path)
    assert loaded.warning is not None
    assert "cannot be read" in loaded.warning
    assert loaded.parameters.block_s == DEFAULT_PARAMETERS.block_s


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHRONICLE_SYNC", "on")
    store_weights(tmp_path, content())
    before = (tmp_path / CALIBRATION_FILE).read_bytes()
    where = {"fsync": "os.fsync", "replace": "pathlib.Path.replace"}[broken]
    with patch(where, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        store_weights(tmp_path, content(stream="t"))
    assert (tmp_path / CALIBRATION_FILE).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [CALIBRATION_FILE]


def test_the_file_is_no_fault_of_a_store(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    store_weights(store.path, content())
    assert {finding.severity for finding in check_store(store)} == {"ok"}
    assert store.stream_names() == ()


def test_facts_of_the_machine_are_not_asked_of_old_files() -> None:
    made = content()
    del made["machine"]
    assert "cores unknown then" in parse_weights(made, {"cores": 2}).source
