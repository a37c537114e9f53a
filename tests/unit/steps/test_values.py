"""Python values between steps: returned by one function, taken by the next, through a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.steps import Input, Value
from drivetrain.steps.declaration import Component, component
from drivetrain.steps.signature import DeclarationError
from drivetrain.steps.values import FILE, load, save

SEEN: list[Any] = []


@component
def make(size: int = 3) -> Value[list[int]]:
    return list(range(size))


@component
def take(data: Value[list[int]], more: Value | None = None, folder: Input | None = None) -> dict[str, float]:
    SEEN.append((data, more, folder))
    return {"sum": sum(data)}


@component
def unpicklable() -> Value:
    return lambda: None


def test_a_value_is_declared_as_a_folder_of_its_step() -> None:
    assert list(make.outputs) == ["returned"] and make.metrics == () and make.texts == ()
    assert [(each.name, each.value, each.optional) for each in take.inputs.values()] == [
        ("data", True, False),
        ("more", True, True),
        ("folder", False, True),
    ]


def test_a_value_goes_from_program_to_program(tmp_path: Path) -> None:
    SEEN.clear()
    make.main(["--size", "4", "--returned", str(tmp_path / "made")])
    take.main(["--data", str(tmp_path / "made"), "--more", str(tmp_path / "made" / FILE), "--folder", str(tmp_path)])
    take.main(["--data", str(tmp_path / "made")])
    first, second = SEEN
    assert first == ([0, 1, 2, 3], [0, 1, 2, 3], tmp_path) and second == ([0, 1, 2, 3], None, None)


def test_a_component_of_values_is_still_a_function() -> None:
    assert take(make(size=2)) == {"sum": 1}


def test_unpicklable_values_are_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        unpicklable.main(["--returned", str(tmp_path)])
    assert caught.value.code == 2
    assert "unpicklable returned a function that cannot be pickled" in capsys.readouterr().err


def test_a_folder_without_a_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"--data .*: no {FILE} there. Give the output of a step that returns a Value"):
        load(tmp_path, "--data")


@pytest.mark.parametrize("content", [b"", b"not a pickle", b"cnowhere\nThing\n."])
def test_a_value_that_cannot_be_read_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InputError, match=r"--data .* cannot be read: .* need the same libraries"):
        load(tmp_path, "--data")


def test_a_value_round_trips(tmp_path: Path) -> None:
    value = {"parts": (1, [2.5, None]), "text": "ü"}
    save(value, tmp_path, "step")
    assert load(tmp_path, "--data") == value


def of_training(data: Input, model: Input) -> Value: ...
def with_the_name(returned: Input) -> Value: ...


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: component(job="training")(of_training), "a training job returns no Value"),
        (lambda: component(with_the_name), "the name 'returned' is taken"),
    ],
)
def test_training_jobs_cannot_return_values(declare: Callable[[], Component[..., Any]], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        declare()
