"""What a function's signature declares, and what it cannot."""

import dataclasses
import inspect
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError, SpecError
from drivetrain.steps import (
    Checkpoints,
    ComponentFolder,
    ComponentParameter,
    DeclarationError,
    Input,
    Output,
    Since,
)
from drivetrain.steps.declaration import Component, component
from drivetrain.steps.programs import check
from drivetrain.steps.signature import values_before


class Scores(TypedDict):
    accuracy: float
    errors: int
    slowest: NotRequired[float]


class Told(TypedDict):
    accuracy: float
    why: str
    low: NotRequired[float]
    note: NotRequired[str]


# As under `from __future__ import annotations`.
class ToldByTexts(TypedDict):
    accuracy: "float"
    why: "str"
    low: "NotRequired[float]"
    note: "NotRequired[str]"


class Pair(NamedTuple):
    precision: float
    recall: float


@dataclasses.dataclass
class Loss:
    loss: float


@component
def evaluate(
    model: Input,
    data: Input | None,
    plots: Output,
    extra: Output | None = None,
    *,
    name: str,
    max_digits: int = 4,
    rate: float = 1,
    verbose: bool = False,
    size: Literal["small", "large"] = "small",
    depth: Literal[1, 2, 3] | None = None,
    note: str | None = None,
) -> dict[str, float]:
    """Evaluate a model.

    More text, which is no help of an argument.

    Args:
        model: the model that
            train wrote.
        data: the test set.
        max_digits: how many digits: at most ten.

    Returns:
        name: not an argument.
    """
    return {"accuracy": rate}


def test_folders_and_parameters_are_read_from_the_signature() -> None:
    assert isinstance(evaluate, Component)
    assert dict(evaluate.inputs) == {
        "model": ComponentFolder("model", help="the model that train wrote."),
        "data": ComponentFolder("data", optional=True, help="the test set."),
    }
    assert dict(evaluate.outputs) == {
        "plots": ComponentFolder("plots"),
        "extra": ComponentFolder("extra", optional=True),
    }
    assert list(evaluate.parameters.values()) == [
        ComponentParameter("name", str, required=True),
        ComponentParameter("max_digits", int, required=False, default=4, help="how many digits: at most ten."),
        ComponentParameter("rate", float, required=False, default=1.0),
        ComponentParameter("verbose", bool, required=False, default=False),
        ComponentParameter("size", str, required=False, default="small", choices=("small", "large")),
        ComponentParameter("depth", int, required=False, choices=(1, 2, 3), optional=True),
        ComponentParameter("note", str, required=False, optional=True),
    ]
    assert type(evaluate.parameters["rate"].default) is float
    assert (evaluate.job, evaluate.checkpoints, evaluate.metrics) == ("processing", None, None)
    assert (evaluate.name, evaluate.summary) == ("evaluate", "Evaluate a model.")
    assert evaluate.parameters["max_digits"].flag == "--max-digits"


def test_a_component_is_still_its_function() -> None:
    here = Path()
    assert evaluate(here, None, here, name="x", rate=0.5) == {"accuracy": 0.5}
    assert evaluate.target == f"{__name__}:evaluate"
    assert evaluate.file == Path(__file__).resolve()


@pytest.mark.parametrize(("spec", "module"), [(None, "job"), (ModuleSpec("pk.job", None), "pk.job")])
def test_the_module_that_python_runs_is_imported_by_its_own_name(spec: ModuleSpec | None, module: str) -> None:
    """`python job.py`, and `python -m pk.job`."""
    names: dict[str, Any] = {"__name__": "__main__", "__spec__": spec}
    exec(compile("def fit() -> None: ...", "/flows/pk/job.py", "exec"), names)
    assert component(names["fit"]).target == f"{module}:fit"


def test_a_declaration_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        evaluate.inputs["more"] = ComponentFolder("more")  # type: ignore[index]
    with pytest.raises(AttributeError):
        evaluate.name = "other"  # type: ignore[misc]


@component(job="training", needs=["torch"], logs={"loss": r"loss=([0-9.]+)"}, resumable=["epochs"], name="the-training")
def train(data: Input, model: Output, checkpoints: Checkpoints, epochs: int = 3) -> None: ...


def test_a_training_job() -> None:
    assert (train.job, train.name, train.needs, train.metrics) == ("training", "the-training", ("torch",), ())
    assert (train.checkpoints, train.resumable) == (ComponentFolder("checkpoints"), ("epochs",))
    assert dict(train.logs) == {"loss": "loss=([0-9.]+)"}


def declare(text: str, **options: Any) -> Component[..., Any]:
    """The component of a function given as text, at the top level of a module of its own."""
    names: dict[str, Any] = {
        **{"__name__": "pipeline", "component": component, "Input": Input, "Output": Output, "Path": Path},
        **{
            "Checkpoints": Checkpoints,
            "Bounds": Bounds,
            "Literal": Literal,
            "Annotated": Annotated,
            "Any": Any,
            "Iterator": Iterator,
        },
        **{
            "Bounds": Bounds,
            "Scores": Scores,
            "Pair": Pair,
            "Loss": Loss,
            "Told": Told,
            "ToldByTexts": ToldByTexts,
            "dataclass": dataclasses.dataclass,
            "NamedTuple": NamedTuple,
        },
    }
    exec(text, names)
    function = next(value for value in names.values() if inspect.isfunction(value) and value.__module__ == "pipeline")
    return component(**options)(function)


@pytest.mark.parametrize(
    ("returned", "metrics"),
    [
        ("", ()),
        (" -> None", ()),
        (" -> float", ("value",)),
        (" -> int", ("value",)),
        (" -> dict", None),
        (" -> dict[str, float]", None),
        (" -> dict[str, int | float]", None),
        (" -> Scores", ("accuracy", "errors")),
        (" -> Pair", ("precision", "recall")),
        (" -> Loss", ("loss",)),
    ],
)
def test_returned_numbers(returned: str, metrics: tuple[str, ...] | None) -> None:
    assert declare(f"def f(data: Input){returned}: ...").metrics == metrics
    assert declare(f"from __future__ import annotations\ndef f(data: Input){returned}: ...").metrics == metrics


@pytest.mark.parametrize("kind", ["Told", "ToldByTexts"])
def test_returned_texts_and_optional_numbers_are_declared(kind: str) -> None:
    found = declare(f"def f() -> {kind}: ...")
    assert (found.metrics, found.texts) == (("accuracy", "why"), ("why",))
    assert declare("def f() -> float: ...").texts == ()


def test_a_component_declares_whether_it_is_cached() -> None:
    assert declare("def f(data: Input): ...").cached
    assert not declare("def f(data: Input): ...", cached=False).cached


REFUSED: dict[str, tuple[str, str]] = {
    "a type that no platform carries": (
        "def f(x: list[int]): ...",
        r"parameter 'x' has type list\[int\]\. Allowed: Input, Output, Checkpoints, str, int, float, bool, Literal",
    ),
    "a Path that is no folder": (
        "def f(x: Path): ...",
        "parameter 'x' has type <class 'pathlib.Path'>. Allowed: Input",
    ),
    "other annotations": ("def f(x: Annotated[list, 5]): ...", "parameter 'x' has type"),
    "no type": ("def f(x): ...", "parameter 'x' has no type"),
    "a union": ("def f(x: int | str): ...", r"parameter 'x' has type int \| str"),
    "literals of two types": ("def f(x: Literal[1, 'a']): ...", "parameter 'x' has type typing.Literal"),
    "*args": ("def f(*args: int): ...", r"\*args cannot be declared\. Give every parameter a name"),
    "**options": ("def f(**options: int): ...", r"\*options cannot be declared"),
    "positional only": ("def f(x: int, /): ...", "'x' cannot be given by name; take out the `/`"),
    "an underscore first": ("def f(_x: int): ...", "'_x' cannot be a flag of the command line"),
    "letters beyond ASCII": ("def f(größe: int): ...", "'größe' cannot be a flag of the command line"),
    "a parameter called help": ("def f(help: str): ...", "'help' cannot be a flag of the command line"),
    "an unknown type": (
        "from __future__ import annotations\ndef f(x: Missing): ...",
        "the type 'Missing' is not there when the file is imported",
    ),
    "a default of another type": (
        "def f(x: int = 1.5): ...",
        r"'x' defaults to 1\.5\. Allowed: a default of type int\.",
    ),
    "a bool for a number": ("def f(x: int = True): ...", "'x' defaults to True. Allowed: a default of type int"),
    "a default of None": (
        "def f(x: int = None): ...",
        r"'x' defaults to None\. Allowed: a default of type int, or a type with `\| None`",
    ),
    "a default that is not among the choices": (
        "def f(x: Literal['a', 'b'] = 'c'): ...",
        "'x' defaults to 'c'. Allowed: 'a', 'b'",
    ),
    "NaN as a default": ("def f(x: float = float('nan')): ...", "'x' defaults to nan, which JSON does not have"),
    "infinity as a default": ("def f(x: float = float('inf')): ...", "'x' defaults to inf, which JSON does not have"),
    "optional with another default": (
        "def f(x: int | None = 5): ...",
        "'x' may be None but defaults to 5; a command line says None by leaving the flag out",
    ),
    "a folder with a default": (
        "def f(x: Input = Path('data')): ...",
        "folder 'x' defaults to .*'data'.*; the platform gives folders",
    ),
    "a folder that is None but must not be": ("def f(x: Input = None): ...", "folder 'x' defaults to None"),
    "an input called code": ("def f(code: Input): ...", "the input name 'code' is taken by the channel of the program"),
    "checkpoints in a processing job": ("def f(x: Checkpoints): ...", "a processing job has no checkpoints"),
    "an output called metrics": ("def f(metrics: Output) -> float: ...", "'metrics' is taken by the numbers"),
    "an input called metrics": ("def f(metrics: Input) -> float: ...", "'metrics' is taken by the numbers"),
    "a parameter called metrics": ("def f(metrics: str) -> float: ...", "'metrics' is taken by the numbers"),
    "ten inputs": (
        f"def f({', '.join(f'i{index}: Input' for index in range(10))}): ...",
        "11 inputs, counting the one for code or metrics; at most 10",
    ),
    "ten outputs and numbers": (
        f"def f({', '.join(f'o{index}: Output' for index in range(10))}) -> float: ...",
        "11 outputs, counting the one for code or metrics; at most 10",
    ),
    "text as a result": ("def f() -> str: ...", "returns <class 'str'>. Allowed: None, a number, dict"),
    "a bool as a result": ("def f() -> bool: ...", "returns <class 'bool'>. Allowed: None, a number"),
    "maybe a number": ("def f() -> float | None: ...", r"returns float \| None\. Allowed: None, a number"),
    "a dict of text": ("def f() -> dict[str, str]: ...", r"returns dict\[str, str\]\. Allowed"),
    "a dict with numbers as names": ("def f() -> dict[int, float]: ...", r"returns dict\[int, float\]\. Allowed"),
    "a list in a named tuple": (
        "class Two(NamedTuple):\n a: float\n b: list\ndef f() -> Two: ...",
        "returns 'b' of type <class 'list'>",
    ),
    "async": ("async def f(): ...", "f cannot be a component: it is async or a generator"),
    "a generator": ("def f() -> Iterator[int]:\n yield 1", "f cannot be a component: it is async or a generator"),
    "an async generator": ("async def f():\n yield 1", "f cannot be a component: it is async or a generator"),
    "a lambda": ("f = lambda: 0", "cannot be a component"),
    "bounds of a text": ("def f(x: Annotated[str, Bounds(1)]): ...", "'x' has Bounds, which are for int and float"),
    "bounds of choices": ("def f(x: Annotated[Literal[1, 2], Bounds(1)]): ...", "'x' has Bounds, which are for int"),
    "a default beyond its bounds": (
        "def f(x: Annotated[int, Bounds(1, 4)] = 5): ...",
        r"'x' defaults to 5\. Allowed: whole numbers from 1 to 4\.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_declarations_are_refused(case: str) -> None:
    text, expected = REFUSED[case]
    with pytest.raises(DeclarationError, match=expected) as caught:
        declare(text)
    assert "pipeline." in str(caught.value)


TRAINING: dict[str, tuple[str, dict[str, Any], str]] = {
    "another output": ("def f(x: Output): ...", {}, "a training job has no output 'x'. Allowed: model, output"),
    "numbers": ("def f() -> float: ...", {}, "a training job returns no numbers"),
    "checkpoints of another name": ("def f(keep: Checkpoints): ...", {}, "write checkpoints: Checkpoints"),
    "two checkpoints": (
        "def f(a: Checkpoints, b: Checkpoints): ...",
        {},
        "are both Checkpoints; only one may be",
    ),
    "resumable is no parameter": (
        "def f(epochs: int): ...",
        {"resumable": ["epoch"]},
        "resumable names 'epoch', which is no parameter. There are: epochs",
    ),
    "no regular expression": ("def f(): ...", {"logs": {"loss": "("}}, r"logs\['loss'\] is no regular expression"),
    "no mapping of logs": ("def f(): ...", {"logs": 5}, "logs is 5. Give {'loss': r'loss="),
    "no text for a pattern": ("def f(): ...", {"logs": {"loss": 5}}, r"logs\['loss'\] is 5"),
    "no text for a name": ("def f(): ...", {"name": 5}, "name is 5. Give a text"),
    "no dataclass": ("def f(): ...", {"settings": {"a": 1}}, "settings is {'a': 1}. Give a dataclass"),
    "no group": ("def f(): ...", {"logs": {"loss": "loss=.*"}}, r"logs\['loss'\] has 0 groups; one is needed"),
}


@pytest.mark.parametrize("case", TRAINING)
def test_invalid_training_declarations_are_refused(case: str) -> None:
    text, options, expected = TRAINING[case]
    with pytest.raises(DeclarationError, match=expected):
        declare(text, job="training", **options)


def test_unfitting_options_are_refused() -> None:
    assert issubclass(DeclarationError, SpecError)  # what people catch of everything that cannot be built
    with pytest.raises(DeclarationError, match=r"job is 'tranining'\. Allowed: processing, training"):
        declare("def f(): ...", job="tranining")
    with pytest.raises(DeclarationError, match="only a training job has `logs`"):
        declare("def f(): ...", logs={"loss": "loss=([0-9.]+)"})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"needs": "numpy"}, r"pipeline\.f: needs is 'numpy'\. Give a list, such as needs=\[\"numpy\"\]"),
        ({"needs": 5}, "needs is 5. Give a list"),
        ({"needs": [5]}, "needs holds 5, which is no text"),
        ({"resumable": "epochs"}, r"resumable is 'epochs'\. Give a list"),
    ],
)
def test_a_text_is_no_list(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(SpecError, match=expected):
        declare("def f(epochs: int): ...", **options)


def test_a_decorated_function_declares_what_the_one_inside_does() -> None:
    found = declare("""
import functools

def logged(function):
    @functools.wraps(function)
    def inside(*arguments, **options):
        return function(*arguments, **options)
    return inside

@logged
def f(data: Input, *, rate: float = 1) -> None: ...

del logged
""")
    assert dict(found.inputs) == {"data": ComponentFolder("data")}
    assert list(found.parameters.values()) == [ComponentParameter("rate", float, required=False, default=1.0)]
    for hidden, expected in (("*a: int", r"\*a cannot be declared"), ("a: int, /", "'a' cannot be given by name")):
        wrapped = f"import functools\ndef f({hidden}): ...\nf = functools.wraps(f)(lambda *a: None)"
        with pytest.raises(DeclarationError, match=expected):
            declare(wrapped)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What a program is told.

    Attributes:
        recipe: what is learnt.
        epochs: how often,
            in whole numbers.
        smoothing: came later.
    """

    recipe: str
    epochs: Annotated[int, Bounds(1)] = 12
    kind: Literal["a", "b"] = "a"
    smoothing: Annotated[float, Since(before=0.0), Bounds(0, below=1)] = 0.1

    def __post_init__(self) -> None:
        check(self)


@component(settings=Settings)
def program(data: Input, *, recipe: str = "digits", processes: int = 0, **settings: Any) -> None:
    """Run a program.

    Args:
        processes: of a host.
    """


def test_an_argument_that_is_not_declared_is_refused_before_anything_runs() -> None:
    with pytest.raises(TypeError, match=r"program\(\) has no argument 'epoch'\. Did you mean 'epochs'\?"):
        program(Path("data"), epoch=3)
    program(Path("data"), epochs=3)


def test_the_fields_of_a_dataclass_are_parameters() -> None:
    assert list(program.parameters.values()) == [
        ComponentParameter("recipe", str, required=False, default="digits", help="what is learnt."),
        ComponentParameter(
            "epochs", int, required=False, default=12, help="how often, in whole numbers.", bounds=Bounds(1)
        ),
        ComponentParameter("kind", str, required=False, default="a", choices=("a", "b")),
        ComponentParameter(
            "smoothing",
            float,
            required=False,
            default=0.1,
            help="came later.",
            bounds=Bounds(0, below=1),
            since=Since(before=0.0),
        ),
        ComponentParameter("processes", int, required=False, default=0, help="of a host."),
    ]
    assert values_before(Settings) == {"smoothing": 0.0}
    for wrong in ("def f(data: Input): ...", "def f(*rest: Any, **settings: Any): ..."):
        with pytest.raises(DeclarationError, match=r"settings= come by name\. Give the function \*\*settings"):
            declare(wrong, settings=Settings)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epochs": 0}, "epochs=0; allowed are whole numbers from 1."),
        ({"smoothing": 1.0}, "smoothing=1.0; allowed are numbers from 0 to below 1."),
        ({"kind": "aa"}, "no kind 'aa'. Did you mean 'a'? Allowed: a, b."),
    ],
)
def test_arguments_are_checked_against_the_dataclass_fields(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Settings(recipe="r", **given)
    assert str(caught.value) == message


def test_objects_that_are_no_function_are_refused() -> None:
    class Callable:
        def __call__(self) -> None: ...

    def inner() -> None: ...

    for given in (Callable(), Callable, evaluate):
        with pytest.raises(DeclarationError, match="cannot be a component: @component goes on a function"):
            component(given)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="inside a function or class, where no container can find it"):
        component(inner)
    with pytest.raises(DeclarationError, match="a lambda or defined inside a function or class"):
        component(Pair._asdict)
