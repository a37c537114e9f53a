"""What a test draws is the same in each run, and whatever ran before it."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import pytest_itemcollected

ROOT = Path(__file__).parents[3]
PROPERTY = """
import random
from hypothesis import given, settings, strategies as st

drawn = {"few": [], "usual": []}

@settings(max_examples=5)
@given(st.integers())
def test_few(number):
    drawn["few"].append(number)

@given(st.integers())
def test_usual(number):
    drawn["usual"].append(number)

def test_shown():
    print("drawn", len(drawn["few"]), len(drawn["usual"]), drawn["usual"])
"""


def test_a_test_draws_by_its_name(request: pytest.FixtureRequest) -> None:
    seed = zlib.crc32(request.node.nodeid.encode())
    assert random.random() == random.Random(seed).random()
    assert np.random.rand() == np.random.RandomState(seed).rand()
    assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=1)
@given(st.none())
def test_a_property_is_searched_without_chance_or_clock(nothing: None) -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert settings.default.derandomize == (os.environ.get("HYPOTHESIS_PROFILE", "ci") == "ci")


def drawn(folder: Path, profile: str | None) -> tuple[int, int, str]:
    """How many examples each test drew, and those of the second."""
    environment = {name: value for name, value in os.environ.items() if name != "HYPOTHESIS_PROFILE"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-sq", "-p", "no:cacheprovider", "-p", "no:xdist", str(folder)],
        env=environment | ({"HYPOTHESIS_PROFILE": profile} if profile else {}),
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    few, usual, numbers = done.stdout.partition("drawn ")[2].splitlines()[0].split(" ", 2)
    return int(few), int(usual), numbers


@pytest.mark.slow
def test_the_nightly_profile_draws_more_and_others(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    (tmp_path / "test_property.py").write_text(PROPERTY)
    usual, again = drawn(tmp_path, None), drawn(tmp_path, "ci")
    assert usual == again and usual[:2] == (5, 100)
    night, next_night = drawn(tmp_path, "nightly"), drawn(tmp_path, "nightly")
    assert night[:2] == next_night[:2] == (50, 1000)
    assert night != next_night


CASES = """
import pytest

@pytest.mark.slow_cases("b")
@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_named(case): ...

@pytest.mark.slow_cases(but=["a"])
@pytest.mark.parametrize("case", ["a", "b"])
def test_but(case): ...

@pytest.mark.slow_cases("z")
@pytest.mark.parametrize("case", ["a"])
def test_gone(case): ...

@pytest.mark.slow
@pytest.mark.nightly_cases("b")
@pytest.mark.parametrize("case", ["a", "b"])
def test_by_night(case): ...
"""


@pytest.mark.slow
def test_cases_can_be_slow(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n  slow_cases\n  nightly\n  nightly_cases\n")
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    (tmp_path / "test_cases.py").write_text(CASES)
    words = ("-m", "pytest", "-v", "-p", "no:cacheprovider", "-n", "1")
    slow, all_ = (
        subprocess.run([sys.executable, *words, *more], capture_output=True, text=True, cwd=tmp_path)
        for more in (("-m", "slow and not nightly"), ())
    )
    assert slow.returncode == 0, slow.stdout
    assert set(re.findall(r"test_\w+\[\w\]", slow.stdout)) == {"test_named[b]", "test_but[b]", "test_by_night[a]"}
    assert all_.returncode == 1
    assert re.findall(r"^ERROR .*(test_\w+\[\w\])", all_.stdout, re.MULTILINE) == ["test_gone[a]"]
    assert "slow_cases names what is no case: {'z'}" in all_.stdout


REFUSED = 'test_it[a]: allowed are slow_cases("a", "b") and slow_cases(but=["c"])'


@pytest.mark.slow
def test_an_unused_case_marker_ends_the_suite(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n  slow_cases\n")
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    marked = "@pytest.mark.slow_cases()\n@pytest.mark.parametrize('case', ['a', 'b'])"
    (tmp_path / "test_cases.py").write_text(f"import pytest\n{marked}\ndef test_it(case): ...\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 4
    assert REFUSED in ended.stderr


@pytest.mark.parametrize(
    "mark",
    [
        pytest.mark.slow_cases(),
        pytest.mark.slow_cases(buts=["a"]),
        pytest.mark.slow_cases("a", but=["b"]),
        pytest.mark.slow_cases(["a"]),
        pytest.mark.slow_cases(but="a"),
    ],
)
def test_an_unused_case_marker_is_refused(mark: pytest.MarkDecorator, request: pytest.FixtureRequest) -> None:
    item: pytest.Function = pytest.Function.from_parent(request.node.parent, name="test_it[a]", callobj=lambda: None)
    item.add_marker(mark)
    with pytest.raises(pytest.UsageError, match=f"{re.escape(REFUSED)}$"):
        pytest_itemcollected(item)
