"""The suites of other environments name their files, so that they need not collect all the others."""

from __future__ import annotations

import ast
import os
import re
import subprocess
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
        and any(
            isinstance(node, ast.Attribute) and node.attr == marker and ast.unparse(node) == f"pytest.mark.{marker}"
            for node in ast.walk(ast.parse(text))
        )
    }


def make(*words: str) -> subprocess.CompletedProcess[str]:
    """As from a shell: these tests may run below a make, whose variables another one would take over."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    }
    return subprocess.run(
        ["make", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("marker", MARKERS)
def test_the_suite_of_an_environment_names_the_files_that_use_it(marker: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    named = re.search(rf"^TESTS_{marker} = (.*)$", makefile, re.MULTILINE)
    assert named and set(named[1].split()) == using(marker)
    command = make("--always-make", "--dry-run", "test-in", f"ENV={marker}").stdout.splitlines()[-1]
    assert re.search(rf"-m pytest -m '{marker}( and not nightly)?' tests/", command)
    assert set(command.split()) >= using(marker)


@pytest.mark.parametrize("given", ["", "moon", "sdk infra"])
def test_an_unknown_environment_is_refused(given: str) -> None:
    done = make("--dry-run", "test-in", f"ENV={given}")
    assert done.returncode == 2 and f"ENV='{given}' is no environment of tests" in done.stderr
    assert " ".join(MARKERS[:2]) in done.stderr


def test_help_shows_seven_verbs_and_more_shows_the_rest() -> None:
    def shown(verb: str) -> list[str]:
        return [line.split()[1] for line in make("-s", verb).stdout.splitlines()]

    assert shown("help") == ["run", "test", "check", "golden", "bench", "docs", "more"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {*shown("help"), *shown("more")} == set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


@pytest.mark.parametrize("verb", ["test", "test-slow"])
def test_tests_of_another_environment_are_in_no_other_suite(verb: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(rf"^{verb}: .*\n\t.* -m '([^']*)'", makefile, re.MULTILINE)
    assert recipe and "not nightly" in recipe[1]
    if verb == "test":
        assert {f"not {marker}" for marker in (*MARKERS, "slow", "nightly")} == set(recipe[1].split(" and "))
