"""Destroy leaves nothing of ours, and all of others'."""

from __future__ import annotations

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.deployer import StartRequest
from tests.faults.harness.kubeflow_applying import Fault, killing
from tests.fixtures.kubeflow_pipelines.place import Killed, Place

EMPTY = {"pipelines": [], "versions": [], "experiments": [], "recurring": [], "runs": []}


def destroy(place: Place) -> None:
    deployer = place.deployer()
    deployer.destroy(deployer.remains("nightly"), lambda line: None)


def test_what_executions_wrote_and_what_others_made_stays(place: Place) -> None:
    place.apply()
    objects, store = place.deployer().objects, place.cluster.store
    root = f"s3://{place.bucket}/pipelines"
    for uri in (f"{root}/nightly/runs/model.bin", f"{root}/other/code/{'0' * 64}/start.py"):
        objects.write(uri, b"x")
    (experiment,) = store.experiments.values()
    store.runs["theirs"] = {"run_id": "theirs", "display_name": "theirs", "created_at": "2026-11-25T00:00:00Z"} | {
        "experiment_id": experiment["experiment_id"]
    }
    destroy(place)
    assert store.left() == {**EMPTY, "experiments": ["nightly"], "runs": ["theirs"]}
    assert len(objects.listed(f"{root}/")) == 2


def test_a_recurring_run_of_others_is_told_of(place: Place) -> None:
    place.apply()
    store = place.cluster.store
    (daily,) = store.recurring.values()
    store.recurring["theirs"] = {**daily, "recurring_run_id": "theirs", "display_name": "theirs", "description": ""}
    assert "'theirs' of others stays, and fails from then on" in place.deployer().remains("nightly").kept[0]


@pytest.mark.parametrize("number", [8, 10, 12])
def test_the_next_one_goes_on_where_it_was_killed(place: Place, number: int) -> None:
    place.apply()
    run = place.deployer().start("nightly", StartRequest()).id
    with pytest.raises(UserError, match=f"is executing .* drivetrain stop nightly {run}"):
        destroy(place)
    place.cluster.store.conclude(run, "SUCCEEDED")
    fault = Fault("killed after", number, place)
    with killing(fault), pytest.raises(Killed):
        destroy(place)
    destroy(place)
    assert place.cluster.store.left() == EMPTY
    assert place.deployer().objects.listed(f"s3://{place.bucket}/") == {}
    assert place.deployer().remains("nightly").is_empty
