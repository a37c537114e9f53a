"""Components of a notebook's cells: the module that is written of one runs alone, and what cannot travel is named."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Pipeline, SpecError, step
from drivetrain.authoring.cells import write_modules
from drivetrain.steps.declaration import Component

Run = Callable[[str], dict[str, Any]]
HEAD = "from drivetrain.components import Input, Output, component\n"


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a cell as a kernel does: its text is known by a file name that leads nowhere."""
    names: dict[str, Any] = {"__name__": "__main__"}
    numbers = itertools.count()
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))

    def run(text: str) -> dict[str, Any]:
        file = f"/nowhere/ipykernel_1/{next(numbers)}.py"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), names)
        return names

    return run


def written(component: Component[..., Any], folder: Path) -> tuple[str, Any]:
    """The text of the module that travels, and the program in it, imported in a fresh module."""
    made = step(component)
    pipeline = Pipeline(name="p", steps=[made])
    write_modules(pipeline, folder)
    module, function = made.program.target.split(":")
    path = folder / f"{module}.py"
    spec = importlib.util.spec_from_file_location(module, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return path.read_text(), getattr(loaded, function)


def test_a_file_whose_name_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(HEAD + "@component\ndef fit(model: Output) -> None: ...\n")
    spec = importlib.util.spec_from_file_location("script", tmp_path / "script.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(SpecError, match=r"step\(fit\): its file is called script\.py, a name that is taken\. Rename"):
        step(module.fit)


def test_definitions_of_other_cells_travel(cell: Run, tmp_path: Path) -> None:
    cell("import os.path\nimport json as j\nfrom math import floor as down\nROWS = 7\nNAMES = ('a', 'b')\n" + HEAD)
    cell("class Base:\n    by = ROWS\n\nclass Scale(Base):\n    def of(self, x):\n        return x * self.by\n")
    cell("def twice(x):\n    return even(2 * x)\n\ndef even(x):\n    return x if x % 2 == 0 else twice(x)\n")
    names = cell(
        "@component\n"
        "def fit(model: Output, rows: int = ROWS) -> dict[str, float]:\n"
        "    table = rows  # a name of its own, whatever another cell calls so\n"
        "    found = {'total': float(twice(Scale().of(table))), 'names': len(NAMES)}\n"
        "    (model / os.path.basename('x/m.json')).write_text(j.dumps(found))\n"
        "    return {'total': down(found['total'])}\n"
    )
    names["table"] = object()
    text, program = written(names["fit"], tmp_path)
    (tmp_path / "model").mkdir()
    assert program(tmp_path / "model", rows=3) == {"total": 42}
    assert (tmp_path / "model" / "m.json").read_text() == '{"total": 42.0, "names": 2}'
    assert "import json as j" in text and "from math import floor as down" in text and "ROWS = 7" in text
    assert text.index("class Base") < text.index("class Scale") and "table = object" not in text


def test_the_same_cells_are_the_same_module(cell: Run, tmp_path: Path) -> None:
    text = HEAD + "@component\ndef fit(model: Output, rows: int = 1) -> None:\n    print(rows)\n"
    first = step(cell(text)["fit"]).program.target
    assert step(cell(text)["fit"]).program.target == first and first.startswith("cells_")
    assert step(cell(text.replace("print(rows)", "print(rows + 1)"))["fit"]).program.target != first


@pytest.mark.parametrize(
    ("before", "body", "message"),
    [
        ("thing = object()", "print(thing)", r"fit\(\) uses 'thing' of another cell: it is <object .*cannot travel"),
        ("big = list(range(10_000))", "print(big)", r"fit\(\) uses 'big' of another cell.*give that as an input"),
        (
            "def outer():\n    y = 1\n    def inner():\n        return y\n    return inner\ninner = outer()",
            "print(inner())",
            r"fit\(\) uses 'inner' of another cell: it is made inside of another function",
        ),
    ],
)
def test_values_that_cannot_travel_are_refused_by_name(cell: Run, before: str, body: str, message: str) -> None:
    names = cell(f"{HEAD}{before}\n@component\ndef fit(model: Output) -> None:\n    {body}\n")
    with pytest.raises(SpecError, match=message):
        step(names["fit"])


def test_modules_beside_a_notebook_travel(
    cell: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    beside, travelled = tmp_path / "beside", tmp_path / "travelled"
    (beside / "shop_shapes").mkdir(parents=True)
    travelled.mkdir()
    (beside / "shop_rules.py").write_text("import json\nimport shop_shapes.square\nSIDES = 4\n")
    (beside / "shop_shapes" / "square.py").write_text("def area(side):\n    return side * side\n")
    monkeypatch.syspath_prepend(beside)
    request.addfinalizer(lambda: [sys.modules.pop(name) for name in list(sys.modules) if name.startswith("shop_")])
    names = cell(
        f"{HEAD}import shop_rules\n@component\ndef fit(model: Output) -> dict[str, float]:\n"
        "    import numpy\n    from shop_shapes import square\n"
        "    return {'area': square.area(3), 'sides': shop_rules.SIDES}\n"
    )
    text, program = written(names["fit"], travelled)
    assert program(travelled) == {"area": 9, "sides": 4} and "import shop_rules" in text
    there = sorted(file.relative_to(travelled).as_posix() for file in travelled.rglob("shop_*"))
    assert there == ["shop_rules.py", "shop_shapes"] and (travelled / "shop_shapes" / "square.py").is_file()
    assert not list(travelled.glob("numpy*"))
    (beside / f"shop_fast{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    names = cell(f"{HEAD}@component\ndef fit(model: Output) -> None:\n    import shop_fast\n")
    with pytest.raises(SpecError, match=r"imports 'shop_fast' from shop_fast\S+, which is no Python file"):
        step(names["fit"])


def test_a_definition_changed_by_a_later_cell_is_refused(cell: Run, tmp_path: Path) -> None:
    cell("ROWS = 7\n" + HEAD)
    names = cell("@component\ndef fit(model: Output, rows: int = ROWS) -> None:\n    print(rows, ROWS)\n")
    cell("ROWS = 9\n")
    with pytest.raises(SpecError, match=r"the default of 'rows' was 7 when its cell ran, and ROWS is 9 now\. Run the"):
        step(names["fit"])
    cell("import enum\nclass Scale:\n    by = ROWS\nclass Kind(enum.Enum):\n    A = ROWS\n")
    names = cell(
        "@component\ndef fit(model: Output) -> dict[str, float]:\n    return {'by': Scale.by, 'k': len(Kind)}\n"
    )
    assert written(names["fit"], tmp_path)[1](tmp_path) == {"by": 9, "k": 1}
    cell("ROWS = 11\n")
    with pytest.raises(SpecError, match=r"fit\(\) uses 'Scale' of another cell: its by was 9 .* ROWS is 11 now"):
        step(names["fit"])


def test_a_cell_under_a_magic_is_read_or_named(cell: Run, tmp_path: Path) -> None:
    body = HEAD + "@component\ndef fit(model: Output, rows: int = 2) -> dict[str, float]:\n    return {'rows': rows}\n"
    names = cell("def get_ipython():\n    raise RuntimeError\n")
    file = "/nowhere/ipykernel_1/timed.py"
    whole = f"get_ipython().run_cell_magic('time', '', {body!r})\n"
    linecache.cache[file] = (len(whole), None, whole.splitlines(keepends=True), file)
    exec(compile(body, "<timed exec>", "exec"), names)  # as IPython's %%time does
    text, program = written(names["fit"], tmp_path)
    assert program(tmp_path) == {"rows": 2} and text.count("def fit") == 1
    del linecache.cache[file]
    with pytest.raises(SpecError, match=r"step\(fit\): its cell has a magic such as %%time, .* Take that line out"):
        step(names["fit"])


def test_a_function_without_a_text_is_refused() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(HEAD + "@component\ndef fit(model: Output) -> None: ...\n", names)
    with pytest.raises(SpecError, match=r"step\(fit\): its source is not known. Write it to a file"):
        step(names["fit"])


def test_a_name_of_a_builtin_a_decorator_and_another_name_travel(cell: Run, tmp_path: Path) -> None:
    cell(HEAD + "import functools\ndef sum(x):\n    return 42\n")
    cell("@functools.lru_cache\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nfibonacci = fib\n")
    names = cell(
        "@component\ndef fit(model: Output) -> dict[str, float]:\n    return {'k': sum([1]) + fibonacci(10)}\n"
    )
    text, program = written(names["fit"], tmp_path)
    assert program(tmp_path) == {"k": 97}
    assert "__main__" not in text and "fibonacci = fib" in text
