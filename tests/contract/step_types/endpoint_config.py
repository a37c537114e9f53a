"""EndpointConfig: a record."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = ("EndpointConfigName", "EndpointConfigArn", "ProductionVariants[0].ModelName")


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    variant = {"VariantName": "all", "ModelName": "m", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    return [{"Name": "it", "Type": "EndpointConfig", "Arguments": {"ProductionVariants": [variant]}}]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    return [{"Name": "it", "Type": "EndpointConfig", "Arguments": {"ProductionVariants": []}}]
