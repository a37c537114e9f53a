"""Training: a program of the user's."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = ("TrainingJobName", "TrainingJobStatus", "ModelArtifacts.S3ModelArtifacts", "SecondaryStatusTransitions")


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    return [runs.training("it", "open('/opt/ml/model/weights', 'w').write('w')")]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    [step] = steps(runs)
    del step["Arguments"]["AlgorithmSpecification"]["ContainerEntrypoint"]
    return [step]
