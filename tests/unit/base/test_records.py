"""A record behaves as a frozen dataclass of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import Any

import pytest

from drivetrain.base import records


@records.dataclass(frozen=True)
class Ours:
    name: str
    sizes: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list[str], compare=False)
    secret: str = field(default="", repr=False)


@dataclasses.dataclass(frozen=True)
class Theirs:
    name: str
    sizes: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list[str], compare=False)
    secret: str = field(default="", repr=False)


@records.dataclass(frozen=True, kw_only=True)
class Below(Ours):
    more: int

    def __repr__(self) -> str:
        return "its own"


KINDS: list[Any] = [Ours, Theirs]


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_equal_hashed_and_shown_by_their_fields(kind: Any) -> None:
    one = kind("a", (1,), ["x"], "s")
    assert one == kind("a", (1,), ["y"], "s") and hash(one) == hash(kind("a", (1,), [], "s"))
    assert one != kind("a", (1,), ["x"], "t") and one != kind("a", (2,), ["x"], "s") and one != ("a", (1,))
    assert repr(one) == f"{kind.__name__}(name='a', sizes=(1,), notes=['x'])"
    assert dataclasses.asdict(one) == {"name": "a", "sizes": (1,), "notes": ["x"], "secret": "s"}
    assert dataclasses.replace(one, name="b") == kind("b", (1,), [], "s")
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_immutable(kind: Any) -> None:
    one = kind("a")
    for name in ("name", "sizes", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(one, name, "b")
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del one.name
    assert one == kind("a")


def test_records_of_different_classes_are_unequal_despite_equal_fields() -> None:
    assert Ours("a") != Theirs("a") and Below("a", more=1) != Ours("a")


def test_a_subclass_adds_fields_and_keeps_methods_of_its_own() -> None:
    one = Below("a", more=1)
    assert one == Below("a", more=1) != Below("a", more=2)
    assert repr(one) == "its own"
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.more = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_mutable_record_classes_are_standard_dataclasses() -> None:
    @records.dataclass
    class Counter:
        count: int = 0

    one = Counter()
    one.count = 1
    assert one == Counter(1)


def test_frozen_classes_of_both_kinds_inherit_from_each_other() -> None:
    @dataclasses.dataclass(frozen=True)
    class OfOurs(Ours):
        more: int = 0

    @records.dataclass(frozen=True)
    class OfTheirs(Theirs):
        more: int = 0

    for kind in (OfOurs, OfTheirs):
        one = kind("a", more=2)
        assert one == kind("a", more=2) != kind("a") and hash(one) == hash(kind("a", more=2))
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
            setattr(one, "name", "b")  # noqa: B010
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Changed", (Ours,), {}))
