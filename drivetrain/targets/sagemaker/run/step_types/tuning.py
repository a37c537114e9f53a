"""Tuning: many training jobs, with hyperparameters that a strategy chooses, in one step.

The response has the shapes of DescribeHyperParameterTuningJob and ListTrainingJobsForHyperParameterTuningJob.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.run_store.schema import ArtifactEntry
from drivetrain.run_store.statuses import Facts
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.expressions import is_expression
from drivetrain.targets.sagemaker.run.execution import StepFailedError
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs.job_data import Publication, entries, member
from drivetrain.targets.sagemaker.run.step_types import training
from drivetrain.targets.sagemaker.run.tuning import completion, strategies, telling
from drivetrain.targets.sagemaker.run.tuning.completion import best, not_improving, ranked
from drivetrain.targets.sagemaker.run.tuning.config import Objective, TuningConfig, read_config
from drivetrain.targets.sagemaker.run.tuning.trial_job import job_arguments
from drivetrain.targets.sagemaker.run.tuning.trials import Trial, Trials
from drivetrain.targets.sagemaker.run.tuning.tuner import Tuner, job_name

_LONGEST_NAME = 32
_CONFIG = "HyperParameterTuningJobConfig"
# A curve of more points, or of more than seven digits, says no more in the ledger.
_MOST_VALUES = 200


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
        response=response(
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


def response(
    arguments: Mapping[str, Any],
    config: TuningConfig,
    trials: Sequence[Trial],
    *,
    name: str,
    facts: Facts,
    seconds: float,
    over: str | None,
    seed: int,
) -> dict[str, Any]:
    """The tuning that is Completed. `trials` are in the order of their ends; TrainingJobSummaries has the best first,
    so that `TrainingJobSummaries[0]` is the best training, as the SDK's get_top_model_s3_uri wants it."""
    summaries = {
        trial.number: _summary(trial, config.definition(trial.definition).objective, name, facts) for trial in trials
    }
    found, first = ranked(config, trials), best(config, trials)
    in_order = found if first is None else [first, *(trial for trial in found if trial is not first)]
    others = sorted((trial for trial in trials if trial.objective is None), key=lambda trial: trial.number)
    ended = max((trial.ended or 0.0 for trial in trials), default=0.0)
    counted = {status: sum(trial.status == status for trial in trials) for status in ("Completed", "Stopped", "Failed")}
    given = ("HyperParameterTuningJobConfig", "TrainingJobDefinition", "TrainingJobDefinitions")
    return {
        **{key: arguments[key] for key in given if key in arguments},
        "HyperParameterTuningJobName": name,
        "HyperParameterTuningJobArn": facts.arn(f"hyper-parameter-tuning-job/{name}"),
        "HyperParameterTuningJobStatus": "Completed",
        "CreationTime": min((trial.created for trial in trials), default=0.0),
        "HyperParameterTuningEndTime": ended,
        "LastModifiedTime": ended,
        "TrainingJobStatusCounters": {
            "Completed": counted["Completed"],
            "InProgress": 0,
            "RetryableError": 0,
            "NonRetryableError": counted["Failed"],
            "Stopped": counted["Stopped"],
        },
        "ObjectiveStatusCounters": {"Succeeded": len(in_order), "Pending": 0, "Failed": len(others)},
        "TrainingJobSummaries": [summaries[trial.number] for trial in (*in_order, *others)],
        **({} if first is None else {"BestTrainingJob": summaries[first.number]}),
        "TuningJobCompletionDetails": {
            "NumberOfTrainingJobsObjectiveNotImproving": not_improving(config.objective, trials)
        },
        "ConsumedResources": {"RuntimeInSeconds": round(seconds)},
        "Drivetrain": {
            "seed": seed,
            "over": over,
            "notes": list(config.notes),
            "trainings": _trainings(config, trials),
        },
    }


def _summary(trial: Trial, objective: Objective, tuning: str, facts: Facts) -> dict[str, Any]:
    """HyperParameterTrainingJobSummary of one training."""
    optional: dict[str, Any] = {
        "TrainingJobDefinitionName": trial.definition,
        "TrainingStartTime": trial.started,
        "TrainingEndTime": trial.ended,
        "FailureReason": trial.reason if trial.status == "Failed" else None,
        "FinalHyperParameterTuningJobObjectiveMetric": None
        if trial.objective is None
        else {"Type": objective.type, "MetricName": objective.metric, "Value": trial.objective},
    }
    return {
        "TrainingJobName": trial.job,
        "TrainingJobArn": facts.arn(f"training-job/{trial.job}"),
        "TuningJobName": tuning,
        "CreationTime": trial.created,
        "TrainingJobStatus": trial.status,
        "TunedHyperParameters": trial.parameters,
        "ObjectiveStatus": "Failed" if trial.objective is None else "Succeeded",
        **{key: value for key, value in optional.items() if value is not None},
    }


def _trainings(config: TuningConfig, trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Facts for the report that the describe calls do not give: each training by its number, with its objective epoch
    by epoch and why it was stopped."""
    return [
        {
            "number": trial.number,
            "job": trial.job,
            **({} if trial.reason is None else {"reason": trial.reason}),
            "values": [float(f"{value:.7g}") for value in trial.series[:_MOST_VALUES]],
        }
        for trial in sorted(trials, key=lambda trial: trial.number)
    ]
