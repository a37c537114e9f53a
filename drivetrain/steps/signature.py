"""The reading of a component's signature, and all that it may not say (declaration.py says what it may).

Every step does this when its file is imported, so it reads the code object itself: `inspect` takes several times as
long to import as all of this takes to run.
"""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from drivetrain.steps import (
    CHECKPOINTS,
    CODE_CHANNEL,
    METRICS_OUTPUT,
    RETURNED,
    TRAINING_OUTPUTS,
    ComponentFolder,
    ComponentParameter,
    Declaration,
    DeclarationError,
    Folder,
    Job,
    Scalar,
    Since,
    argument_help,
    listed_texts,
)

# Bits of a code object's flags (the table of the `inspect` module's documentation).
_HAS_ARGS, _HAS_KEYWORDS = 0x04, 0x08
_NOT_RUN_BY_A_CALL = 0x20 | 0x80 | 0x200  # a generator, a coroutine, both
_MOST_FOLDERS = 10
_NO_NAME = "{where}: *{name} cannot be declared. Give every parameter a name."
_NOT_BY_NAME = "{where}: {name!r} cannot be given by name; take out the `/`."


class _Parameter(NamedTuple):
    """One parameter of a function; `default` counts where it is not required."""

    name: str
    required: bool
    default: Any


def declare(
    function: Callable[..., Any],
    *,
    job: Job,
    needs: Sequence[str],
    logs: Mapping[str, str],
    resumable: Sequence[str],
    cached: bool,
    name: str | None,
    settings: type | None = None,
) -> Declaration[..., Any]:
    if not isinstance(function, types.FunctionType):
        raise DeclarationError(f"{function!r} cannot be a component: @component goes on a function (def).")
    where = f"{function.__module__}.{function.__qualname__}"
    needs = listed_texts(where, "needs", needs, '"numpy"')
    resumable = listed_texts(where, "resumable", resumable, '"epochs"')
    _check_decoration(where, function, job, logs, name, settings)
    hints = _hints(where, function)
    shared: Mapping[str, ComponentParameter] = parameters_of(settings) if settings else {}
    described = {name: each.help for name, each in shared.items()} | argument_help(function.__doc__ or "")
    inputs: dict[str, ComponentFolder] = {}
    outputs: dict[str, ComponentFolder] = {}
    checkpoints: ComponentFolder | None = None
    own: dict[str, ComponentParameter] = {}

    for parameter in _parameters(where, function, takes_settings=settings is not None):
        is_word = parameter.name.isascii() and not parameter.name.startswith("_")
        if not is_word or parameter.name == "help":
            raise DeclarationError(
                f"{where}: {parameter.name!r} cannot be a flag of the command line. Allowed: ASCII letters, digits and "
                "underscores, a letter first, and not help."
            )
        if parameter.name not in hints:
            raise DeclarationError(
                f"{where}: parameter {parameter.name!r} has no type. Allowed: Input, Output, Checkpoints, str, int, "
                "float, bool, Literal[...], or one of the plain types | None; Value for any Python value."
            )
        annotation = _unwrapped(hints[parameter.name])
        help_text = described.get(parameter.name, "")
        folder = next((m for m in annotation.metadata if isinstance(m, Folder)), None)
        if folder is None:
            own[parameter.name] = _plain_parameter(where, parameter, annotation, help_text)
            continue
        if not parameter.required and not (annotation.optional and parameter.default is None):
            raise DeclarationError(
                f"{where}: folder {parameter.name!r} defaults to {parameter.default!r}; the platform gives folders. "
                "Allowed: no default, or a type with `| None` and the default None."
            )
        declared = ComponentFolder(parameter.name, annotation.optional, help_text, folder.value, folder.shared)
        if folder.flow == "input":
            inputs[parameter.name] = declared
        elif folder.flow == "output":
            outputs[parameter.name] = declared
        elif checkpoints is None:
            checkpoints = declared
        else:
            raise DeclarationError(
                f"{where}: {checkpoints.name!r} and {parameter.name!r} are both Checkpoints; only one may be."
            )

    parameters = {**shared, **own}
    metrics, texts = (), ()
    if any(isinstance(each, Folder) and each.value for each in _unwrapped(hints.get("return")).metadata):
        if job == "training" or RETURNED in hints:
            what = "a training job returns no Value" if job == "training" else f"the name {RETURNED!r} is taken"
            raise DeclarationError(f"{where}: {what}. Write into an Output instead, or rename the parameter.")
        outputs[RETURNED] = ComponentFolder(RETURNED, help="gets the value that the function returns", value=True)
    else:
        metrics, texts = _returned(where, hints.get("return"))
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
    return Declaration(
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
        logs=types.MappingProxyType(dict(logs)),
        summary=(function.__doc__ or "").strip().partition("\n")[0].rstrip(),
        texts=texts,
        cached=cached,
    )


def _check_decoration(
    where: str, function: types.FunctionType, job: Job, logs: Any, name: Any, settings: type | None
) -> None:
    if not isinstance(logs, Mapping):
        raise DeclarationError(
            f"{where}: logs is {logs!r:.80}. Give {{'loss': r'loss=([-+0-9.e]+)'}}: name and pattern."
        )
    if name is not None and not isinstance(name, str):
        raise DeclarationError(f"{where}: name is {name!r:.80}. Give a text, such as name='prepare-data'.")
    if settings is not None and not hasattr(settings, "__dataclass_fields__"):
        raise DeclarationError(f"{where}: settings is {settings!r:.80}. Give a dataclass; its fields are parameters.")
    if function.__code__.co_flags & _NOT_RUN_BY_A_CALL:
        raise DeclarationError(f"{where} cannot be a component: it is async or a generator, which nothing would run.")
    if job not in typing.get_args(Job):
        raise DeclarationError(f"{where}: job is {job!r}. Allowed: {', '.join(typing.get_args(Job))}.")
    if not function.__qualname__.isidentifier():
        raise DeclarationError(
            f"{where} cannot be a component: it is a lambda or defined inside a function or class, where no container "
            "can find it. Give it a name at the top level of its file."
        )


def _hints(where: str, function: types.FunctionType) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise DeclarationError(
            f"{where}: the type {error.name!r} is not there when the file is imported. Import it at the top of the "
            "file, outside of `if TYPE_CHECKING`."
        ) from None


@cache
def parameters_of(settings: type) -> Mapping[str, ComponentParameter]:
    """The fields of a dataclass as parameters, in their order.

    Their help is what the class's docstring says of them below `Attributes:`.
    """
    from dataclasses import MISSING, fields

    hints = typing.get_type_hints(settings, include_extras=True)
    described = argument_help(settings.__doc__ or "")
    where = f"{settings.__module__}.{settings.__qualname__}"
    found: dict[str, ComponentParameter] = {}
    for field in fields(settings):
        required = field.default is MISSING
        parameter = _Parameter(field.name, required, None if required else field.default)
        help_text = described.get(field.name, "")
        found[field.name] = _plain_parameter(where, parameter, _unwrapped(hints[field.name]), help_text)
    return types.MappingProxyType(found)


def values_before(settings: type) -> dict[str, Scalar]:
    """The fields that came later, with the values with which a program does what it did before (see Since)."""
    return {name: declared.since.before for name, declared in parameters_of(settings).items() if declared.since}


def _parameters(where: str, function: types.FunctionType, *, takes_settings: bool) -> list[_Parameter]:
    """The parameters in their order, defaults and all."""
    code = function.__code__
    if takes_settings:
        if not code.co_flags & _HAS_KEYWORDS or code.co_flags & _HAS_ARGS or hasattr(function, "__wrapped__"):
            raise DeclarationError(f"{where}: settings= come by name. Give the function **settings, and no *args.")
    elif hasattr(function, "__wrapped__") or hasattr(function, "__signature__"):
        return _parameters_of_wrapper(where, function)
    if code.co_flags & (_HAS_ARGS | _HAS_KEYWORDS) and not takes_settings:
        name = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        raise DeclarationError(_NO_NAME.format(where=where, name=name))
    if code.co_posonlyargcount:
        raise DeclarationError(_NOT_BY_NAME.format(where=where, name=code.co_varnames[0]))
    by_position = code.co_varnames[: code.co_argcount]
    by_name = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    given = function.__defaults__ or ()
    defaults: dict[str, Any] = {
        **dict(zip(by_position[len(by_position) - len(given) :], given, strict=True)),
        **(function.__kwdefaults__ or {}),
    }
    return [_Parameter(name, name not in defaults, defaults.get(name)) for name in (*by_position, *by_name)]


def _parameters_of_wrapper(where: str, function: types.FunctionType) -> list[_Parameter]:
    """The parameters of a function that another decorator made, which shows the signature of the one inside."""
    import inspect

    found: list[_Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DeclarationError(_NO_NAME.format(where=where, name=parameter.name))
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DeclarationError(_NOT_BY_NAME.format(where=where, name=parameter.name))
        required = parameter.default is parameter.empty
        found.append(_Parameter(parameter.name, required, None if required else parameter.default))
    return found


def _check_folders(
    where: str,
    job: Job,
    inputs: Mapping[str, ComponentFolder],
    outputs: Mapping[str, ComponentFolder],
    checkpoints: ComponentFolder | None,
    metrics: tuple[str, ...] | None,
) -> None:
    """Check that a processing or a training job of SageMaker can carry the folders."""
    if CODE_CHANNEL in inputs:
        raise DeclarationError(f"{where}: the input name {CODE_CHANNEL!r} is taken by the channel of the program.")
    if job == "training":
        unknown = sorted(set(outputs) - set(TRAINING_OUTPUTS))
        if unknown:
            raise DeclarationError(
                f"{where}: a training job has no output {unknown[0]!r}. Allowed: {', '.join(TRAINING_OUTPUTS)}. "
                "Write results into the model folder, or use job='processing'."
            )
        if checkpoints is not None and checkpoints.name != CHECKPOINTS:
            raise DeclarationError(
                f"{where}: the checkpoints folder is called {checkpoints.name!r}. The platform gives one, "
                f"under the name {CHECKPOINTS!r}: write {CHECKPOINTS}: Checkpoints."
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
    for kind, count in (("inputs", len(inputs) + 1), ("outputs", len(outputs) + (metrics != ()))):
        if count > _MOST_FOLDERS:
            raise DeclarationError(
                f"{where}: {count} {kind}, counting the one for code or metrics; at most {_MOST_FOLDERS}."
            )


def _check_logs(where: str, job: Job, logs: Mapping[str, str]) -> None:
    if logs and job != "training":
        raise DeclarationError(f"{where}: only a training job has `logs`. Return the numbers instead.")
    for metric, pattern in logs.items():
        try:
            groups = re.compile(pattern).groups
        except TypeError:
            raise DeclarationError(
                f"{where}: logs[{metric!r}] is {pattern!r:.80}. Give a regular expression."
            ) from None
        except re.error as error:
            raise DeclarationError(f"{where}: logs[{metric!r}] is no regular expression: {error}.") from None
        if groups != 1:
            raise DeclarationError(
                f"{where}: logs[{metric!r}] has {groups} groups; one is needed, which finds the number: "
                "r'loss=([-+0-9.e]+)'."
            )


class _Annotation(NamedTuple):
    """A type without `Annotated` and `| None`, and what those said."""

    kind: Any
    metadata: tuple[Any, ...]
    optional: bool


def _unwrapped(annotation: Any, metadata: tuple[Any, ...] = (), *, optional: bool = False) -> _Annotation:
    if hasattr(annotation, "__metadata__"):
        return _unwrapped(annotation.__origin__, (*metadata, *annotation.__metadata__), optional=optional)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        rest = [a for a in typing.get_args(annotation) if a is not type(None)]
        if len(rest) == 1 and len(rest) < len(typing.get_args(annotation)):
            return _unwrapped(rest[0], metadata, optional=True)
    return _Annotation(annotation, metadata, optional)


def _plain_parameter(where: str, parameter: _Parameter, annotation: _Annotation, help_text: str) -> ComponentParameter:
    choices: tuple[Scalar, ...] = ()
    kind, optional = annotation.kind, annotation.optional
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        kinds = {type(choice) for choice in choices}
        kind = kinds.pop() if len(kinds) == 1 else None
    if kind not in (str, int, float, bool):
        raise DeclarationError(
            f"{where}: parameter {parameter.name!r} has type {annotation.kind!r}. Allowed: Input, Output, Checkpoints, "
            "str, int, float, bool, Literal[...] of one of these, or one of the plain types | None; Value for any "
            "other Python value."
        )
    required, default = parameter.required, parameter.default
    if kind is float and type(default) is int:
        default = float(default)
    if optional and not required and default is not None:
        raise DeclarationError(
            f"{where}: parameter {parameter.name!r} may be None but defaults to {default!r}; a command line "
            "says None by leaving the flag out. Make the default None, or the type plain."
        )
    refused = f"{where}: parameter {parameter.name!r} defaults to {default!r}"
    if not required and not optional:
        if type(default) is not kind:
            either = f"a default of type {kind.__name__}" + (", or a type with `| None`" if default is None else "")
            raise DeclarationError(f"{refused}. Allowed: {either}.")
        if isinstance(default, float) and not math.isfinite(default):
            allowed = "a finite number; for no limit, a type with `| None`"
            raise DeclarationError(f"{refused}, which JSON does not have. Allowed: {allowed}.")
        if choices and default not in choices:
            raise DeclarationError(f"{refused}. Allowed: {', '.join(map(repr, choices))}.")
    bounds = None
    if annotation.metadata:
        from drivetrain.base.bounds import Bounds

        bounds = next((each for each in annotation.metadata if isinstance(each, Bounds)), None)
    if bounds and (choices or kind not in (int, float)):
        raise DeclarationError(f"{where}: parameter {parameter.name!r} has Bounds, which are for int and float.")
    if bounds and isinstance(default, int | float) and not bounds.hold(default):
        raise DeclarationError(f"{refused}. Allowed: {bounds.described(kind)}.")
    return ComponentParameter(
        name=parameter.name,
        type=kind,
        required=required,
        default=default,
        choices=choices,
        optional=optional,
        help=help_text,
        bounds=bounds,
        since=next((each for each in annotation.metadata if isinstance(each, Since)), None),
    )


def _returned(where: str, annotation: Any) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Names of what is returned: () for nothing, None when the function returns a dict of its own making; and those of
    the texts among them."""
    if annotation is None or annotation is type(None):
        return (), ()
    if annotation in (int, float):
        return ("value",), ()
    allowed = (
        "Allowed: None, a number, dict[str, float], or a TypedDict, NamedTuple or dataclass of numbers and texts (they "
        "become the step's property file); Value for any other Python value."
    )
    if typing.is_typeddict(annotation) or hasattr(annotation, "_fields") or hasattr(annotation, "__dataclass_fields__"):
        hints = typing.get_type_hints(annotation)
        for name, kind in hints.items():
            if kind not in (int, float, str):
                raise DeclarationError(f"{where}: returns {name!r} of type {kind!r}. {allowed}")
        # What may be missing cannot be decided on. (Annotations that are texts hide NotRequired from TypedDict itself.)
        marked = typing.get_type_hints(annotation, include_extras=True)
        missing = {name for name, kind in marked.items() if typing.get_origin(kind) is typing.NotRequired}
        promised: frozenset[str] = getattr(annotation, "__required_keys__", frozenset(hints))
        names = tuple(name for name in hints if name in promised - missing)
        return names, tuple(name for name in names if hints[name] is str)
    if annotation is dict:
        return None, ()
    if typing.get_origin(annotation) is dict:
        keys, values = typing.get_args(annotation)
        if keys is str and set(typing.get_args(values) or [values]) <= {int, float}:
            return None, ()
    raise DeclarationError(f"{where}: returns {annotation!r}. {allowed}")
