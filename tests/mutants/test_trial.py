"""What comes of a mutation, on a tree of two files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.trial import Copy

CODE, TEST = "components/limit.txt", "tests/unit/test_limit.py"
FILES = {
    CODE: "limit = 10",
    TEST: """
import time
from pathlib import Path

def test_the_limit():
    limit = Path("components/limit.txt").read_text()
    while limit == "limit = for ever":
        time.sleep(0.1)
    assert limit in ("limit = 10", "limit = ten")
""",
}


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    for name, text in FILES.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True)
        (tmp_path / "tree" / name).write_text(text)
    return Copy(tmp_path / "tree", list(FILES), tmp_path / "copy")


def mutant(find: str, replace: str, test: str = TEST) -> Mutant:
    return Mutant("m", CODE, find, replace, (test,))


@pytest.mark.slow_cases("made0-came0")
@pytest.mark.parametrize(
    ("made", "came"),
    [
        (mutant("10", "11"), ("killed", f"{TEST}::test_the_limit")),
        (mutant("10", "ten"), ("survived", "")),
    ],
)
def test_the_outcome_of_a_trial(copy: Copy, tmp_path: Path, made: Mutant, came: tuple[str, str]) -> None:
    process = copy.start(made, 1)
    process.join()
    assert copy.end(made, process) == came
    for tree in ("tree", "copy/tree"):
        assert {name: (tmp_path / tree / name).read_text() for name in FILES} == FILES


@pytest.mark.slow
def test_tests_that_cannot_run_notice_nothing(copy: Copy) -> None:
    made = mutant("10", "11", "tests/unit/test_gone.py")
    process = copy.start(made, 1)
    process.join()
    came, why = copy.end(made, process)
    assert came == "broken" and why.startswith("pytest ended with 4")


def test_a_hanging_trial_is_ended(copy: Copy) -> None:
    made = mutant("10", "for ever")
    process = copy.start(made, 1)
    assert copy.end(made, process) == ("timed out", "")
    assert not process.is_alive()
