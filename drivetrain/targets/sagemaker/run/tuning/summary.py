"""The response of the service's calls for a tuning: DescribeHyperParameterTuningJob and
ListTrainingJobsForHyperParameterTuningJob together, as `Steps.<name>` of a pipeline sees them.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeHyperParameterTuningJob.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.run_store.statuses import Facts
from drivetrain.targets.sagemaker.run.tuning.completion import best, not_improving, ranked
from drivetrain.targets.sagemaker.run.tuning.config import Objective, TuningConfig
from drivetrain.targets.sagemaker.run.tuning.trials import Trial

# A curve of more points says no more in the ledger.
_MOST_VALUES = 200


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
        trial.number: summary(trial, config.definition(trial.definition).objective, name, facts) for trial in trials
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
        "Drivetrain": {"seed": seed, "over": over, "notes": list(config.notes), "trainings": trainings(config, trials)},
    }


def summary(trial: Trial, objective: Objective, tuning: str, facts: Facts) -> dict[str, Any]:
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


def trainings(config: TuningConfig, trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Facts for the report that the describe calls do not give: each training by its number, with its objective epoch
    by epoch and why it was stopped."""
    return [
        {
            "number": trial.number,
            "job": trial.job,
            **({} if trial.reason is None else {"reason": trial.reason}),
            "values": [round_value(value) for value in trial.series[:_MOST_VALUES]],
        }
        for trial in sorted(trials, key=lambda trial: trial.number)
    ]


def round_value(value: float) -> float:
    """Seven digits, which is what a picture can show."""
    return float(f"{value:.7g}")
