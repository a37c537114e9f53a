"""Tuning: many training jobs, with hyperparameters that a strategy chooses, in one step.

The response has the shapes of DescribeHyperParameterTuningJob and ListTrainingJobsForHyperParameterTuningJob.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.run_store.schema import ArtifactEntry
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.expressions import is_expression
from drivetrain.targets.sagemaker.run.execution import StepFailedError
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs.job_data import Publication, entries, member
from drivetrain.targets.sagemaker.run.step_types import training
from drivetrain.targets.sagemaker.run.tuning import completion, strategies, summary, telling
from drivetrain.targets.sagemaker.run.tuning.config import TuningConfig, read_config
from drivetrain.targets.sagemaker.run.tuning.trial_job import job_arguments
from drivetrain.targets.sagemaker.run.tuning.trials import Trial, Trials
from drivetrain.targets.sagemaker.run.tuning.tuner import Tuner, job_name

_LONGEST_NAME = 32
_CONFIG = "HyperParameterTuningJobConfig"


def check(step: StepNode, plan: RunPlan) -> list[str]:
    where = f"step {step.name!r}"
    try:
        searched = [
            (definition.get("HyperParameterRanges"), definition.get("TuningObjective"))
            for definition in _definitions(plan.arguments)
        ]
        if _is_open([plan.arguments.get(_CONFIG), *(part for parts in searched for part in parts)]):
            return []  # it refers to what another step will give, and is read when the step runs
        config = read_config(plan.arguments)
    except UserError as error:
        return [f"{where}: {error}"]
    problems: list[str] = []
    if (missing := strategies.missing(config.strategy)) is not None:
        problems.append(f"{where}: {missing}")
    for definition in config.definitions:
        arguments = job_arguments(definition, {})
        problems += _metric_problems(where, definition.objective.metric, arguments)
        problems += training.check(step, replace(plan, arguments=arguments))
    return list(dict.fromkeys(problems))


def written(arguments: Mapping[str, Any]) -> list[str]:
    """The URIs that the trainings write to, as far as they are known."""
    return [uri for definition in _definitions(arguments) for uri in training.destinations(definition)]


# Of a training, what nothing but a run can say.
ONLY_RUNS_SAY = ("TunedHyperParameters", "FinalHyperParameterTuningJobObjectiveMetric", "ObjectiveStatus")


def described(context: StepContext) -> dict[str, Any]:
    """As of a tuning whose first training was the best."""
    name = tuning_name(context.facts.job_name(context.step.name))
    job = job_name(name, context.facts.id, 1)
    best = {
        "TrainingJobName": job,
        "TrainingJobArn": context.facts.arn(f"training-job/{job}"),
        "TuningJobName": name,
        "TrainingJobStatus": "Completed",
    }
    return {
        "HyperParameterTuningJobName": name,
        "HyperParameterTuningJobArn": context.facts.arn(f"hyper-parameter-tuning-job/{name}"),
        "HyperParameterTuningJobStatus": "Completed",
        "BestTrainingJob": best,
        "TrainingJobSummaries": [best],
    }


def best_model(response: Mapping[str, Any]) -> str | None:
    """The URI of the best training's model; None if the response does not tell it."""
    best = object_in(response, "BestTrainingJob")
    job, named = best.get("TrainingJobName"), best.get("TrainingJobDefinitionName")
    definitions = _definitions(response)
    of_it = [one for one in definitions if len(definitions) == 1 or one.get("DefinitionName") == named]
    if not isinstance(job, str) or not of_it or not training.destinations(of_it[0]):
        return None
    return training.artifacts_uri(of_it[0], job)


def run(context: StepContext) -> StepResult:
    arguments = context.arguments
    config = read_config(arguments)
    name = tuning_name(context.facts.job_name(context.step.name))
    trials = Trials(context.folder.parent, context.store, {"name": name, **arguments})
    tuner = Tuner(context, config, trials, name)
    tuner.run()
    if completion.best(config, tuner.ended) is None:
        trials.worked(tuner.seconds, failed=True)
        raise StepFailedError(completion.failure(tuner.ended))
    return StepResult(
        response=summary.response(
            arguments,
            config,
            tuner.ended,
            name=name,
            facts=context.facts,
            seconds=tuner.seconds,
            over=tuner.over,
            seed=tuner.seed,
        ),
        value=telling.result(config, tuner.ended, context.ledger.masking),
        publication=_published(context, tuner.ended),
        inputs=_inputs(config, tuner.ended),
    )


def tuning_name(job: str) -> str:
    """The name of the tuning job for a step whose job would be named so: at most 32 characters, as the service has it,
    so that the trainings' names, which begin with it, are not too long."""
    import hashlib

    if len(job) <= _LONGEST_NAME:
        return job
    mark = hashlib.sha256(job.encode()).hexdigest()[:8]
    return f"{job[: _LONGEST_NAME - 9].rstrip('-')}-{mark}"


def _published(context: StepContext, ended: list[Trial]) -> Publication:
    """Collect what the trainings have already written to its place, for the ledger."""
    publication = Publication(context.folder)
    for trial in sorted(ended, key=lambda trial: trial.number):
        publication.artifacts += [replace(entry, name=f"{trial.label}/{entry.name}") for entry in trial.artifacts]
        publication.objects += trial.objects
    return publication


def _inputs(config: TuningConfig, ended: list[Trial]) -> tuple[ArtifactEntry, ...]:
    """The inputs of the trainings: the same for all trainings of a definition."""
    found: dict[str, ArtifactEntry] = {}
    for trial in ended:
        for entry in trial.inputs:
            name = f"{trial.definition}/{entry.name}" if len(config.definitions) > 1 else entry.name
            found.setdefault(name, replace(entry, name=name))
    return tuple(found.values())


def _metric_problems(where: str, metric: str, arguments: Mapping[str, Any]) -> list[str]:
    algorithm = object_in(arguments, "AlgorithmSpecification")
    names = [entry.get("Name") for entry in entries(algorithm, "MetricDefinitions")]
    if metric in names:
        return []
    return [
        f"{where}: the objective {metric!r} has no MetricDefinition, so it cannot be read. Given: "
        f"{', '.join(map(str, names))}. Add one with Name {metric!r} and a Regex that finds its value in the log."
    ]


def _definitions(arguments: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    single = member(arguments, "TrainingJobDefinition")
    return [single] if single is not None else entries(arguments, "TrainingJobDefinitions")


def _is_open(value: Any) -> bool:
    """Return True if a value holds an expression that is not resolved."""
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        if is_expression(given):
            return True
        return any(map(_is_open, given.values()))
    return isinstance(value, list) and any(map(_is_open, cast("list[Any]", value)))
