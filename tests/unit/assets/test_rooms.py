"""Which rooms of the package a step takes along: those that its program and its files name, and what they need."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import drivetrain
from drivetrain.assets.assets import holds
from drivetrain.assets.step_code import ALL_ROOMS, ROOMS, StepCode, rooms_named
from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.resources import Program
from drivetrain.spec.steps import ProcessingStep

PACKAGE = Path(drivetrain.__file__).parent
NAMED = re.compile(r"drivetrain\.(\w+)(?:\.(\w+))?")
LEAST = {"aws", "base", "steps"}
OF_DATA = {*LEAST, "data"}


def used_files(path: Path) -> Iterator[str]:
    """The files of the package that a file imports, also late, or names in a text that is no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            names = [node.value]
        for room, name in (found for each in names for found in NAMED.findall(each)):
            yield f"drivetrain/{room}/{name or '__init__'}.py"


@pytest.mark.slow_cases("data", "training", "training_scripts")
@pytest.mark.parametrize("room", sorted(ROOMS.keys() - {"components"}))
def test_a_room_finds_what_it_uses_in_each_archive_with_it(room: str) -> None:
    for path in sorted((PACKAGE / room).rglob("*.py")):
        # Who imports it takes more than its room.
        rooms = rooms_named([f"drivetrain.{room}" + ".programs" * (path == PACKAGE / "steps" / "programs.py")])
        # What it says of components is for people: where a function of theirs would be called, or was.
        used = {each for each in used_files(path) if each.split("/")[1] in ROOMS and "/components/" not in each}
        assert {each for each in used if not holds(rooms, each)} == set(), path


@pytest.mark.parametrize("name", sorted(path.stem for path in (PACKAGE / "components").glob("[a-z]*.py")))
def test_a_component_finds_what_it_uses(name: str) -> None:
    rooms = rooms_named([f"drivetrain.components.{name}:{name}"])
    used = {each for each in used_files(PACKAGE / "components" / f"{name}.py") if each.split("/")[1] in ROOMS}
    assert f"components/{name}" in rooms and {each for each in used if not holds(rooms, each)} == set()


@pytest.mark.parametrize(
    ("text", "rooms"),
    [
        ("from drivetrain.components import Input, component\nfrom drivetrain import step\n", LEAST),
        ("import drivetrain.data.arrow\n", OF_DATA),
        ("from drivetrain import (\n    step,\n    data,\n)\n", OF_DATA),
        ("from drivetrain.components import prepare_data\n", {*OF_DATA, "components/prepare_data"}),
        ("call(['python', '-m', 'drivetrain.components.read_source'])\n", {*OF_DATA, "components/read_source"}),
        ("from drivetrain.steps import Input, programs\n", rooms_named(["drivetrain.training_scripts"])),
        ("__import__('drivetrain.' + name)\n", ALL_ROOMS),
        ("import pickle\n", ALL_ROOMS),
        ("import torch\nmodel.eval()\ntorch.save(model, 'a')\n", LEAST),
        ("import torch\ntorch.load('a')\n", ALL_ROOMS),
    ],
)
def test_a_users_file_takes_the_rooms_that_it_names(tmp_path: Path, text: str, rooms: set[str]) -> None:
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    own = ProcessingStep(name="own", program=Program(kind="component", target="a:run"), outputs=("out",))
    assert StepCode(tmp_path, Graph(Pipeline(name="p", steps=(own,)))).of(own).rooms == rooms


def test_an_unreadable_program_takes_all_rooms(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    own = ProcessingStep(name="own", program=Program(kind="component", target="elsewhere:run"), outputs=("out",))
    for source in (tmp_path, None):
        assert StepCode(source, Graph(Pipeline(name="p", steps=(own,)))).of(own).rooms == ALL_ROOMS


def test_an_archive_holds_the_components_that_are_named() -> None:
    assert holds(frozenset({"base", "components/train"}), "drivetrain/components/train.py")
    assert not holds(frozenset({"base", "components/train"}), "drivetrain/components/evaluate.py")
    assert not holds(frozenset({"training_scripts"}), "drivetrain/training/config.py")
    for name in ("drivetrain/__init__.py", "drivetrain/components/__init__.py"):
        assert holds(frozenset(), name)
