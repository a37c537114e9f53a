from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.base.json_options import parse_options
from drivetrain.training.options import build_options

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    count: int = 1
    share: float = 0.5
    name: str = "any"
    flag: bool = False
    names: tuple[str, ...] = ()
    places: Annotated[int, Bounds(1, 4)] = 1
    decay: Annotated[float, Bounds(0, below=1)] = 0.0
    split: Literal["train", "test"] = "train"
    channels: Literal[1, 3] = 3

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count={self.count}; allowed are whole numbers from 1")


def test_values_of_the_right_kind() -> None:
    given: dict[str, Any] = {"count": 3, "share": 1, "name": "x", "flag": True, "names": ["a", "b"]}
    built = build_options(Options, given, "strategy 'x'")
    assert (built.count, built.share, built.name, built.flag, built.names) == (3, 1, "x", True, ("a", "b"))
    assert build_options(Options, {}, "strategy 'x'") == Options()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cuont": 2}, r"strategy 'x' has no option 'cuont'\. Did you mean 'count'\?"),
        ({"count": 1.5}, r"strategy 'x': count=1\.5; allowed is a whole number"),
        ({"count": True}, r"strategy 'x': count=true; allowed is a whole number"),
        ({"share": "half"}, r'strategy \'x\': share="half"; allowed is a number'),
        ({"share": False}, r"strategy 'x': share=false; allowed is a number"),
        ({"flag": 1}, r"strategy 'x': flag=1; allowed is true or false"),
        ({"name": None}, r"strategy 'x': name=null; allowed is a text"),
        ({"share": float("inf")}, r"strategy 'x': share=Infinity; allowed is a number \(finite\)"),
        ({"share": float("nan")}, r"strategy 'x': share=NaN; allowed is a number \(finite\)"),
        ({"share": 10**400}, r"strategy 'x': share=10+; allowed is a number \(finite\)"),
        ({"count": 2**63}, r"strategy 'x': count=9\d+; allowed is a whole number \(of 64 bits\)"),
        ({"names": "6"}, r"strategy 'x': names=\"6\"; allowed is a list of texts"),
        ({"names": None}, r"strategy 'x': names=null; allowed is a list of texts"),
        ({"names": [1]}, r"strategy 'x': names=\[1\]; allowed is a list of texts"),
        ({"places": 0}, r"strategy 'x': places=0; allowed are whole numbers from 1 to 4\."),
        ({"places": 1.5}, r"strategy 'x': places=1\.5; allowed is a whole number"),
        ({"decay": 1}, r"strategy 'x': decay=1; allowed are numbers from 0 to below 1\."),
        ({"split": "val"}, r"strategy 'x': split=\"val\"; allowed are \"train\", \"test\"\."),
        ({"channels": True}, r"strategy 'x': channels=true; allowed are 1, 3\."),
        ({"count": 0}, r"strategy 'x' with options \{\"count\": 0\}: count=0; allowed are whole numbers from 1"),
    ],
)
def test_values_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_options(Options, given, "strategy 'x'")


@dataclass(frozen=True)
class Unresolved:
    """One of its types has a name for type checkers alone."""

    count: int = 1
    path: Path | None = None


def test_types_that_cannot_be_resolved_are_taken_as_they_are_written() -> None:
    assert build_options(Unresolved, {"count": 2, "path": "x"}, "recipe 'x'").count == 2
    with pytest.raises(InputError, match=r"recipe 'x': count=true; allowed is a whole number"):
        build_options(Unresolved, {"count": True}, "recipe 'x'")


@pytest.mark.parametrize("text", ["{", "[1]", "3", "null", '{"a": 1', "[" * 100_000])
def test_text_that_is_no_json_object(text: str) -> None:
    with pytest.raises(InputError, match=r"strategy_options .* are not (a )?JSON"):
        parse_options(text, "strategy_options")


def test_a_json_object() -> None:
    assert parse_options('{"tensor": 2}', "strategy_options") == {"tensor": 2}
