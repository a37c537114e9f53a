"""Which of the user's files are a step's code: its import graph by file, or the whole folder, which says why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drivetrain.assets.step_code import StepCode, Used
from drivetrain.spec.pipeline import Graph, Parameter, Pipeline
from drivetrain.spec.resources import DESCRIBE_MODEL, Program
from drivetrain.spec.steps import TRAIN, TRAIN_SCRIPT, ProcessingStep, Step, TrainingStep
from drivetrain.spec.values import OutputRef

NO_FILES: Mapping[str, str] = {}
EVALUATE = "drivetrain.components.evaluate:evaluate"
PREPARE = "drivetrain.components.prepare_data:prepare_data"


def used(
    folder: Path, step: Step, *more: Step, parameters: tuple[Parameter, ...] = (), files: Mapping[str, str] = NO_FILES
) -> Used:
    """What a step of a pipeline uses of files, each given by its path with `___` for `/`."""
    for name, text in files.items():
        path = folder / f"{name.replace('___', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    pipeline = Pipeline(name="p", steps=(step, *more), parameters=parameters)
    return StepCode(folder, Graph(pipeline)).of(step)


def own(target: str = "a:run", name: str = "step", **fields: Any) -> ProcessingStep:
    fields.setdefault("outputs", ("out",))
    return ProcessingStep(name=name, program=Program(kind="component", target=target), **fields)


def train(**parameters: Any) -> TrainingStep:
    return TrainingStep(name="train", program=Program(kind="component", target=TRAIN), parameters=parameters)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import b", ["a", "b"]),
        ("def run():\n    from b import x", ["a", "b"]),
        ("from p.q import x", ["a", "p/__init__", "p/q"]),
        ("from p import q", ["a", "p/__init__", "p/q"]),
        ("import p.q as pq", ["a", "p/__init__", "p/q"]),
        ("import p", ["a", "p/__init__"]),
        ("from p import *", ["a", "p/__init__", "p/q", "p/r"]),
        ("import n.m", ["a", "n/m"]),
        ("import b, json, numpy", ["a", "b"]),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import b\nelse:\n    import c", ["a", "c"]),
        ("import importlib\nimportlib.import_module('p.q')", ["a", "p/__init__", "p/q"]),
        ("from importlib import util\nutil.find_spec('b')", ["a", "b"]),
        ("__import__('b')", ["a", "b"]),
        ("FRAMEWORK = 'p'", ["a", "p/__init__"]),
        ("run(['python', 'tools/b.py'])", ["a", "b"]),
        ('"""As b.py does."""', ["a"]),
        ("import json\njson.load(f)\nmodel.eval()\nre.compile('x')", ["a"]),
        ("try:\n    import b\nexcept ImportError:\n    b = None", ["a", "b"]),
    ],
)
def test_a_step_uses_what_its_module_imports(tmp_path: Path, text: str, expected: list[str]) -> None:
    files = {"b": "", "c": "", "p_____init__": "", "p___q": "", "p___r": "", "n___m": "", "bad": "def ("}
    found = used(tmp_path, own(), files={**files, "a": text})
    assert (sorted(found.files), found.whole) == (sorted(f"{name}.py" for name in expected), "")


def test_imports_are_followed_and_relative_ones_found_in_their_package(tmp_path: Path) -> None:
    files = {
        "p_____init__": "from . import q",
        "p___q": "from ..r import x\nfrom .s.t import y",
        "p___s_____init__": "from .. import u",
        "p___s___t": "import r",
        "p___u": "",
        "p___unused": "",
        "r": "",
    }
    found = used(tmp_path, own("p.q:run"), files=files)
    expected = ["p/__init__.py", "p/q.py", "p/s/__init__.py", "p/s/t.py", "p/u.py", "r.py"]
    assert sorted(found.files) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import importlib\nimportlib.import_module(name)", "a.py, line 2: import_module"),
        ("import importlib\nimportlib.import_module('.b')", "a.py, line 2: import_module"),
        ("from importlib import import_module as load", "a.py, line 1: import_module"),
        ("f = __import__", "a.py, line 1: __import__"),
        ("import runpy", "a.py, line 1: runpy"),
        ("import sys\nsys.path.insert(0, 'lib')", "a.py, line 2: sys.path"),
        ("from pathlib import Path\nhere = Path(__file__).parent", "a.py, line 2: __file__"),
        ("exec(text)", "a.py, line 1: exec"),
        ("run(f'{name}.py')", "a.py, line 1: '.py'"),
        ("run(['python', '-m', name])", "a.py, line 1: python -m"),
        ("os.environ['PYTHONPATH']", "a.py, line 1: PYTHONPATH"),
        ("def (", "a.py, line 1: this Python cannot read it"),
        ("import b\n", "b.py, line 1: exec"),
    ],
)
def test_a_file_that_may_load_any_other_makes_the_whole_folder_count(tmp_path: Path, text: str, said: str) -> None:
    found = used(tmp_path, own(), files={"a": text, "b": "exec(text)" if "import b" in text else "", "c": ""})
    assert (sorted(found.files), found.whole) == (["a.py", "b.py", "c.py"], said)


def test_a_component_that_does_not_lie_in_the_folder_may_import_any_file_of_it(tmp_path: Path) -> None:
    assert "does not lie there" in used(tmp_path, own("elsewhere:run"), files={"a": "", "b": ""}).whole


def test_a_shipped_step_uses_no_file_but_those_that_parameters_name(tmp_path: Path) -> None:
    files = {"faces": "import layers", "layers": "", "pipe": "exec(1)", "p_____init__": "", "p___m": "", "rule": ""}
    prepare = own(PREPARE, parameters={"label": "digit"})
    assert used(tmp_path, prepare, files=files).files == {}
    assert sorted(used(tmp_path, train(recipe="faces")).files) == ["faces.py", "layers.py"]
    rules = '{"rule": {"action": "stop"}}'
    assert sorted(used(tmp_path, train(recipe="digits_cnn", health_rules=rules)).files) == ["rule.py"]
    scored = own(
        EVALUATE, inputs={"model": OutputRef(step="train", output="model")}, parameters={"scoring": "f1, p.m(k=2)"}
    )
    expected = ["faces.py", "layers.py", "p/__init__.py", "p/m.py"]
    assert sorted(used(tmp_path, scored, train(recipe="faces")).files) == expected


def test_a_recipe_that_only_the_start_names_is_one_of_its_choices_or_any(tmp_path: Path) -> None:
    choices = Parameter.string("Recipe", "one", choices=("one", "two"))
    files = {"one": "", "two": "", "three": ""}
    found = used(tmp_path, train(recipe=choices.ref()), parameters=(choices,), files=files)
    assert sorted(found.files) == ["one.py", "two.py"]
    free = Parameter.string("Recipe", "one")
    assert "its recipe is known only" in used(tmp_path, train(recipe=free.ref()), parameters=(free,)).whole


def test_a_script_imports_from_its_own_folder_too(tmp_path: Path) -> None:
    files = {"jobs___work": "import near, far", "jobs___near": "", "far": "", "other": "", "near_by": ""}
    expected = ["far.py", "jobs/near.py", "jobs/work.py"]
    step = ProcessingStep(name="step", program=Program(kind="script", target="jobs/work.py"), outputs=("out",))
    assert sorted(used(tmp_path, step, files=files).files) == expected
    trained = TrainingStep(
        name="train", program=Program(kind="component", target=TRAIN_SCRIPT), parameters={"script": "jobs/work.py"}
    )
    assert sorted(used(tmp_path, trained).files) == expected
    brought = trained.model_copy(update={"inputs": {"source": "jobs"}})
    assert "its script is known only" in used(tmp_path, brought).whole


@pytest.mark.parametrize(
    "text",
    [
        "import pickle\npickle.load(f)",
        "from joblib import load",
        "from multiprocessing.reduction import ForkingPickler\nForkingPickler.loads(b'')",
        "import torch\ntorch.load(f)",
        "import pandas as pd\npd.read_pickle(f)",
        "from drivetrain.components import Value",
        "import numpy as np\nnp.load(f, allow_pickle=True)",
    ],
)
def test_a_step_that_loads_objects_has_the_modules_of_the_steps_that_made_them(tmp_path: Path, text: str) -> None:
    files = {"a": text, "made": "import shapes", "shapes": "", "other": ""}
    makes = own("made:run", "make")
    taken = own("other:run", "pass-on", inputs={"given": makes["out"]})
    loads = own("a:run", inputs={"given": taken["out"]})
    assert sorted(used(tmp_path, loads, taken, makes, files=files).files) == [
        "a.py",
        "made.py",
        "other.py",
        "shapes.py",
    ]
    outside = own("a:run", inputs={"given": "s3://bucket/old/"})
    assert "comes from outside" in used(tmp_path, outside, makes, files=files).whole
    writes = {**files, "a": text.replace("load", "dump").replace("read_pickle", "concat").replace("Value", "Input")}
    if "allow_pickle" not in text:
        assert sorted(used(tmp_path, outside, files=writes).files) == ["a.py"]


def test_a_step_that_only_returns_objects_has_its_own_code(tmp_path: Path) -> None:
    returns = "from drivetrain.components import Value\ndef run() -> Value: ..."
    assert sorted(used(tmp_path, own(), files={"a": returns, "other": ""}).files) == ["a.py"]
    assert "from outside" in used(tmp_path, own(), files={"a": f"from joblib import load\n{returns}"}).whole


def test_a_model_from_outside_may_name_any_recipe(tmp_path: Path) -> None:
    scored = own(EVALUATE, inputs={"model": "s3://bucket/model/", "data": "s3://bucket/test/"})
    assert "'model' comes from outside" in used(tmp_path, scored, files={"a": "", "b": ""}).whole


def test_a_described_model_brings_its_code(tmp_path: Path) -> None:
    """An edit of the user's files evaluates it anew by its content alone."""
    described = own(DESCRIBE_MODEL, "described", inputs={"trained": "s3://bucket/model/"}, outputs=("model",))
    scored = own(EVALUATE, inputs={"model": described["model"], "data": "s3://bucket/test/"})
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text("")
    code = StepCode(tmp_path, Graph(Pipeline(name="p", steps=(described, scored))))
    assert code.of(scored).files == {} and not code.of(scored).whole


def test_a_described_model_is_noted_to_run_code(tmp_path: Path) -> None:
    """Wherever it is loaded; so a plan says it."""
    described = own(DESCRIBE_MODEL, parameters={"answers": "own.answer"}, inputs={"model": "s3://bucket/model/"})
    graph = Graph(Pipeline(name="p", steps=(described,)))
    assert list(StepCode(tmp_path, graph).notes()) == [
        "Step 'step': loading this model runs code, its module 'own.answer', wherever it is asked."
    ]


def test_a_note_names_steps_and_reasons(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text("exec(1)" if name == "a" else "")
    graph = Graph(Pipeline(name="p", steps=(own(), own("b:run", "other"))))
    [note] = StepCode(tmp_path, graph).notes()
    assert "'step'" in note and "any Python file" in note and "a.py, line 1: exec" in note
