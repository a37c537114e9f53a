"""What `--fresh` is to a compiled pipeline: a parameter, whose value is in every job's environment.

A platform has no switch at a start for its cache, but compares the variables (SageMaker) and input parameters
(Kubeflow) of a step with those of earlier ones. So there is no cached result for a value that no other start has. A
training names its checkpoints by it, too, and finds none of an earlier execution.

The default is a word, for a start with an empty value was refused by SageMaker ('string "" is too short',
https://github.com/aws/sagemaker-python-sdk/issues/4016), and Studio wants every field filled.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.spec.pipeline import Parameter, Pipeline
from drivetrain.spec.steps import ConditionStep, ForEachStep, JobStep, Step, TrainingStep, flatten
from drivetrain.steps import FRESH_PARAMETER, FRESH_VARIABLE, NOT_FRESH, fresh_token

_PARAMETER = Parameter.string(FRESH_PARAMETER, NOT_FRESH)


def is_fresh(parameters: Mapping[str, Any]) -> bool:
    """Whether a run with these values was started with --fresh."""
    return fresh_token({FRESH_VARIABLE: str(parameters.get(FRESH_PARAMETER, ""))}) != ""


def made_fresh(declared: Iterable[str], parameters: Mapping[str, Any], token: str) -> dict[str, Any]:
    """The parameters of a fresh start; a value that is given stays.

    Args:
        declared: the names that the definition knows. One that somebody else made does not have the parameter.
    """
    return {FRESH_PARAMETER: token, **parameters} if FRESH_PARAMETER in declared else dict(parameters)


def deployed_start(parameters: Mapping[str, str], declared: Iterable[str], pipeline: str, token: str) -> dict[str, str]:
    """The parameters of a fresh start of what is deployed.

    Raises:
        UserError: what is deployed has no such parameter.
    """
    found = made_fresh(declared, parameters, token)
    if FRESH_PARAMETER not in found:
        raise UserError(
            f"--fresh: {pipeline!r} as it is deployed has no parameter {FRESH_PARAMETER}. Deploy it again (drivetrain "
            "apply). A pipeline in which no step is cached or trains has none: it starts anew each time."
        )
    return found


def new_token() -> str:
    """A value that no other start has."""
    return secrets.token_hex(6)


def with_fresh(pipeline: Pipeline) -> Pipeline:
    """The pipeline with the parameter, and the variable in each job; as it is where no job is cached or trains."""
    jobs = [step for step in flatten(pipeline.steps) if isinstance(step, JobStep)]
    if not any(isinstance(job, TrainingStep) or (job.cache or pipeline.cache).enabled for job in jobs):
        return pipeline
    changed = {"parameters": (*pipeline.parameters, _PARAMETER), "steps": _told(pipeline.steps)}
    # The spec's own: the rules hold for what the author wrote.
    return Pipeline.model_copy(pipeline, update=changed)


def _told(steps: Iterable[Step]) -> tuple[Step, ...]:
    return tuple(map(_told_step, steps))


def _told_step(step: Step) -> Step:
    if isinstance(step, ConditionStep):
        return step.model_copy(update={"then": _told(step.then), "otherwise": _told(step.otherwise)})
    if isinstance(step, ForEachStep):
        return step.model_copy(update={"body": _told(step.body)})
    if not isinstance(step, JobStep):
        return step
    return step.model_copy(update={"environment": {**step.environment, FRESH_VARIABLE: _PARAMETER.ref()}})
