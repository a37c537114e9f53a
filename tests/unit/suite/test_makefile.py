"""The suites of other environments name their files, so that they need not collect all the others."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MARKERS = ("toolkit", "image", "infra", "sdk", "tensorflow", "spark", "horovod", "debugger")


def using(marker: str) -> set[str]:
    """The test files in which `pytest.mark.MARKER` stands."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if f"mark.{marker}" in (text := path.read_text(encoding="utf-8"))
        and any(ast.unparse(node) == f"pytest.mark.{marker}" for node in ast.walk(ast.parse(text)))
    }


@pytest.mark.parametrize("marker", MARKERS)
def test_the_suite_of_an_environment_names_the_files_that_use_it(marker: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    named = re.search(rf"^{marker.upper()}_TESTS = (.*)$", makefile, re.MULTILINE)
    assert named and set(named[1].split()) == using(marker)
    assert f"-m pytest -m {marker} $({marker.upper()}_TESTS) $(ARGS)\n" in makefile


@pytest.mark.parametrize("verb", ["test", "test-slow"])
def test_what_needs_another_environment_is_in_no_other_suite(verb: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(rf"^{verb}: .*\n\t.* -m '([^']*)'", makefile, re.MULTILINE)
    assert recipe and "not nightly" in recipe[1]
    if verb == "test":
        assert {f"not {marker}" for marker in (*MARKERS, "slow", "nightly")} == set(recipe[1].split(" and "))
