"""The words an author writes a pipeline with.

    data = step(prepare_data, raw=settings.dataset, key="id")
    model = step(train, train=data["train"], cluster=Cluster(processes=2))
    scores = step(evaluate, model=model["model"], data=data["test"])
    compared = step(compare, evaluation=scores["report"], model=model["model"], data=data["test"], group="digits")
    new_version = register(model=model["model"], evaluation=scores, decision=compared, group="digits")
    gate = when(compared.metric("register").equals(1), then=[new_version])
    return Pipeline(name="retraining", steps=[data, model, scores, compared, gate])

Each builds a value of the spec; nothing runs, and what does not fit is refused where it is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from drivetrain.components import model_package
from drivetrain.components.declaration import Component, ComponentParameter
from drivetrain.pipelines.errors import SpecError, did_you_mean
from drivetrain.pipelines.spec.conditions import All, Condition
from drivetrain.pipelines.spec.model_card import check_card
from drivetrain.pipelines.spec.resources import CachePolicy, Checkpoint, Cluster, RetryPolicy
from drivetrain.pipelines.spec.steps import (
    BaseStep,
    ConditionStep,
    Dependency,
    FailStep,
    FolderPath,
    ForEachStep,
    LambdaStep,
    ProcessingStep,
    Program,
    RegisterStep,
    Selector,
    Step,
    TrainingStep,
)
from drivetrain.pipelines.spec.training_options import TrainingOptions
from drivetrain.pipelines.spec.values import (
    ExecutionField,
    ExecutionRef,
    ItemRef,
    Join,
    LambdaOutputRef,
    Pending,
    PropertyRef,
    Reference,
    Value,
    ValueType,
    as_value,
    value_type,
)

_TYPE_NAMES: dict[type, ValueType] = {str: "String", int: "Integer", float: "Float", bool: "Boolean"}


def step(
    component: Component[..., Any],
    /,
    *,
    name: str | None = None,
    cluster: Cluster | None = None,
    image: str | None = None,
    environment: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    cache: CachePolicy | None = None,
    retry: Sequence[RetryPolicy] = (),
    checkpoint: Checkpoint | None = None,
    options: TrainingOptions | None = None,
    display_name: str | None = None,
    description: str | None = None,
    after: Sequence[BaseStep | Dependency] = (),
    **given: Any,
) -> Any:
    """Use a component as a step: its inputs and parameters are given by name.

    An input takes another step's output (`data["train"]`), an S3 URI, or a path on this machine, whose content is
    uploaded under its hash. `after` adds edges that no reference makes.

    Returns:
        A ProcessingStep or TrainingStep, after the component's job.

    Raises:
        SpecError: for an unknown, missing or ill-typed input or parameter.
    """
    if not isinstance(component, Component):  # type: ignore[reportUnnecessaryIsInstance]
        raise SpecError(f"step({component!r}): not a component. Decorate the function with @component.")
    label = name or component.name
    inputs, parameters = _bind(component, label, given)
    if not component.cached:
        if cache is not None and cache.enabled:
            raise SpecError(
                f"Step {label!r} is given cache=, but {component.name} looks at more than its inputs, so an earlier "
                "result must not stand in for it. Leave cache= out."
            )
        cache = CachePolicy(enabled=False)
    common: dict[str, Any] = {
        "name": label,
        "display_name": display_name,
        "description": description or component.summary or None,
        "depends_on": _dependencies(after),
        "program": Program(kind="component", target=component.target, needs=component.needs),
        "inputs": inputs,
        "parameters": parameters,
        "cluster": cluster or Cluster(),
        "image": image,
        "environment": {key: as_value(value) for key, value in (environment or {}).items()},
        "tags": dict(tags or {}),
        "cache": cache,
        "retry": tuple(retry),
    }
    if component.job == "training":
        if component.checkpoints is not None and checkpoint is None:
            checkpoint = Checkpoint()
        if component.checkpoints is None and checkpoint is not None:
            raise SpecError(
                f"Step {label!r} is given checkpoint=, but its component keeps none. Give the function a parameter "
                "`checkpoints: Checkpoints`, or leave checkpoint= out."
            )
        return TrainingStep(
            **common,
            outputs=tuple(component.outputs),
            checkpoint=checkpoint,
            logs=dict(component.logs),
            resumable_parameters=component.resumable,
            options=options or TrainingOptions(),
        )
    if checkpoint is not None:
        raise SpecError(f"Step {label!r} is a processing job, which has no checkpoints. Use a training component.")
    if options is not None:
        raise SpecError(f"Step {label!r} is a processing job: options= are for training jobs. Leave them out.")
    return ProcessingStep(**common, outputs=tuple(component.outputs), metrics=component.metrics, texts=component.texts)


def script(
    path: str,
    /,
    *,
    name: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    outputs: Sequence[str] = (),
    arguments: Sequence[Any] = (),
    needs: Sequence[str] = (),
    cluster: Cluster | None = None,
    image: str | None = None,
    environment: Mapping[str, Any] | None = None,
    cache: CachePolicy | None = None,
    retry: Sequence[RetryPolicy] = (),
    display_name: str | None = None,
    description: str | None = None,
    after: Sequence[BaseStep | Dependency] = (),
) -> ProcessingStep:
    """Use a script of one's own, with its own arguments, as a processing step.

        clean = script("clean.py", inputs={"raw": "s3://bucket/raw/"}, outputs=["clean"],
                       arguments=["--from", folder_in("raw"), "--to", folder_out("clean")])

    `path` is relative to the pipeline's file and must lie in its folder.
    """
    if path.startswith("/") or ".." in path.split("/"):
        raise SpecError(f"script({path!r}): give a path below the folder of the pipeline's file.")
    label = name or path.rpartition("/")[2].partition(".")[0].replace("_", "-")
    return ProcessingStep(
        name=label,
        display_name=display_name,
        description=description,
        depends_on=_dependencies(after),
        program=Program(kind="script", target=path, needs=tuple(needs)),
        inputs={key: as_value(value) for key, value in (inputs or {}).items()},
        outputs=tuple(outputs),
        arguments=tuple(a if isinstance(a, FolderPath) else as_value(a) for a in arguments),
        cluster=cluster or Cluster(),
        image=image,
        environment={key: as_value(value) for key, value in (environment or {}).items()},
        cache=cache,
        retry=tuple(retry),
    )


def folder_in(name: str) -> FolderPath:
    """In a script's arguments: where the input `name` is found."""
    return FolderPath(flow="input", name=name)


def folder_out(name: str) -> FolderPath:
    """In a script's arguments: where the output `name` is to be written."""
    return FolderPath(flow="output", name=name)


def register(
    *,
    model: Any,
    group: Any,
    metrics: ProcessingStep | Any | None = None,
    evaluation: ProcessingStep | Any | None = None,
    decision: ProcessingStep | Any | None = None,
    approval: Any = "PendingManualApproval",
    name: str = "register-model",
    image: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    intended_use: str = "",
    card: Mapping[str, Any] | None = None,
    display_name: str | None = None,
    description: str | None = None,
    after: Sequence[BaseStep | Dependency] = (),
) -> RegisterStep:
    """A new version of the model group.

    Args:
        metrics: the step whose numbers are kept with the version.
        evaluation: the evaluate step (or its report folder), whose report is kept with the version.
        decision: the compare step (or its decision folder). Of the step, the verdict and the hashes are kept too: of
            the content, by which a repeated execution finds the version, of data, settings and code.
        intended_use: what the model is for; it stands on the model card.
        card: more sections of the model card, in the service's schema: {"business_details": {"business_problem": ...}}.
        metadata: names and texts of your own, of at most 256 characters.

    Raises:
        SpecError: a step without the output that is needed; a section or field that a model card does not have.
    """
    if isinstance(metrics, BaseStep):
        metrics = metrics["metrics"]
    if isinstance(evaluation, BaseStep):
        evaluation = evaluation["report"]
    known: dict[str, Any] = {}
    if isinstance(decision, BaseStep):
        known = _decided(decision)
        decision = decision["decision"]
    return RegisterStep(
        name=name,
        display_name=display_name,
        description=description,
        depends_on=_dependencies(after),
        group=as_value(group),
        model=as_value(model),
        metrics=None if metrics is None else as_value(metrics),
        evaluation=None if evaluation is None else as_value(evaluation),
        decision=None if decision is None else as_value(decision),
        approval=as_value(approval),
        image=image,
        metadata={key: as_value(value) for key, value in {**known, **(metadata or {})}.items()},
        card=_card(intended_use, card),
    )


def _decided(step: BaseStep) -> dict[str, Any]:
    """What compare's numbers and texts say of a version, under the names by which registries find it."""
    texts = step.texts if isinstance(step, ProcessingStep) else ()
    if not isinstance(step, ProcessingStep) or "content_hash" not in texts:
        raise SpecError(
            f"decision={step.name!r} is no step that compares: it returns no content_hash. Give step(compare, ...), or "
            "the folder of a decision."
        )
    kept = {
        model_package.CONTENT_HASH: "content_hash",
        f"{model_package.LINEAGE}data": "data_hash",
        f"{model_package.LINEAGE}test-data": "test_data_hash",
        f"{model_package.LINEAGE}config": "config_hash",
        f"{model_package.LINEAGE}code": "code_hash",
        f"{model_package.DECISION}verdict": "verdict",
    }
    return {name: step.text(text) for name, text in kept.items() if text in texts}


def _card(intended_use: str, card: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if card is not None:
        check_card(card)
    if not intended_use:
        return None if card is None else dict(card)
    uses = {"intended_uses": intended_use, **(card or {}).get("intended_uses", {})}
    return {**(card or {}), "intended_uses": uses}


def when(
    *conditions: Condition,
    then: Iterable[Step] = (),
    otherwise: Iterable[Step] = (),
    name: str = "decide",
    display_name: str | None = None,
    description: str | None = None,
    after: Sequence[BaseStep | Dependency] = (),
) -> ConditionStep:
    """Run `then` when every condition holds, else `otherwise`."""
    if not conditions:
        raise SpecError(f"when(..., name={name!r}) has no condition. Give one, such as step.metric('accuracy') >= 0.9.")
    for given in conditions:
        if isinstance(given, Pending | bool):
            raise SpecError(
                f"when({given!r}) is not a condition. Compare it: reference >= 0.9, reference.equals('yes')."
            )
    return ConditionStep(
        name=name,
        display_name=display_name,
        description=description,
        depends_on=_dependencies(after),
        condition=conditions[0] if len(conditions) == 1 else All(conditions=conditions),
        then=tuple(then),
        otherwise=tuple(otherwise),
    )


def fail(message: Any, *, name: str = "stop", description: str | None = None) -> FailStep:
    """End the execution as failed; `message` may be joined from references."""
    return FailStep(name=name, description=description, message=as_value(message))


def for_each(
    items: Sequence[Any] | Reference | Any,
    body: Sequence[Step],
    *,
    name: str,
    max_concurrency: int = 10,
    key: str = "",
    best: Selector | None = None,
    display_name: str | None = None,
    description: str | None = None,
    after: Sequence[BaseStep | Dependency] = (),
) -> ForEachStep:
    """Run the steps of `body` once an item.

        rate = current_item("Float")
        model = step(train, train=data["train"], learning_rate=rate)
        sweep = for_each([0.1, 0.3], [model], name="sweep", best=largest(model.logged("validation_accuracy")))
        register(model=sweep.best["model"], group="digits")

    Args:
        items: texts, numbers, objects (dicts of them) or references, 1 to 100; or a reference to a list's JSON text.
        max_concurrency: steps at a time, 1 to 50.
        key: where items are objects, the field whose value names an iteration's folder of outputs and checkpoints.
        best: `largest(...)` or `smallest(...)` of a value of a step of the body.

    Raises:
        SpecError: items that a pipeline cannot carry.
    """
    given: Any = items
    if hasattr(given, "ref") or isinstance(given, Reference):
        listed: Any = as_value(given)
    elif isinstance(given, str) or not isinstance(given, Sequence):
        raise SpecError(
            f"for_each({given!r:.60}, name={name!r}): give a list of items, or a reference to the text of one."
        )
    else:
        for one in cast("Sequence[Any]", given):
            if isinstance(one, float) and not math.isfinite(one):
                raise SpecError(f"for_each(..., name={name!r}): item {one!r} is no number that JSON has. Leave it out.")
        # An object goes along as its JSON text, and its fields are taken from that.
        listed = tuple(
            as_value(json.dumps(one, ensure_ascii=False) if isinstance(one, Mapping) else one)
            for one in cast("Sequence[Any]", given)
        )
    return ForEachStep(
        name=name,
        display_name=display_name,
        description=description,
        depends_on=_dependencies(after),
        items=listed,
        body=tuple(body),
        max_concurrency=max_concurrency,
        key=key,
        selector=best,
    )


def current_item(type: ValueType = "String", field: str = "") -> ItemRef:
    """In the steps of a for_each: the item of the iteration, or a field of it (`size`, `optimizer.lr`)."""
    return ItemRef(path=field, type=type)


def largest(value: Reference) -> Selector:
    """For for_each(best=...): the iteration in which the value (a training's logged metric, a property, a Lambda's
    value) is the largest."""
    return _selector("MaxBy", value)


def smallest(value: Reference) -> Selector:
    """As `largest`, for the smallest."""
    return _selector("MinBy", value)


def _selector(pick: Literal["MaxBy", "MinBy"], value: Reference) -> Selector:
    if isinstance(value, LambdaOutputRef):
        return Selector(pick=pick, step=value.step, path=f"OutputParameters['{value.name}']")
    if isinstance(value, PropertyRef):
        return Selector(pick=pick, step=value.step, path=value.path)
    raise SpecError(
        f"{value.described()} cannot be compared between iterations: the service looks into its description of a job, "
        "not into files. Give a metric that a training logs (step.logged('...')), a property, or a Lambda's value."
    )


def call_lambda(
    function: Any,
    *,
    name: str,
    outputs: Mapping[str, ValueType] | None = None,
    after: Sequence[BaseStep | Dependency] = (),
    **payload: Any,
) -> LambdaStep:
    """Call a Lambda function (its ARN) with a payload; `outputs` names what it returns and the types."""
    return LambdaStep(
        name=name,
        depends_on=_dependencies(after),
        function=as_value(function),
        payload={key: as_value(value) for key, value in payload.items()},
        outputs=dict(outputs or {}),
    )


def join(*values: Any, on: str = "") -> Join:
    """Text put together from literals and references when the pipeline runs."""
    return Join(on=on, values=tuple(as_value(value) for value in values))


def execution(field: ExecutionField) -> ExecutionRef:
    """A fact about the running execution, such as `PipelineExecutionId`."""
    return ExecutionRef(field=field)


def _dependencies(after: Sequence[BaseStep | Dependency]) -> tuple[Dependency, ...]:
    given: list[Any] = [after] if isinstance(after, BaseStep | Dependency | str) else list(after)
    for item in given:
        if not isinstance(item, BaseStep | Dependency):
            raise SpecError(f"after={item!r:.80}: no step. Give the steps themselves: after=[cleaned].")
    return tuple(item if isinstance(item, Dependency) else Dependency(step=item.name) for item in given)


def _bind(
    component: Component[..., Any], label: str, given: Mapping[str, Any]
) -> tuple[dict[str, Value], dict[str, Value]]:
    """The given keywords as inputs and parameters, checked against the declaration."""
    allowed = {**component.inputs, **component.parameters}
    for key in given:
        if key not in allowed:
            raise SpecError(f"Step {label!r} does not take {key!r}. {did_you_mean(key, allowed)}")
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
            raise SpecError(
                f"Input {key!r} of step {label!r} is the whole step {value.name!r}. Name one of its outputs: "
                f"{key}={value.name.replace('-', '_')}['...']. {did_you_mean(key, value.output_names())}"
            )
        inputs[key] = as_value(str(value) if hasattr(value, "__fspath__") else value)
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
        parameters[key] = _checked(label, declared, as_value(given[key]))
    return inputs, parameters


def _checked(label: str, declared: ComponentParameter, value: Value) -> Value:
    wanted, got = _TYPE_NAMES[declared.type], value_type(value)
    if wanted == "Float" and got == "Integer":
        return float(value) if isinstance(value, int) else value
    if got != wanted:
        raise SpecError(f"Step {label!r}: {declared.name} is {wanted}, but {_shown(value)} is {got}.")
    if declared.choices and not isinstance(value, Reference) and value not in declared.choices:
        raise SpecError(
            f"Step {label!r}: {declared.name} is {value!r}. {did_you_mean(str(value), map(str, declared.choices))}"
        )
    return value


def _shown(value: Value) -> str:
    return value.described() if isinstance(value, Reference) else repr(value)
