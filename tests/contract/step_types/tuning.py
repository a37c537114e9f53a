"""Tuning: a search by training."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = (
    "HyperParameterTuningJobName",
    "HyperParameterTuningJobStatus",
    "BestTrainingJob.TrainingJobName",
    "TrainingJobSummaries[0].TrainingJobName",
)
PROGRAM = """
import json
given = json.load(open("/opt/ml/input/config/hyperparameters.json"))
print("accuracy=" + given["share"], flush=True)
open("/opt/ml/model/weights", "w").write("w")
"""


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    job = runs.training("it", PROGRAM, metrics={"accuracy": "accuracy=([0-9.]+)"})["Arguments"]
    del job["HyperParameters"]
    share = {"Name": "share", "Values": ["0.25", "0.75"]}
    config = {
        "Strategy": "Grid",
        "ResourceLimits": {"MaxParallelTrainingJobs": 1},
        "HyperParameterTuningJobObjective": {"Type": "Maximize", "MetricName": "accuracy"},
        "ParameterRanges": {"CategoricalParameterRanges": [share]},
    }
    return [
        {
            "Name": "it",
            "Type": "Tuning",
            "Arguments": {"HyperParameterTuningJobConfig": config, "TrainingJobDefinition": job},
        }
    ]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    [step] = steps(runs)
    step["Arguments"]["HyperParameterTuningJobConfig"]["Strategy"] = "Luck"
    return [step]
