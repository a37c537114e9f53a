"""A pipeline is not compiled with a script's training that its launcher would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain import Cluster, Pipeline, SpecError, step
from drivetrain.components.train_script import train_script


def pipeline(**given: Any) -> Pipeline:
    fit = step(train_script, name="fit", train="s3://b/k/", script="fit.py", **given)
    return Pipeline(name="fit", steps=[fit])


def test_roles_fit_the_processes() -> None:
    roles = "chief=1,worker=2,ps=1"
    assert pipeline(launcher="tf_config", roles=roles).steps
    assert pipeline(launcher="tf_config", roles=roles, cluster=Cluster(count=2, processes=2)).steps


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"step 'fit': roles='chief=1,worker=2,ps=1' are those of TF_CONFIG, and launcher='torchrun' writes none"),
        (
            {"launcher": "tf_config", "cluster": Cluster(count=3)},
            r"step 'fit': roles=chief=1,worker=2,ps=1 are 4 processes, which 3 hosts cannot be. Give roles whose sum",
        ),
        (
            {"launcher": "tf_config", "cluster": Cluster(processes=3)},
            r"which 1 host x 3 processes cannot be",
        ),
        ({"launcher": "tf_config", "roles": "worker=1,ps=1"}, "has parameter servers and no chief"),
    ],
)
def test_roles_that_do_not_fit(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        pipeline(**{"roles": "chief=1,worker=2,ps=1"} | given)
