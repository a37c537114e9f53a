"""What `drivetrain setup debugger` refuses, and its patch. (tests/debugger makes the environment for real.)"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.infra.debugger import environment

PATCH = (environment.PATCHES / "tobytes.patch").read_text(encoding="utf-8")
PATCHED = "smdebug/core/tfevent/util.py"
ORIGINAL = "".join(line[1:] for line in PATCH.partition("\n@@ ")[2].splitlines(keepends=True)[1:] if line[0] in " -")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    file = tmp_path / PATCHED
    file.parent.mkdir(parents=True)
    file.write_text(f"before\n{ORIGINAL}after\n")
    return tmp_path


def test_the_patch_is_applied_once(packages: Path) -> None:
    for _ in range(2):
        environment.apply(PATCH, packages)
        text = (packages / PATCHED).read_text()
        assert text == f"before\n{ORIGINAL.replace('tostring()', 'tobytes()')}after\n" and "tobytes()" in text


def test_another_file_than_the_patch_expects_is_refused(packages: Path) -> None:
    (packages / PATCHED).write_text("another release\n")
    with pytest.raises(UserError, match="is not as the patch expects it"):
        environment.apply(PATCH, packages)
    assert (packages / PATCHED).read_text() == "another release\n"


@pytest.mark.parametrize("is_file", [True, False])
def test_foreign_environments_are_not_changed(is_file: bool, tmp_path: Path) -> None:
    place = tmp_path / "mine"
    if is_file:
        place.write_text("notes")
    else:
        place.mkdir()
        (place / "pyvenv.cfg").write_text("home = /usr/bin\n")
    with pytest.raises(UserError, match=r"mine is no environment of `drivetrain setup`\. Give an empty or a new"):
        environment.make(place, print)
    assert place.is_file() or [path.name for path in place.iterdir()] == ["pyvenv.cfg"]


def test_two_processes_do_not_build_one_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def makes_it_once_more(folder: Path, *rest: object) -> None:
        environment.make(folder, print)

    monkeypatch.setattr(environment, "_make", makes_it_once_more)
    with pytest.raises(UserError, match="is being made by another process"):
        environment.make(tmp_path, print)


def test_an_existing_environment_is_kept_until_its_recipe_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def makes(folder: Path, python: Path, torch: str, say: object) -> None:
        made.append(torch)
        python.parent.mkdir(exist_ok=True)
        (python.parent / f"of-{torch}").touch()

    monkeypatch.setattr(environment, "_make", makes)
    for version in ("2.12.0", "2.12.0", "2.13.0"):
        monkeypatch.setattr(environment, "_torch", lambda version=version: version)
        said: list[str] = []
        python = environment.make(tmp_path / "new", said.append)
        assert [path.name for path in python.parent.iterdir()] == [f"of-{version}"]
    assert made == ["2.12.0", "2.13.0"]
    assert said == [f"removing what an earlier recipe made in {tmp_path / 'new'}"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("WARNING: Retrying after NewConnectionError(...)\nERROR: No matching distribution", "index does not answer"),
        ("Collecting x\nERROR: No matching distribution found for x==1", "failed: No matching distribution found for"),
        ("", "failed: exit code 3. What is there is kept: run the same command again."),
    ],
)
def test_a_part_that_fails_is_one_clear_error(said: str, told: str) -> None:
    program = f"import sys; sys.stderr.write({said!r}); sys.exit(3)"
    with pytest.raises(UserError) as caught:
        environment._call([sys.executable, "-S", "-c", program], "It failed")
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_the_recipe_is_for_the_torch_that_the_suite_has() -> None:
    constraints = (Path(__file__).parents[4] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"torch=={environment.TORCH}" in constraints
