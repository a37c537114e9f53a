"""What stands in for drivetrain.pipelines in a container: a user's file imports, and describes nothing."""

import sys

import pytest

import drivetrain
from drivetrain.components import inert

FILE = """
from drivetrain.components import Input, Output, component
from drivetrain.pipelines import Cluster, Parameter, Pipeline, Settings, fail, register, step, when
import drivetrain.pipelines as dp

class Mine(Settings):
    rows: int = 3
    cluster: Cluster = Cluster(count=2)

FLOOR = Parameter.number("Floor", default=0.9)

@component
def load(data: Output, rows: int = 1) -> None:
    (data / "rows").write_text(str(rows))

def mine(settings: Mine) -> Pipeline:
    return Pipeline(name="mine", steps=[step(load), when(FLOOR > 1, then=[fail("x")])])

DEFAULTS = [dp.CachePolicy(enabled=False), dp.Schedule.nightly.at("x"), ~(FLOOR > 1) & (FLOOR <= 2)]
"""


def test_a_users_file_imports_beside_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "drivetrain.pipelines", inert)
    monkeypatch.setattr(drivetrain, "pipelines", inert, raising=False)
    namespace: dict[str, object] = {"__name__": "users_file"}
    exec(compile(FILE, "users_file.py", "exec"), namespace)
    assert namespace["load"].name == "load"  # type: ignore[attr-defined]
    assert isinstance(namespace["Mine"], type)


def test_it_is_no_package_attribute_for_python_itself() -> None:
    with pytest.raises(AttributeError):
        _ = inert.__no_such_dunder__  # type: ignore[attr-defined]
    assert inert.Anything is inert.Something
