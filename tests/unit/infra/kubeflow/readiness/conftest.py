from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drivetrain import Pipeline
from drivetrain.infra.kubeflow.needs import needs_of
from drivetrain.infra.kubeflow.readiness.place import Check, Finding, Place
from drivetrain.targets.kubeflow.deploy.objects import Objects
from drivetrain.targets.kubeflow.deploy.rest import Api, Patience
from tests.fixtures.kubectl import Cluster
from tests.fixtures.kubeflow_infra import one_node

Asked = Callable[..., list[tuple[str, str, str]]]


@pytest.fixture
def cluster() -> Cluster:
    """A stock installation for one user."""
    return Cluster()


@pytest.fixture
def found(cluster: Cluster) -> Asked:
    """Runs one check of a pipeline: (state, what is said, how to mend it) of each finding."""

    def ask(check: Check, pipeline: Pipeline | None = None, **settings: Any) -> list[tuple[str, str, str]]:
        needs = needs_of(pipeline or one_node(**settings))
        api = Api(needs.settings.endpoint, needs.settings.namespace, patience=Patience(first_seconds=0))
        place = Place(needs, api, Objects(needs.settings.s3_endpoint), cluster, "drivetrain infra kubeflow flow.py")
        findings: list[Finding] = list(check(place))
        return [(each.state, each.said, each.mend) for each in findings]

    return ask
