"""The Arguments of a Tuning step: the input of CreateHyperParameterTuningJob.

The service lets no training of a tuning name an entry point, so the stock image's toolkit starts our start file: in
script mode, from the code channel. The toolkit gives it the hyperparameters as arguments; what its own command line
would say stands in the environment.
"""

from __future__ import annotations

import json
from typing import Any

from drivetrain.spec.steps import TuningStep
from drivetrain.spec.training_options import OneOf, Search
from drivetrain.steps import FRESH_VARIABLE
from drivetrain.targets.sagemaker.compile import Constant, Generated, spell, text
from drivetrain.targets.sagemaker.compile.jobs import TRAINING_CODE, Site, training_arguments

Json = dict[str, Any]
START_VARIABLE = "DRIVETRAIN_START"
# The service's key has no variables of a tuning. The toolkit keeps what begins so from the program's arguments.
FRESH_HYPERPARAMETER = "sagemaker_drivetrain_fresh"


def tuning_arguments(step: TuningStep, site: Site) -> Json:
    """CreateHyperParameterTuningJob's input, without the name that the service gives."""
    search = step.search
    job = training_arguments(step, site)
    tags = {"Tags": job.pop("Tags")} if "Tags" in job else {}
    # Where the service would keep each training's checkpoints is not documented; they stay on the machine.
    job.pop("CheckpointConfig", None)
    algorithm = job["AlgorithmSpecification"]
    del algorithm["ContainerEntrypoint"]
    words = algorithm.pop("ContainerArguments")
    static = {
        **job.pop("HyperParameters"),
        "sagemaker_program": Constant("start.py"),
        "sagemaker_submit_directory": Constant(TRAINING_CODE),
        FRESH_HYPERPARAMETER: job["Environment"][FRESH_VARIABLE],
    }
    job["Environment"] = {**job.get("Environment", {}), START_VARIABLE: Generated(json.dumps(words))}
    if step.cluster.alternatives:
        job["HyperParameterTuningResourceConfig"] = _flexible(job.pop("ResourceConfig"))
    limits: Json = {"MaxParallelTrainingJobs": spell(search.max_parallel, site.graph)}
    if search.max_trainings is not None:
        limits["MaxNumberOfTrainingJobs"] = spell(search.max_trainings, site.graph)
    if search.max_seconds is not None:
        limits["MaxRuntimeInSeconds"] = search.max_seconds
    config: Json = {
        "Strategy": search.strategy,
        "HyperParameterTuningJobObjective": {
            "Type": "Maximize" if search.maximize else "Minimize",
            "MetricName": search.objective,
        },
        "ResourceLimits": limits,
        "ParameterRanges": _ranges(search, site),
        "TrainingJobEarlyStoppingType": "Auto" if search.early_stopping else "Off",
    }
    if search.epochs is not None:
        least, most = search.epochs
        config["StrategyConfig"] = {"HyperbandStrategyConfig": {"MinResource": least, "MaxResource": most}}
    if criteria := _criteria(search):
        config["TuningJobCompletionCriteria"] = criteria
    if search.seed is not None:
        config["RandomSeed"] = search.seed
    return {
        "HyperParameterTuningJobConfig": config,
        "TrainingJobDefinition": {"StaticHyperParameters": static, **job},
        **tags,
    }


def _flexible(resources: Json) -> Json:
    """A training job's choice among machines in the form that a tuning's trainings have of it.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_HyperParameterTuningResourceConfig.html
    """
    volume = resources.pop("VolumeSizeInGB")
    count = resources.pop("InstanceCount", None)
    preferred = resources.pop("InstancePreferences")
    configs = [{"InstanceCount": count, **one, "VolumeSizeInGB": volume} for one in preferred]
    return {"InstanceConfigs": configs, "AllocationStrategy": "Prioritized", **resources}


def _criteria(search: Search) -> Json:
    found: Json = {}
    if search.target is not None:
        found["TargetObjectiveMetricValue"] = search.target
    if search.patience is not None:
        found["BestObjectiveNotImproving"] = {"MaxNumberOfTrainingJobsNotImproving": search.patience}
    return found


def _ranges(search: Search, site: Site) -> Json:
    found: Json = {}
    for name, one in search.ranges.items():
        if isinstance(one, OneOf):
            values = [str(text(value, site.graph)) for value in one.values]
            found.setdefault("CategoricalParameterRanges", []).append({"Name": name, "Values": values})
        else:
            kind = "IntegerParameterRanges" if one.whole else "ContinuousParameterRanges"
            bounds = {"MinValue": repr(one.low), "MaxValue": repr(one.high), "ScalingType": one.scale}
            found.setdefault(kind, []).append({"Name": name, **bounds})
    return found
