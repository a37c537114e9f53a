"""What stands in for drivetrain in a container: a user's file imports, and describes nothing."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import drivetrain
import drivetrain.components  # before the stand-in takes the package's place
from drivetrain.assets.assets import CodeArchive
from drivetrain.steps import inert
from tests.fixtures.used_files import used_files

FILE = """
from drivetrain.components import Input, Output, component
from drivetrain import Cluster, Parameter, Pipeline, Settings, fail, register, step, when
import drivetrain as dp

class Mine(Settings):
    rows: int = 3
    cluster: Cluster = Cluster(count=2)

FLOOR = Parameter.number("Floor", default=0.9)

@component
def load(data: Output, rows: int = 1) -> None:
    (data / "rows").write_text(str(rows))

def mine(settings: Mine) -> Pipeline:
    return Pipeline(name="mine", steps=[step(load), when(FLOOR > 1, then=[fail("x")])])

RUN = dp.run(mine, rows=3)
print(f"{RUN.seconds * 2:.1f}", *RUN.steps, *(name for name in RUN.metrics if name in RUN.tags))
DEFAULTS = [dp.CachePolicy(enabled=False), dp.Schedule.nightly.at("x"), ~(FLOOR > 1) & (FLOOR <= 2)]
"""


def test_a_users_file_imports_beside_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inert, "__all__", drivetrain.__all__)
    monkeypatch.setitem(sys.modules, "drivetrain", inert)
    namespace: dict[str, object] = {"__name__": "users_file"}
    exec(compile(FILE, "users_file.py", "exec"), namespace)
    assert namespace["load"].name == "load"  # type: ignore[attr-defined]
    assert isinstance(namespace["Mine"], type)


def test_import_star_finds_the_same_names(tmp_path: Path) -> None:
    """With the archive as it travels, and nothing else of ours."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "stars.py").write_text(
        "from drivetrain.components import *\n"
        "from drivetrain import *\n\n"
        "def pipe() -> Pipeline:\n    return Pipeline(name='pipe')\n\n"
        "print(Pipeline.__module__, component.__module__)\n"
    )
    with tarfile.open(fileobj=io.BytesIO(CodeArchive(used_files(tmp_path / "source")).content)) as archive:
        archive.extractall(tmp_path / "code", filter="data")
    code = tmp_path / "code"
    run = f"import sys; sys.path[:0] = [{str(code)!r}, {str(code / 'source')!r}]; import stars"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", run], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (
        0,
        ["drivetrain", "drivetrain.steps.declaration"],
    ), done.stderr


def test_the_stand_in_does_not_answer_python_internals() -> None:
    with pytest.raises(AttributeError):
        _ = inert.__no_such_dunder__  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="Anything"):
        _ = inert.Anything  # type: ignore[attr-defined]
