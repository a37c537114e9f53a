"""Words for going on: what `continue_from` of a training step stands for.

    step(train, train=..., continue_from="previous")           the approved version of the group that it registers in
    step(train, train=..., continue_from="digits:7")           version 7 of the group digits
    step(train, train=..., continue_from="run:0a1b2c3d4e5f")   the version that a run registered; its ARN is enough, too
    step(train, train=..., continue_from="s3://bucket/model")  any model: that of a run, of another pipeline

The training `train` is given the output of a step `train-continues` (fetch_previous), which a step `train-previous`
(find_previous) tells the version and the hash of its content. Both are steps like any other from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from drivetrain.base.errors import SpecError
from drivetrain.registry.model_package import CONTINUES, LINEAGE
from drivetrain.spec.pipeline import replaced
from drivetrain.spec.resources import REGISTER_MODEL
from drivetrain.spec.steps import (
    TRAIN,
    TRAIN_SCRIPT,
    ProcessingStep,
    RegisterStep,
    Step,
    TrainingStep,
    flatten,
)
from drivetrain.spec.values import OutputRef, Value
from drivetrain.steps.call import find

INPUT = "continue_from"
FIND = "drivetrain.components.find_previous:find_previous"
FETCH = "drivetrain.components.fetch_previous:fetch_previous"
_RUN = r"run:[\w.:/-]{1,2048}"
_ARN = r"arn:[\w-]+:sagemaker:[\w.:/-]+/execution/[\w-]+"
_GROUP = r"(?:([A-Za-z0-9](?:-*[A-Za-z0-9]){0,62}):)?"
_NAMED = re.compile(rf"({_RUN}|{_ARN})|{_GROUP}({_RUN}|previous|[1-9][0-9]{{0,8}})")
# Words that look like a version but are not valid.
_MEANT = re.compile(r"(?:[\w-]+:)?(?:v?\d+|latest|approved|newest|champion|prev\w*)", re.IGNORECASE)


def with_previous(steps: tuple[Any, ...], make: Callable[..., Any]) -> tuple[Any, ...]:
    """The steps of a pipeline, with those that its trainings' `continue_from` stands for.

    Args:
        make: the word `step`.

    Raises:
        SpecError: the group of a version is not given.
    """
    every = flatten(steps)
    trainings = [step for step in every if isinstance(step, TrainingStep) and INPUT in step.inputs]
    trainings = [step for step in trainings if step.program.target in (TRAIN, TRAIN_SCRIPT)]
    if not trainings:
        return steps
    registered = list(_registered(every))
    fetching = {step.name: tuple(_with_fetching(step, registered, make)) for step in trainings}

    def change(step: Step) -> Iterable[Step]:
        """The steps in the place of a training; what registers its model says what it continues."""
        if not isinstance(step, RegisterStep) or not isinstance(step.model, OutputRef):
            return fetching.get(step.name, (step,))
        *_, fetched, _ = (None, None, *fetching.get(step.model.step, ()))
        known = {} if fetched is None else {f"{LINEAGE}{CONTINUES}": fetched.text("content_hash")}
        return (step.model_copy(update={"metadata": type(step.metadata)({**known, **step.metadata})}),)

    return replaced(steps, change)


def _with_fetching(
    step: TrainingStep, registered: list[tuple[Any, Value, Value]], make: Callable[..., Any]
) -> Iterator[Step]:
    given: Any = step.inputs[INPUT]
    others = {name: value for name, value in step.inputs.items() if name != INPUT}
    if given == "":
        yield step.model_copy(update={"inputs": type(step.inputs)(others)})
        return
    if isinstance(given, OutputRef) and given.output == "previous":  # the author has written the steps
        yield step
        return
    named = _NAMED.fullmatch(str(given)) if isinstance(given, str | int) else None
    if named is None and isinstance(given, str | int) and _MEANT.fullmatch(str(given)):
        raise SpecError(
            f"Step {step.name!r}: {INPUT}={given!r} names no version. Allowed: 'previous' (the approved version), a "
            "version's number, 'run:ID' (what a run registered), 'GROUP:previous', 'GROUP:7', 'GROUP:run:ID', or any "
            "model by its path, URI or step output."
        )
    fetching: dict[str, Any] = {"model": given, "of_this_run": isinstance(given, OutputRef)}
    if named is not None:
        run, group, which = named.groups()
        which = which or (run if run.startswith("run:") else f"run:{run}")
        group, registry = (group, "auto") if group else _group_of(step, registered)
        found = make(find(FIND), name=f"{step.name}-previous", group=group, which=which, registry=registry)
        yield found
        fetching = {name: found.text(name) for name in ("version", "content_hash")}
        fetching |= {"group": group, "registry": registry}
    fetched = make(find(FETCH), name=f"{step.name}-continues", **fetching)
    yield fetched
    yield step.model_copy(update={"inputs": type(step.inputs)({**others, INPUT: fetched["previous"]})})


def _registered(steps: list[Step]) -> Iterator[tuple[Any, Value, Value]]:
    """The model, the group and the registry of each step that registers."""
    for step in steps:
        if isinstance(step, RegisterStep):
            yield step.model, step.group, "auto"
        elif isinstance(step, ProcessingStep) and step.program.target == REGISTER_MODEL:
            yield step.inputs.get("model"), step.parameters["group"], step.parameters.get("registry", "auto")


def _group_of(step: TrainingStep, registered: list[tuple[Any, Value, Value]]) -> tuple[Value, Value]:
    """The group and the registry in which a training's model is registered, else those of the whole pipeline."""
    own = [place for model, *place in registered if isinstance(model, OutputRef) and model.step == step.name]
    places = own or [place for _, *place in registered]
    if not places or any(place != places[0] for place in places):
        given = step.inputs[INPUT]
        found = "registers no model" if not places else "registers models in several groups"
        raise SpecError(
            f"Step {step.name!r}: {INPUT}={given!r} names no group, and this pipeline {found}. Name it: "
            f'{INPUT}="GROUP:{given}".'
        )
    group, registry = places[0]
    return group, registry
