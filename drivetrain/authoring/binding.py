"""What an author gives a step, held against what the step takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, cast, get_args

from drivetrain.base.errors import SpecError, did_you_mean, shown
from drivetrain.base.records import dataclass
from drivetrain.spec.pipeline import Parameter
from drivetrain.spec.resources import Cluster, RetryCause, RetryPolicy
from drivetrain.spec.steps import BaseStep, Dependency
from drivetrain.spec.values import BestRef, OutputRef, Pending, Reference, Value, ValueType, as_value, value_type
from drivetrain.steps import METRICS_OUTPUT, ComponentParameter
from drivetrain.steps.declaration import Component

# By the target of their component, of those that steps were made of: a step itself is plain data.
_DECLARED: dict[str, Mapping[str, ComponentParameter]] = {}
_TYPE_NAMES: dict[type, ValueType] = {str: "String", int: "Integer", float: "Float", bool: "Boolean"}


@dataclass(frozen=True)
class Fixed:
    """An input whose data never change, as `fixed` marks it."""

    value: Any


def fixed(value: Any) -> Any:
    """An input whose data never change: `step(prepare_data, raw=fixed("customers.csv"), key="id")`.

    Nothing looks at it when a schedule or an event starts the pipeline, and a file or folder of this machine is taken
    for a pipeline that is deployed with a schedule.

    Args:
        value: a path, an s3:// URI; of read_source, what it takes as `source`.
    """
    return Fixed(value)


def without_fixed(given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The inputs and parameters of a step without their marks, and the names of those that `fixed` marked."""
    plain = {name: value.value if isinstance(value, Fixed) else value for name, value in given.items()}
    return plain, tuple(name for name, value in given.items() if isinstance(value, Fixed))


def retries(label: str, given: Sequence[RetryPolicy]) -> tuple[RetryPolicy, ...]:
    """The policies of `retry`; one alone is a list of one.

    Raises:
        SpecError: something that is no policy.
    """
    whole: Any = given
    policies: tuple[Any, ...] = tuple(cast("list[Any]", whole)) if isinstance(whole, list | tuple) else (whole,)
    for policy in policies:
        if not isinstance(policy, RetryPolicy | Mapping):  # a mapping is read as a policy, with its own refusals
            raise SpecError(
                f"Step {label!r}: retry holds {shown(policy)}, which is no RetryPolicy. Give a list, such as "
                f"retry=[RetryPolicy(causes=[{get_args(RetryCause)[0]!r}], max_attempts=3)]; causes are "
                f"{', '.join(get_args(RetryCause))}."
            )
    return policies


def dependencies(after: Sequence[BaseStep | Dependency]) -> tuple[Dependency, ...]:
    """The edges that `after` adds.

    Raises:
        SpecError: something that is no step.
    """
    whole: Any = after
    given: list[Any] = [whole] if isinstance(whole, BaseStep | Dependency | str) or not _is_many(whole) else [*whole]
    for item in given:
        if not isinstance(item, BaseStep | Dependency):
            raise SpecError(f"after={shown(item)}: no step. Give the steps themselves: after=[cleaned].")
    return tuple(item if isinstance(item, Dependency) else Dependency(step=item.name) for item in given)


def listed_steps(word: str, name: str, given: Any) -> tuple[Any, ...]:
    """The steps that one of the authoring words is given as `name`.

    Raises:
        SpecError: something that is easily written in place of a list of steps.
    """
    where = f"{word}({name}=...)"
    if isinstance(given, BaseStep):
        raise SpecError(f"{where} is the step {given.name!r}. Give a list: {name}=[...].")
    if isinstance(given, str | Mapping) or not _is_many(given):
        raise SpecError(f"{where} is {shown(given)}. Give a list of steps: {name}=[...].")
    steps: tuple[Any, ...] = tuple(given)
    for one in steps:
        if callable(one):
            called = getattr(one, "__name__", None) or getattr(one, "name", None) or type(one).__name__
            raise SpecError(f"{where} holds {called}, which is no step yet. Write step({called}).")
        if isinstance(one, Pending):
            raise SpecError(
                f"{where} holds {one.described()}, which is a value of a step. Give the step itself: "
                f"made = step(...), then {name}=[made], and made['output'] where another step reads it."
            )
        if not isinstance(one, BaseStep | dict):
            raise SpecError(f"{where} holds {shown(one)}, which is no step. Give what step(...) returns.")
    return steps


def _is_many(given: object) -> bool:
    return hasattr(type(given), "__iter__") and not isinstance(given, Pending)


def refuse_other_kinds(where: str, **given: tuple[type, Any]) -> None:
    """
    Args:
        given: what an author gave under a name, with the kind that it must be; a dict is read as that, with its own
            refusals, and None is nothing.

    Raises:
        SpecError: one of them is of another kind.
    """
    for name, (kind, value) in given.items():
        if value is not None and not isinstance(value, kind) and not isinstance(value, Mapping):
            example = '{"KEY": "value"}' if kind is dict else f"{kind.__name__}(...)"
            raise SpecError(f"{where}: {name} is {shown(value)}. Write {name}={example}.")


def refuse_unknown(where: str, given: Mapping[str, Any], word: Callable[..., Any]) -> None:
    """Refuse keywords that one of the authoring words does not take.

    Raises:
        SpecError: there are some.
    """
    parameters = signature(word).parameters.values()
    _refuse_unknown(where, given, [one.name for one in parameters if one.kind is one.KEYWORD_ONLY])


def _refuse_unknown(where: str, given: Iterable[str], allowed: Collection[str]) -> None:
    for key in given:
        if key in Cluster.model_fields and key not in allowed:
            raise SpecError(
                f"{where} does not take {key!r}. Machines are chosen by cluster=: cluster=Cluster({key}=...)."
            )
        if key not in allowed:
            known, machines = did_you_mean(key, allowed), did_you_mean(key, Cluster.model_fields)
            if not known.startswith("Did") and machines.startswith("Did"):
                known = f"{machines.partition('?')[0]} of cluster=Cluster(...)? {known}"
            raise SpecError(f"{where} does not take {key!r}. {known}")


def bind(
    component: Component[..., Any], label: str, given: Mapping[str, Any]
) -> tuple[dict[str, Value], dict[str, Value]]:
    """The given keywords as inputs and parameters, checked against the declaration.

    Raises:
        SpecError: an unknown, missing or ill-typed one.
    """
    _DECLARED[component.target] = component.parameters
    allowed = {**component.inputs, **component.parameters}
    _refuse_unknown(f"Step {label!r}", given, allowed)
    inputs: dict[str, Value] = {}
    for key, folder in component.inputs.items():
        value = given.get(key)
        if value is None:
            if not folder.optional:
                raise SpecError(
                    f"Step {label!r} needs the input folder {key!r}. Give {key}=step['output'], a path or an S3 URI."
                )
            continue
        if isinstance(value, BaseStep):
            inputs[key] = output_of(value, key, f"Input {key!r} of step {label!r}")
        else:
            inputs[key] = as_value(os.fspath(value) if _is_path(value) else value)
    parameters: dict[str, Value] = {}
    for key, declared in component.parameters.items():
        if key not in given:
            if declared.required:
                raise SpecError(
                    f"Step {label!r} needs {key!r} ({declared.type.__name__}): {declared.help or 'give it'}."
                )
            if declared.default is not None:
                parameters[key] = declared.default
            continue
        if given[key] is None and declared.optional:
            continue
        if isinstance(given[key], dict | list | tuple) and declared.type is str:
            raise SpecError(
                f"Step {label!r}: {key} is {shown(given[key])}; it takes a text with JSON. Write {key}=json.dumps(...)."
            )
        parameters[key] = _checked(label, declared, as_value(given[key]))
        if isinstance(parameter := given[key], Parameter):
            for value in dict.fromkeys((parameter.default, *parameter.choices)):
                if value is not None:
                    refuse_beyond(f"Step {label!r} (with {parameter.name}={value!r})", declared, value)
    return inputs, parameters


def output_of(step: BaseStep, name: str, where: str) -> OutputRef:
    """The output that a whole step stands for: the one of this name, else its only one.

    Raises:
        SpecError: it has none, or several of other names; `where` says what is given the step.
    """
    folders = [each for each in step.output_names() if each != METRICS_OUTPUT]
    if name in folders:
        return step[name]
    if len(folders) == 1:
        return step[folders[0]]
    raise SpecError(
        f"{where} is the whole step {step.name!r}. Name one of its outputs: "
        f"{name}={step.name.replace('-', '_')}['...']. {did_you_mean(name, step.output_names())}"
    )


def _is_path(value: object) -> bool:
    return hasattr(type(value), "__fspath__")


def _checked(label: str, declared: ComponentParameter, value: Value) -> Value:
    wanted, got = _TYPE_NAMES[declared.type], value_type(value)
    if got != wanted and isinstance(value, BestRef):
        got = value.spells  # a program is handed texts, whatever the types of its parameters
    if wanted == "Float" and got == "Integer":
        value = float(value) if isinstance(value, int) else value
    elif got != wanted:
        raise SpecError(f"Step {label!r}: {declared.name} is {wanted}, but {_shown(value)} is {got}.")
    if not isinstance(value, Reference):
        refuse_beyond(f"Step {label!r}", declared, value)
    return value


def declared_parameter(target: str, name: str) -> ComponentParameter | None:
    """What a component says of a parameter, where this process has made a step of it."""
    return _DECLARED.get(target, {}).get(name)


def refuse_beyond(where: str, declared: ComponentParameter, value: Any) -> None:
    """
    Raises:
        SpecError: a value of the right type that is none of the choices, or beyond the bounds.
    """
    if declared.allows(value):
        return
    if declared.choices:
        raise SpecError(
            f"{where}: {declared.name} is {value!r}. {did_you_mean(str(value), map(str, declared.choices))}"
        )
    raise SpecError(f"{where}: {declared.name} is {value!r}. Allowed: {declared.described()}.")


def _shown(value: Value) -> str:
    return value.described() if isinstance(value, Reference) else repr(value)
