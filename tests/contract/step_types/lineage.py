"""Lineage: a record of entities and associations."""

from __future__ import annotations

from typing import Any

from tests.fixtures.local_runs import LocalRuns

SAYS = ("ActionArns['trained']", "ArtifactArns['model']", "Associations[0].DestinationArn")


def steps(runs: LocalRuns) -> list[dict[str, Any]]:
    source = {"SourceUri": "s3://bucket/model.tar.gz"}
    arguments = {
        "Actions": [{"ActionName": "trained", "ActionType": "Training", "Source": source}],
        "Artifacts": [{"ArtifactName": "model", "ArtifactType": "Model", "Source": source}],
        "Associations": [
            {"Source": {"Name": "trained", "Type": "Action"}, "Destination": {"Name": "model", "Type": "Artifact"}}
        ],
    }
    return [{"Name": "it", "Type": "Lineage", "Arguments": arguments}]


def refused(runs: LocalRuns) -> list[dict[str, Any]]:
    return [{"Name": "it", "Type": "Lineage", "Arguments": {}}]
