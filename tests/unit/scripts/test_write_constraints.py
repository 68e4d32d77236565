"""The lock: it pins whatever pyproject.toml asks for, and a refresh keeps its form."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts.write_constraints import BUILD_TOOLS, CONSTRAINTS, canonical, with_versions

PYPROJECT = tomllib.loads((Path(CONSTRAINTS).with_name("pyproject.toml")).read_text())
REQUIREMENTS = [
    *PYPROJECT["project"]["dependencies"],
    *PYPROJECT["project"]["optional-dependencies"]["dev"],
    *PYPROJECT["build-system"]["requires"],
    *BUILD_TOOLS,
]


def pins() -> dict[str, str]:
    lines = CONSTRAINTS.read_text().splitlines()
    split = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonical(name): version for name, version in split}


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_every_requirement_is_pinned_within_its_range(text):
    wanted = Requirement(text)
    assert wanted.specifier.contains(pins()[canonical(wanted.name)])


def test_refresh_keeps_sections_drops_the_unneeded_and_shows_the_new():
    old = "# Head\n\n# Run\nnumpy==2.4.6\npydantic_core==1.0\ngone==1.0\n\n# Test\npytest==9.0\n"
    versions = {"numpy": "2.5.0", "pydantic-core": "1.1", "pytest": "9.0", "fresh": "0.1"}
    assert with_versions(old, versions) == (
        "# Head\n\n# Run\nnumpy==2.5.0\npydantic_core==1.1\n\n# Test\npytest==9.0\n"
        "\n# New; move them to the section they belong to\nfresh==0.1\n"
    )
