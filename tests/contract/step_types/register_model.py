"""RegisterModel: a version in this machine's registry."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import BUCKET, LocalRuns

SAYS = ("ModelPackageArn", "ModelPackageVersion", "ModelApprovalStatus")


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    container = {"Image": "i", "ModelDataUrl": runs.put("model/weights", "w")}
    arguments = {"ModelPackageGroupName": "group", "InferenceSpecification": {"Containers": [container]}}
    return [{"Name": "it", "Type": "RegisterModel", "Arguments": arguments}]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    [step] = steps(runs)
    step["Arguments"]["InferenceSpecification"]["Containers"][0]["ModelDataUrl"] = f"{BUCKET}/gone"
    return [step]
