"""Every recorded mutation still applies: its text stands once in its file, and what comes out is a program."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.mutant import Keys, Mutant
from tests.mutants.recorded import MUTANTS

ROOT = Path(__file__).parents[2]


def test_there_are_enough_mutants_with_unique_names() -> None:
    assert len(MUTANTS) >= 100
    assert [name for name, count in Counter(each.name for each in MUTANTS).items() if count > 1] == []


@pytest.mark.parametrize("file", sorted({each.file for each in MUTANTS}))
def test_every_mutation_applies_and_compiles(file: str) -> None:
    source = (ROOT / file).read_text()
    for mutant in (each for each in MUTANTS if each.file == file):
        assert mutant.find != mutant.replace, mutant.name
        compile(mutant.mutated(source), f"{file} ({mutant.name})", "exec")


def test_the_tests_that_catch_mutants_exist() -> None:
    named = {name for each in MUTANTS for name in each.tests}
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_a_text_that_does_not_occur_exactly_once_is_refused() -> None:
    for find, count in (("c", 0), ("a", 2)):
        with pytest.raises(ValueError, match=f"stands {count} times in f.py, not once"):
            Mutant("m", "f.py", find, "b", ()).mutated("a = a")


def test_a_result_is_valid_until_code_tests_or_mutation_change(tmp_path: Path) -> None:
    files = ["components/a.py", "tests/unit/test_a.py", "tests/unit/test_b.py", "tests/conftest.py", "README.md"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    mutant = Mutant("m", "components/a.py", "x", "y", ("tests/unit/test_a.py",))
    seen = {Keys(tmp_path, files).of(mutant), Keys(tmp_path, files).of(Mutant("m", "components/a.py", "x", "z", ()))}
    assert len(seen) == 2
    for name in files:
        (tmp_path / name).write_text("z")
        other = Keys(tmp_path, files).of(mutant)
        assert (other in seen) is (name in ("tests/unit/test_b.py", "README.md")), name
        seen.add(other)


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--only", "nosuch"], "--only nosuch: no mutation's name"), (["--jobs", "0"], "--jobs 0; allowed are")],
)
def test_unusable_arguments_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    monkeypatch.setattr("sys.argv", ["mutants", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
