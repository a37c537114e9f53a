"""The words an author writes a pipeline with, and how a written one is found and built.

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

import re
from collections.abc import Iterable, Mapping, Sequence
from types import CodeType, ModuleType
from typing import Any, Never, Self

from drivetrain.authoring.binding import (
    bind,
    dependencies,
    listed_steps,
    numbers_of,
    refuse_other_kinds,
    refuse_unknown,
    refuse_unwritten,
    retries,
    take_marks,
    unchanged,
)
from drivetrain.base.call_site import record
from drivetrain.base.errors import SpecError, shown
from drivetrain.rules.rules import check
from drivetrain.spec import pipeline as spec
from drivetrain.spec.resources import (
    MODEL_LIBRARIES,
    CachePolicy,
    Checkpoint,
    Cluster,
    FolderPath,
    Program,
    RetryPolicy,
)
from drivetrain.spec.steps import (
    TRAIN,
    BaseStep,
    ConditionStep,
    Dependency,
    FailStep,
    LambdaStep,
    ProcessingStep,
    Step,
    TrainingStep,
    flatten,
)
from drivetrain.spec.training_options import TrainingOptions
from drivetrain.spec.values import (
    All,
    AnyOf,
    Comparison,
    Condition,
    ExecutionField,
    ExecutionRef,
    In,
    Join,
    Not,
    ValueType,
    as_value,
)
from drivetrain.steps import listed, listed_texts
from drivetrain.steps.declaration import Component


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
    uploaded under its hash; `fixed(...)` around one says that the data never change. `after` adds edges that no
    reference makes.

    Returns:
        A ProcessingStep or TrainingStep, after the component's job.

    Raises:
        SpecError: for an unknown, missing or ill-typed input or parameter.
    """
    if not isinstance(component, Component):  # type: ignore[reportUnnecessaryIsInstance]
        from drivetrain.authoring.import_failures import called_now

        raise SpecError(f"step({shown(component)}): not a component. {called_now(component)}")
    label = name or component.name
    refuse_other_kinds(
        f"step({component.name})",
        cluster=(Cluster, cluster),
        cache=(CachePolicy, cache),
        checkpoint=(Checkpoint, checkpoint),
        options=(TrainingOptions, options),
        environment=(dict, environment),
        tags=(dict, tags),
    )
    never_changing = take_marks(given)
    inputs, parameters = bind(component, label, given)
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
        "depends_on": dependencies(after),
        "program": Program(
            kind="component",
            target=_target(component),
            needs=component.needs,
            libraries=_libraries(component),
        ),
        "inputs": inputs,
        "fixed": never_changing,
        "parameters": parameters,
        "outputs": tuple(component.outputs),
        "cluster": cluster or Cluster(),
        "image": image,
        "environment": {key: as_value(value) for key, value in (environment or {}).items()},
        "tags": dict(tags or {}),
        "cache": cache,
        "retry": retries(label, retry),
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
            checkpoint=checkpoint,
            logs=_logs(component, parameters),
            resumable_parameters=(*component.resumable, *unchanged(component, parameters)),
            options=options or TrainingOptions(),
        )
    if checkpoint is not None:
        raise SpecError(f"Step {label!r} is a processing job, which has no checkpoints. Use a training component.")
    if options is not None:
        raise SpecError(f"Step {label!r} is a processing job: options= are for training jobs. Leave them out.")
    return ProcessingStep(**common, metrics=numbers_of(component), texts=component.texts)


def _logs(component: Component[..., Any], parameters: Mapping[str, Any]) -> dict[str, str]:
    """The metrics of the component, by their patterns; of our training those of its recipe in the place of accuracy,
    where the recipe's file tells them."""
    recipe = parameters.get("recipe")
    if component.target != TRAIN or not isinstance(recipe, str):
        return dict(component.logs)
    from drivetrain.catalog.strategies import importable_recipe, metrics_of_recipe

    path = importable_recipe(recipe)
    if path is None or (own := metrics_of_recipe(path)) is None:
        return dict(component.logs)
    found: dict[str, str] = {}
    for name, pattern in component.logs.items():
        names = [f"validation_{each}" for each in own] if name == "validation_accuracy" else [name]
        found |= {each: pattern.replace(name, re.escape(each)) for each in names}
    return found


def _target(component: Component[..., Any]) -> str:
    if component.target.startswith("script:"):  # by which a program names a script (steps/start.py)
        raise SpecError(f"step({component.name}): its file is called script.py, a name that is taken. Rename the file.")
    if component.function.__module__ != "__main__":
        return component.target
    from drivetrain.authoring.cells import target_of

    return target_of(component)


def _libraries(component: Component[..., Any]) -> tuple[str, ...]:
    """Those of MODEL_LIBRARIES that the function imports, within or above it, without importing anything."""
    pending: list[Any] = [getattr(component.function, "__code__", None)]
    names: set[str] = set()
    while pending:
        if isinstance(code := pending.pop(), CodeType):
            names.update(code.co_names)
            pending += code.co_consts
    known: dict[str, Any] = getattr(component.function, "__globals__", {})
    values = [known[name] for name in names if name in known]
    modules = [
        value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "") for value in values
    ]
    return tuple(sorted(MODEL_LIBRARIES & {str(name).partition(".")[0] for name in (*names, *modules)}))


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
    **unknown: Any,
) -> ProcessingStep:
    """Use a script of one's own, with its own arguments, as a processing step.

        clean = script("clean.py", inputs={"raw": "s3://bucket/raw/"}, outputs=["clean"],
                       arguments=["--from", folder_in("raw"), "--to", folder_out("clean")])

    `path` is relative to the pipeline's file and must lie in its folder.

    Raises:
        SpecError: a path elsewhere; a keyword that it does not take; no list where one is wanted.
    """
    where = f"script({shown(path)})"
    if not isinstance(path, str):  # type: ignore[reportUnnecessaryIsInstance]
        raise SpecError(f"{where}: give the path of a script as a text, such as script('clean.py').")
    refuse_unknown(where, unknown, script)
    refuse_other_kinds(where, cluster=(Cluster, cluster), cache=(CachePolicy, cache))
    refuse_other_kinds(where, environment=(dict, environment), inputs=(dict, inputs))
    outputs = listed_texts(where, "outputs", outputs, '"clean"')
    arguments = listed(where, "arguments", arguments, '"--rows", 3')
    needs = listed_texts(where, "needs", needs, '"numpy"')
    if path.startswith("/") or ".." in path.split("/"):
        raise SpecError(f"{where}: give a path below the folder of the pipeline's file.")
    label = name or path.rpartition("/")[2].partition(".")[0].replace("_", "-")
    read = dict(inputs or {})
    never_changing = take_marks(read)
    return ProcessingStep(
        name=label,
        display_name=display_name,
        description=description,
        depends_on=dependencies(after),
        program=Program(kind="script", target=path, needs=needs),
        inputs={key: as_value(value) for key, value in read.items()},
        fixed=never_changing,
        outputs=outputs,
        arguments=tuple(a if isinstance(a, FolderPath) else as_value(a) for a in arguments),
        cluster=cluster or Cluster(),
        image=image,
        environment={key: as_value(value) for key, value in (environment or {}).items()},
        cache=cache,
        retry=retries(label, retry),
    )


def folder_in(name: str) -> FolderPath:
    """In a script's arguments: where the input `name` is found."""
    return FolderPath(flow="input", name=name)


def folder_out(name: str) -> FolderPath:
    """In a script's arguments: where the output `name` is to be written."""
    return FolderPath(flow="output", name=name)


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
        if not isinstance(given, Comparison | In | Not | AnyOf | All):  # type: ignore[reportUnnecessaryIsInstance]
            raise SpecError(
                f"when({shown(given)}) is not a condition. Compare a reference: reference >= 0.9, "
                "reference.equals('yes'). `==` compares two references while the pipeline is built."
            )
    return ConditionStep(
        name=name,
        display_name=display_name,
        description=description,
        depends_on=dependencies(after),
        condition=conditions[0] if len(conditions) == 1 else All(conditions=conditions),
        then=listed_steps("when", "then", then),
        otherwise=listed_steps("when", "otherwise", otherwise),
    )


def fail(
    message: Any,
    *,
    name: str = "stop",
    display_name: str | None = None,
    description: str | None = None,
    after: Sequence[BaseStep | Dependency] = (),
) -> FailStep:
    """End the execution as failed; `message` may be joined from references."""
    given, edges = as_value(message), dependencies(after)
    return FailStep(name=name, display_name=display_name, description=description, depends_on=edges, message=given)


def call_lambda(
    function: Any,
    *,
    name: str,
    outputs: Mapping[str, ValueType] | None = None,
    after: Sequence[BaseStep | Dependency] = (),
    payload: Any = None,
    **fields: Any,
) -> LambdaStep:
    """Call a Lambda (its ARN) with fields by name or a nested `payload={...}`; `outputs` names what it returns."""
    from drivetrain.authoring.payload import payload_of

    if outputs is not None and not isinstance(outputs, Mapping):  # type: ignore[reportUnnecessaryIsInstance]
        raise SpecError(f'call_lambda(outputs={shown(outputs)}): name what comes back: outputs={{"score": "Float"}}.')
    event = payload_of(payload, fields)
    target, edges = as_value(function), dependencies(after)
    return LambdaStep(name=name, depends_on=edges, function=target, payload=event, outputs=dict(outputs or {}))


def join(*values: Any, on: str = "") -> Join:
    """Text put together from literals and references when the pipeline runs."""
    return Join(on=on, values=tuple(as_value(value) for value in values))


def execution(field: ExecutionField) -> ExecutionRef:
    """A fact about the running execution, such as `PipelineExecutionId`.

    On SageMaker also `TrainingJobName` in a training and `ProcessingJobName` in a processing step: the name of the
    job that the step itself starts.
    """
    return ExecutionRef(field=field)


class Pipeline(spec.Pipeline, defer_build=False):
    """Steps that compose into a DAG; references between them are its edges.

    Built means checked: names, references, cycles, types and limits (drivetrain.rules).

    Raises:
        SpecError: naming the first broken rule and what to do.
    """

    def __init__(self, *positional: Never, **fields: Any) -> None:
        # Not a pydantic validator: those wrap what they raise, and an author should read the one message alone.
        if "steps" in fields:
            fields["steps"] = _with_previous(listed_steps("Pipeline", "steps", fields["steps"]))
        super().__init__(*positional, **fields)
        check(self)
        refuse_unwritten(self)
        record(self)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        copied = super().model_copy(update=update, deep=deep)
        check(copied)
        return copied

    def _repr_html_(self) -> str:
        """Its DAG, for notebooks. What draws it stands above this room, and is found by its name."""
        import importlib

        return str(importlib.import_module("drivetrain.client.pictures").of_pipeline(self))


def _with_previous(steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """With the steps that `continue_from` stands for, which few pipelines have."""
    if not any("continue_from" in getattr(one, "inputs", ()) for one in flatten(steps)):
        return steps
    from drivetrain.authoring.continuing import with_previous

    return with_previous(steps, step)
