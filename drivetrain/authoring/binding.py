"""Check what an author gives a step against what the step takes."""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, TypeGuard, cast, get_args

from drivetrain.base.call_site import functions_in
from drivetrain.base.errors import SpecError, at_place, did_you_mean, shown
from drivetrain.base.records import dataclass
from drivetrain.spec.pipeline import Graph, Parameter, Pipeline
from drivetrain.spec.resources import Cluster, RetryCause, RetryPolicy
from drivetrain.spec.steps import BaseStep, Dependency
from drivetrain.spec.values import TYPE_OF_SCALAR, BestRef, OutputRef, Pending, Reference, Value, as_value, value_type
from drivetrain.steps import METRICS_OUTPUT, RETURNED, ComponentParameter
from drivetrain.steps.declaration import Component

# By the target of their component, of those that steps were made of: a step itself is plain data.
_DECLARED: dict[str, Mapping[str, ComponentParameter]] = {}
# The same of outputs that a component's function never uses.
_UNUSED: dict[str, set[str]] = {}
# The parameter of our own components that takes the name of a file, too.
_RULES = "rules"
# How functions are called that may never come back.
_NEVER_BACK = ("abort", "exit", "fail", "forever", "kill", "pause", "quit", "sleep")


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


def take_marks(given: dict[str, Any]) -> tuple[str, ...]:
    """Take the marks of `fixed` off the inputs and parameters of a step; gives the names of those that had one."""
    marked = {name: value.value for name, value in given.items() if isinstance(value, Fixed)}
    given |= marked
    return tuple(marked)


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
            from drivetrain.authoring.import_failures import called_now

            said = called_now(one, "Give what step(...) returns.")
            raise SpecError(f"{where} holds {shown(one)}, which is no step. {said}")
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
    _UNUSED[component.target] = _unused_outputs(component)
    allowed = {**component.inputs, **component.parameters}
    _refuse_unknown(f"Step {label!r}", given, allowed)
    inputs: dict[str, Value] = {}
    for key, folder in component.inputs.items():
        value: Any = given.get(key)
        if value is None:
            if not folder.optional:
                raise SpecError(
                    f"Step {label!r} needs the input folder {key!r}. Give {key}=step['output'], a path or an S3 URI."
                )
            continue
        if isinstance(value, BaseStep):
            ours = component.target.startswith("drivetrain.")
            inputs[key] = output_of(value, key, f"Input {key!r} of step {label!r}", or_numbers=ours)
        else:
            if folder.value and not (isinstance(value, str | Pending) or _is_path(value)):
                raise SpecError(
                    f"Step {label!r}: {key} is {shown(value)}, a value that is there now. It takes what another step "
                    f"returns when the pipeline runs: {key}=step(...), not a call of its function."
                )
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
        if given[key] is None:
            default = "" if declared.required else f" Leave it out for {declared.default!r}."
            raise SpecError(f"Step {label!r}: {key} is None. Allowed: {declared.described()}.{default}")
        if key == _RULES and component.target.startswith("drivetrain."):
            from drivetrain.authoring.row_rules import rules_text

            given = {**given, key: rules_text(given[key], f"Step {label!r}")}
        if isinstance(given[key], dict | list | tuple) and declared.type is str:
            raise SpecError(
                f"Step {label!r}: {key} is {shown(given[key])}; it takes a text with JSON. Write {key}=json.dumps(...)."
            )
        value = as_value(given[key])
        parameters[key] = float(value) if declared.type is float and type(value) is int else value
        _refuse_ill_typed(label, declared, parameters[key])
        if isinstance(parameter := given[key], Parameter):
            for value in parameter.values:
                refuse_beyond(f"Step {label!r} (with {parameter.name}={value!r})", declared, value)
    return inputs, parameters


def output_of(step: BaseStep, name: str, where: str, *, or_numbers: bool = False) -> OutputRef:
    """The output that a whole step stands for: the one of this name, else its only one; `or_numbers` of one without.

    Raises:
        SpecError: it has none, or several of other names; `where` says what is given the step.
    """
    names = step.output_names()
    folders = [each for each in names if each != METRICS_OUTPUT] or (list(names) if or_numbers else [])
    if name in folders:
        return step[name]
    if len(folders) == 1:
        return step[folders[0]]
    raise SpecError(
        f"{where} is the whole step {step.name!r}. Name one of its outputs: "
        f"{name}={step.name.replace('-', '_')}['...']. {did_you_mean(name, step.output_names())}"
    )


def _is_path(value: object) -> TypeGuard[os.PathLike[str]]:
    return hasattr(type(value), "__fspath__")


def _refuse_ill_typed(label: str, declared: ComponentParameter, value: Value) -> None:
    wanted, got = TYPE_OF_SCALAR[declared.type], value_type(value)
    if got != wanted and isinstance(value, BestRef):
        got = value.spells  # a program is handed texts, whatever the types of its parameters
    if got != wanted and (wanted, got) != ("Float", "Integer"):
        given = value.described() if isinstance(value, Reference) else repr(value)
        raise SpecError(f"Step {label!r}: {declared.name} is {wanted}, but {given} is {got}.")
    if not isinstance(value, Reference):
        refuse_beyond(f"Step {label!r}", declared, value)


def refuse_unwritten(pipeline: Pipeline) -> None:
    """
    Raises:
        SpecError: a step reads an output that its component never uses.
    """
    if not any(_UNUSED.values()):
        return
    graph = Graph(pipeline)
    for reader, references in graph.references.items():
        for each in (reference for reference in references if isinstance(reference, OutputRef)):
            step = graph.producer(each)
            if step is not None and each.output in _UNUSED.get(step.program.target, ()):
                function = step.program.target.partition(":")[2]
                raise at_place(
                    SpecError(
                        f"{function}() never uses its Output {each.output!r}, which step {reader!r} reads. Write files "
                        f"into that folder: ({each.output} / 'NAME').write_text(...)."
                    ),
                    step.place,
                )


def numbers_of(component: Component[..., Any]) -> tuple[str, ...] | None:
    """The names of the numbers that a component returns, where its declaration or the text of its function says them.

    Raises:
        SpecError: the function never returns what it declares, or returns something else.
    """
    node = _function(component)
    if node is None or (component.metrics == () and RETURNED not in component.outputs):
        return component.metrics
    place = f"{component.file.name}, line {node.lineno}"
    returned = [each.value for each in _within(node) if isinstance(each, ast.Return)]
    values = [value for value in returned if not (value is None or ast.unparse(value) == "None")]
    promised = ast.unparse(node.returns) if node.returns else ""
    if not values and _ends(node.body) and "None" not in promised:
        raise at_place(
            SpecError(f"{node.name}() promises {promised} and never returns it. End it with: return ..."), place
        )
    if component.metrics is not None or not values:
        return component.metrics
    names: dict[str, None] = {}
    for value in values:
        if not isinstance(value, ast.Dict):
            return None
        for key, number in zip(value.keys, value.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            if _is_no_number(number):
                raise at_place(
                    SpecError(
                        f"{node.name}() returns {ast.unparse(number)} as {key.value!r}. Allowed in {promised}: finite "
                        "numbers. Leave the name out if there is no number; a text needs a TypedDict with a str field."
                    ),
                    f"{component.file.name}, line {number.lineno}",
                )
            names[key.value] = None
    return tuple(names) or None


def _unused_outputs(component: Component[..., Any]) -> set[str]:
    node = _function(component)
    statements = node.body if node else []
    body = [each for each in statements if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    if node is None or not body or (len(body) == 1 and isinstance(body[0], ast.Return | ast.Raise)):
        return set()  # it is still to be written
    named = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return set() if named & {"eval", "exec", "locals", "vars"} else set(component.outputs) - {RETURNED} - named


def _function(component: Component[..., Any]) -> ast.FunctionDef | None:
    """The syntax tree of a user's function; None where its source is not available."""
    code = getattr(component.function, "__code__", None)
    if code is None or component.target.startswith("drivetrain."):
        return None
    linecache.checkcache(code.co_filename)
    return functions_in("".join(linecache.getlines(code.co_filename))).get((code.co_name, code.co_firstlineno))


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node, but for the functions that are defined in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _within(child)


def _ends(body: list[ast.stmt]) -> bool:
    """True where statements surely come to their end; False for a body that is still to be written."""
    match body[-1]:
        case ast.Raise() | ast.Pass() | ast.While() | ast.Expr(value=ast.Constant()):
            return False
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return not name.endswith(_NEVER_BACK)
        case ast.With(body=inner) | ast.Try(body=inner):
            return _ends(inner)
        case _:
            return True


def _is_no_number(node: ast.expr) -> bool:
    """True of an expression that is surely no finite number."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, bool) or not isinstance(value, int | float)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return text.strip(" +-").lower() in ("nan", "inf", "infinity")
        case ast.Attribute(attr="nan" | "inf", value=ast.Name(id="math" | "np" | "numpy")) | ast.JoinedStr():
            return True
        case _:
            return False


def declared_parameter(target: str, name: str) -> ComponentParameter | None:
    """A component's declaration of a parameter, if this process has made a step of it."""
    return _DECLARED.get(target, {}).get(name)


def refuse_beyond(where: str, declared: ComponentParameter, value: Any) -> None:
    """
    Raises:
        SpecError: a value of the right type is not one of the choices, or is out of bounds.
    """
    if declared.allows(value):
        return
    if declared.choices:
        raise SpecError(
            f"{where}: {declared.name} is {value!r}. {did_you_mean(str(value), map(str, declared.choices))}"
        )
    raise SpecError(f"{where}: {declared.name} is {value!r}. Allowed: {declared.described()}.")


def unchanged(component: Component[..., Any], parameters: Mapping[str, Any]) -> list[str]:
    """The parameters that came later and say what their absence did: they move no checkpoints."""
    return [
        name
        for name, declared in component.parameters.items()
        if declared.since and parameters.get(name) == declared.since.before
    ]
