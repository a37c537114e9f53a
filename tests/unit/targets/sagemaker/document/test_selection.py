"""Which selections of steps are taken, here and on the service."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.document import Definition, from_json
from drivetrain.targets.sagemaker.document.selection import check_selection


def step(name: str, *needs: str, kind: str = "Lambda", **arguments: Any) -> dict[str, Any]:
    return {"Name": name, "Type": kind, "DependsOn": list(needs), "Arguments": arguments}


@pytest.fixture
def definition() -> Definition:
    loop = step("each", "middle", kind="ForEach", IterableItems=["a"], ForEachBody=[step("inner")])
    steps = [step("first"), step("middle", "first"), step("last", "middle"), step("aside"), loop]
    return from_json({"Version": "2020-12-01", "Steps": steps}, "test")


@pytest.mark.parametrize(
    ("names", "needed"),
    [
        (("last",), {"first", "middle"}),
        (("middle", "last"), {"first"}),
        (("first", "aside"), set()),
        (("each",), {"first", "middle"}),
    ],
)
def test_inputs_needed_from_other_steps(definition: Definition, names: tuple[str, ...], needed: set[str]) -> None:
    assert check_selection(definition, names) == needed


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "--select names 0 steps. Allowed: 1 to 50"),
        (tuple(f"s{n}" for n in range(51)), "--select names 51 steps. Allowed: 1 to 50"),
        (("asid",), "--select asid: there is no such step. Did you mean 'aside'"),
        (("inner",), "--select inner: it stands in the body of each. Select each."),
        (("first", "last"), "--select: middle lies between steps that are selected"),
    ],
)
def test_what_is_refused(definition: Definition, names: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_selection(definition, names)
