"""The declaration of a component, read from the signature of a typed function.

    @component
    def evaluate(model: Input, data: Input, plots: Output, max_digits: int = 4) -> dict[str, float]:
        ...

says all that an author, a compiler and a container must know: two input folders, one output folder, one parameter,
and numbers that come back (they are written to a property file, on which a pipeline can decide). The decorated
function stays a function: called with folders it just runs, in a test or a notebook.

Folders are `pathlib.Path` to the function and to the type checker; `Input`, `Output` and `Checkpoints` only say which
way the data flows. Parameters are str, int, float, bool, a `Literal` of those, or any of them `| None`.
"""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, ParamSpec, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")

Job = Literal["processing", "training"]
Scalar = str | int | float | bool


@dataclass(frozen=True)
class Folder:
    """Marks a Path parameter as a folder that the platform fills (`input`) or collects (`output`, `checkpoints`)."""

    flow: Literal["input", "output", "checkpoints"]


Input = Annotated[Path, Folder("input")]
Output = Annotated[Path, Folder("output")]
Checkpoints = Annotated[Path, Folder("checkpoints")]

# A processing job's numbers travel in a folder of their own, so that a property file can name it.
METRICS_OUTPUT = "metrics"
METRICS_FILE = "metrics.json"
# SageMaker gives a training job exactly these two; each arrives in the bucket as a tar.gz.
TRAINING_OUTPUTS = ("model", "output")
# The channel that brings the program itself.
CODE_CHANNEL = "code"


class DeclarationError(TypeError):
    """A function cannot be a component: the message names the function, the parameter and what is allowed."""


@dataclass(frozen=True)
class ComponentParameter:
    """One plain parameter of a component.

    `type` is str, int, float or bool; `choices` is empty when every value of the type is allowed; `required` says
    whether the author must give it; `optional` whether None is a value (it is passed on by leaving the flag out).
    """

    name: str
    type: type[Scalar]
    required: bool
    default: Scalar | None = None
    choices: tuple[Scalar, ...] = ()
    optional: bool = False
    help: str = ""

    @property
    def flag(self) -> str:
        """The command-line spelling: `max_digits` is given as `--max-digits`."""
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True)
class ComponentFolder:
    """One folder of a component; an optional input may be left unconnected and then arrives as None."""

    name: str
    optional: bool = False
    help: str = ""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True)
class Component(Generic[P, R]):
    """A typed function with its declaration. Calling it calls the function.

    `metrics` holds the names of the numbers that come back, is empty when none do, and is None when they are only
    known at run time (the function returns a dict). `needs` lists distributions the program imports. `logs` maps the
    name of a training metric to the regular expression that finds it in the job's log, as SageMaker's
    MetricDefinitions do. `resumable` names the parameters of a training job that may change between a run and its
    resumption (epochs may grow), so that they do not move the checkpoints elsewhere.
    """

    function: Callable[P, R]
    name: str
    job: Job
    inputs: Mapping[str, ComponentFolder]
    outputs: Mapping[str, ComponentFolder]
    checkpoints: ComponentFolder | None
    parameters: Mapping[str, ComponentParameter]
    metrics: tuple[str, ...] | None
    needs: tuple[str, ...] = ()
    resumable: tuple[str, ...] = ()
    logs: Mapping[str, str] = field(default_factory=dict[str, str])
    summary: str = ""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @property
    def target(self) -> str:
        """`module:function`, the name under which the program is found in the container."""
        module = self.function.__module__
        if module == "__main__":  # `python pipeline.py`: in the container the file is imported by its own name
            module = Path(inspect.getfile(self.function)).stem
        return f"{module}:{self.function.__name__}"

    @property
    def file(self) -> Path:
        """The source file, from which the folder that travels with the user's code is found."""
        return Path(inspect.getfile(self.function)).resolve()

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Run as a command: `--folder PATH` and `--parameter VALUE`; see `call.run`."""
        from drivetrain.components.call import run

        run(self, arguments)


@overload
def component(function: Callable[P, R], /) -> Component[P, R]: ...
@overload
def component(
    *,
    job: Job = ...,
    needs: Sequence[str] = ...,
    logs: Mapping[str, str] | None = ...,
    resumable: Sequence[str] = ...,
    name: str | None = ...,
) -> Callable[[Callable[P, R]], Component[P, R]]: ...
def component(
    function: Callable[..., Any] | None = None,
    /,
    *,
    job: Job = "processing",
    needs: Sequence[str] = (),
    logs: Mapping[str, str] | None = None,
    resumable: Sequence[str] = (),
    name: str | None = None,
) -> Any:
    """Turn a typed function into a component.

    Args:
        job: `processing` (any folders, numbers come back) or `training` (channels, checkpoints, spot; its outputs
            are `model` and `output`).
        needs: distributions the program imports; those the image lacks travel with the code.
        logs: metric name -> regular expression with one group, for a training job's curves.
        resumable: parameters that may change when a training job is resumed.
        name: the step's default name; the function's name unless given.

    Raises:
        DeclarationError: where the signature says something that no platform can carry.
    """

    def declare(function: Callable[..., Any]) -> Component[..., Any]:
        return _declare(
            function, job=job, needs=tuple(needs), logs=dict(logs or {}), resumable=tuple(resumable), name=name
        )

    return declare if function is None else declare(function)


def _declare(
    function: Callable[..., Any],
    *,
    job: Job,
    needs: tuple[str, ...],
    logs: dict[str, str],
    resumable: tuple[str, ...],
    name: str | None,
) -> Component[..., Any]:
    if not inspect.isfunction(function):
        raise DeclarationError(f"{function!r} cannot be a component: @component goes on a function (def).")
    where = f"{function.__module__}.{function.__qualname__}"
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise DeclarationError(f"{where} cannot be a component: it is async or a generator, which nothing would run.")
    if job not in typing.get_args(Job):
        raise DeclarationError(f"{where}: job is {job!r}. Allowed: {', '.join(typing.get_args(Job))}.")
    if not function.__qualname__.isidentifier():
        raise DeclarationError(
            f"{where} cannot be a component: it is a lambda or defined inside a function or class, where no container "
            "can find it. Give it a name at the top level of its file."
        )
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise DeclarationError(
            f"{where}: the type {error.name!r} is not there when the file is imported. Import it at the top of the "
            "file, outside of `if TYPE_CHECKING`."
        ) from None
    described = _argument_help(function.__doc__ or "")
    inputs: dict[str, ComponentFolder] = {}
    outputs: dict[str, ComponentFolder] = {}
    checkpoints: ComponentFolder | None = None
    parameters: dict[str, ComponentParameter] = {}

    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DeclarationError(f"{where}: *{parameter.name} cannot be declared. Give every parameter a name.")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DeclarationError(f"{where}: {parameter.name!r} cannot be given by name; take out the `/`.")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", parameter.name) or parameter.name == "help":
            raise DeclarationError(
                f"{where}: {parameter.name!r} cannot be a flag of the command line. Allowed: ASCII letters, digits and "
                "underscores, a letter first, and not help."
            )
        if parameter.name not in hints:
            raise DeclarationError(
                f"{where}: parameter {parameter.name!r} has no type. Allowed: Input, Output, Checkpoints, str, int, "
                "float, bool, Literal[...], or one of the plain types | None."
            )
        annotation, optional = _without_none(hints[parameter.name])
        help_text = described.get(parameter.name, "")
        folder = next((m for m in getattr(annotation, "__metadata__", ()) if isinstance(m, Folder)), None)
        if folder is None:
            parameters[parameter.name] = _plain_parameter(where, parameter, annotation, optional, help_text)
            continue
        if parameter.default is not parameter.empty and not (optional and parameter.default is None):
            raise DeclarationError(
                f"{where}: folder {parameter.name!r} defaults to {parameter.default!r}; the platform gives folders. "
                "Allowed: no default, or a type with `| None` and the default None."
            )
        declared = ComponentFolder(parameter.name, optional=optional, help=help_text)
        if folder.flow == "input":
            inputs[parameter.name] = declared
        elif folder.flow == "output":
            outputs[parameter.name] = declared
        elif checkpoints is None:
            checkpoints = declared
        else:
            raise DeclarationError(
                f"{where}: {checkpoints.name!r} and {parameter.name!r} are both Checkpoints; one is."
            )

    metrics = _returned_metrics(where, hints.get("return"))
    _check_folders(where, job, inputs, outputs, checkpoints, metrics)
    if metrics != () and METRICS_OUTPUT in hints:
        raise DeclarationError(
            f"{where}: the name {METRICS_OUTPUT!r} is taken by the numbers that the function returns. Choose another."
        )
    _check_logs(where, job, logs)
    if unknown := [each for each in resumable if each not in parameters]:
        raise DeclarationError(
            f"{where}: resumable names {unknown[0]!r}, which is no parameter. There are: {', '.join(parameters)}."
        )
    return Component(
        function=function,
        name=name or function.__name__.replace("_", "-"),
        job=job,
        inputs=types.MappingProxyType(inputs),
        outputs=types.MappingProxyType(outputs),
        checkpoints=checkpoints,
        parameters=types.MappingProxyType(parameters),
        metrics=metrics,
        needs=needs,
        resumable=resumable,
        logs=types.MappingProxyType(logs),
        summary=(inspect.getdoc(function) or "").partition("\n")[0],
    )


def _check_folders(
    where: str,
    job: Job,
    inputs: Mapping[str, ComponentFolder],
    outputs: Mapping[str, ComponentFolder],
    checkpoints: ComponentFolder | None,
    metrics: tuple[str, ...] | None,
) -> None:
    """What a processing or a training job of SageMaker can carry (architecture: the step contract)."""
    if CODE_CHANNEL in inputs:
        raise DeclarationError(f"{where}: the input name {CODE_CHANNEL!r} is taken by the channel of the program.")
    if job == "training":
        unknown = sorted(set(outputs) - set(TRAINING_OUTPUTS))
        if unknown:
            raise DeclarationError(
                f"{where}: a training job has no output {unknown[0]!r}. Allowed: {', '.join(TRAINING_OUTPUTS)}. "
                "Write results into the model folder, or use job='processing'."
            )
        if metrics != ():
            raise DeclarationError(
                f"{where}: a training job returns no numbers (it has no property files). Print them and give "
                "`logs`, or evaluate in a processing step."
            )
        return
    if checkpoints is not None:
        raise DeclarationError(f"{where}: a processing job has no checkpoints. Use job='training'.")
    # One input is the code and, when numbers come back, one output is the property file's.
    for kind, count, limit in (
        ("inputs", len(inputs) + 1, 10),
        ("outputs", len(outputs) + (metrics != ()), 10),
    ):
        if count > limit:
            raise DeclarationError(f"{where}: {count} {kind} with the one for code or metrics; at most {limit}.")


def _check_logs(where: str, job: Job, logs: Mapping[str, str]) -> None:
    if logs and job != "training":
        raise DeclarationError(f"{where}: only a training job has `logs`. Return the numbers instead.")
    for metric, pattern in logs.items():
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise DeclarationError(f"{where}: logs[{metric!r}] is no regular expression: {error}.") from None
        if groups != 1:
            raise DeclarationError(
                f"{where}: logs[{metric!r}] has {groups} groups; one is needed, which finds the number: "
                "r'loss=([0-9.]+)'."
            )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        rest = [a for a in typing.get_args(annotation) if a is not type(None)]
        if len(rest) == 1 and len(rest) < len(typing.get_args(annotation)):
            return rest[0], True
    return annotation, False


def _plain_parameter(
    where: str, parameter: inspect.Parameter, annotation: Any, optional: bool, help_text: str
) -> ComponentParameter:
    choices: tuple[Scalar, ...] = ()
    kind: Any = annotation
    if typing.get_origin(annotation) is Literal:
        choices = typing.get_args(annotation)
        kinds = {type(choice) for choice in choices}
        kind = kinds.pop() if len(kinds) == 1 else None
    if kind not in (str, int, float, bool):
        raise DeclarationError(
            f"{where}: parameter {parameter.name!r} has type {annotation!r}. Allowed: Input, Output, Checkpoints, "
            "str, int, float, bool, Literal[...] of one of these, or one of the plain types | None."
        )
    required = parameter.default is inspect.Parameter.empty
    default: Any = None if required else parameter.default
    if kind is float and type(default) is int:
        default = float(default)
    if optional and not required and parameter.default is not None:
        raise DeclarationError(
            f"{where}: parameter {parameter.name!r} may be None but defaults to {parameter.default!r}; a command line "
            "says None by leaving the flag out. Make the default None, or the type plain."
        )
    if not required and not optional:
        if type(default) is not kind:
            either = f"a default of type {kind.__name__}" + (", or a type with `| None`" if default is None else "")
            raise DeclarationError(f"{where}: parameter {parameter.name!r} defaults to {default!r}. Allowed: {either}.")
        if isinstance(default, float) and not math.isfinite(default):
            raise DeclarationError(
                f"{where}: parameter {parameter.name!r} defaults to {default!r}, which JSON does not have. Allowed: a "
                "finite number; for no limit, a type with `| None`."
            )
        if choices and default not in choices:
            raise DeclarationError(
                f"{where}: parameter {parameter.name!r} defaults to {default!r}. Allowed: "
                f"{', '.join(map(repr, choices))}."
            )
    return ComponentParameter(
        name=parameter.name,
        type=kind,
        required=required,
        default=default,
        choices=choices,
        optional=optional,
        help=help_text,
    )


def _returned_metrics(where: str, annotation: Any) -> tuple[str, ...] | None:
    """Names of the returned numbers: () for none, None when the function returns a dict of its own making."""
    if annotation is None or annotation is type(None):
        return ()
    if annotation in (int, float):
        return ("value",)
    allowed = (
        "Allowed: None, a number, dict[str, float], or a TypedDict, NamedTuple or dataclass of numbers (they become "
        "the step's property file)."
    )
    if typing.is_typeddict(annotation) or hasattr(annotation, "_fields") or hasattr(annotation, "__dataclass_fields__"):
        hints = typing.get_type_hints(annotation)
        for name, kind in hints.items():
            if kind not in (int, float):
                raise DeclarationError(f"{where}: returns {name!r} of type {kind!r}. {allowed}")
        # What may be missing cannot be decided on.
        promised: frozenset[str] = getattr(annotation, "__required_keys__", frozenset(hints))
        return tuple(name for name in hints if name in promised)
    if annotation is dict:
        return None
    if typing.get_origin(annotation) is dict:
        keys, values = typing.get_args(annotation)
        if keys is str and set(typing.get_args(values) or [values]) <= {int, float}:
            return None
    raise DeclarationError(f"{where}: returns {annotation!r}. {allowed}")


def _argument_help(doc: str) -> dict[str, str]:
    """`name: text` entries of the docstring's Args section, folded to one line each."""
    section = re.search(r"^\s*Args:\s*\n(.*?)(?:^\s*(?:Returns|Raises|Yields):|\Z)", doc, re.MULTILINE | re.DOTALL)
    if section is None:
        return {}
    found: dict[str, str] = {}
    name, indent = "", None
    for line in section.group(1).splitlines():
        entry = re.match(r"^(\s+)(\w+):\s+(.*)$", line)
        if entry and (indent is None or len(entry.group(1)) <= indent):
            indent, name = len(entry.group(1)), entry.group(2)
            found[name] = entry.group(3).strip()
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found
