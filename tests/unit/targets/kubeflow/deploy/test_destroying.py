"""Destroy leaves nothing of ours, and all of others'."""

from __future__ import annotations

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.plan import Terms
from drivetrain.targets.deployer import StartRequest
from drivetrain.targets.kubeflow.deploy.objects import uri_of
from tests.faults.harness.kubeflow_applying import Fault, killing
from tests.fixtures.kubeflow_pipelines.place import Killed, Place
from tests.fixtures.kubeflow_pipelines.server import pipelines_api

EMPTY = {"pipelines": [], "versions": [], "experiments": [], "recurring": [], "runs": []}


def destroy(place: Place) -> None:
    deployer = place.deployer()
    deployer.destroy(deployer.remains("nightly"), lambda line: None)


def test_outputs_of_executions_and_foreign_objects_are_kept(place: Place) -> None:
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


def test_a_foreign_recurring_run_is_reported(place: Place) -> None:
    place.apply()
    store = place.cluster.store
    (daily,) = store.recurring.values()
    store.recurring["theirs"] = {**daily, "recurring_run_id": "theirs", "display_name": "theirs", "description": ""}
    assert "'theirs' of others stays, and fails from then on" in place.deployer().remains("nightly").kept[0]


@pytest.mark.slow_cases(but=["10"])
@pytest.mark.parametrize("number", [8, 10, 12])
def test_the_next_destroy_continues_after_a_kill(place: Place, number: int) -> None:
    place.apply()
    run = place.deployer().start("nightly", StartRequest()).id
    with pytest.raises(UserError, match=f"is executing .* drivetrain runs stop {run} --on kubeflow -p nightly"):
        destroy(place)
    place.cluster.store.conclude(run, "SUCCEEDED")
    fault = Fault("killed after", number, place)
    with killing(fault), pytest.raises(Killed):
        destroy(place)
    destroy(place)
    assert place.cluster.store.left() == EMPTY
    assert place.deployer().objects.listed(f"s3://{place.bucket}/") == {}
    assert place.deployer().remains("nightly").is_empty


@pytest.mark.slow_cases("other1")
@pytest.mark.parametrize("other", [{"namespace": "team-b"}, {"endpoint": "ANOTHER"}])
def test_objects_of_another_owner_below_the_root_are_kept(shared_place: Place, other: dict[str, str]) -> None:
    place = shared_place
    place.apply()
    mine, place.cluster.namespaces = dict(place.settings), ("team-a", "team-b")
    before = place.deployer().objects.listed(f"s3://{place.bucket}/")
    with pipelines_api(multi_user=True) as cluster:
        cluster.token = place.cluster.token
        given = {name: cluster.endpoint if text == "ANOTHER" else text for name, text in other.items()}
        place.settings |= given
        changed = [f"deployment.targets.kubeflow.{name}={value}" for name, value in given.items()]
        for refused in (
            lambda: place.apply(*changed),
            lambda: destroy(place),
            lambda: place.deployer().remains("nightly", foreign=True),
        ):
            owner = f"belongs to pipeline 'nightly' in namespace 'team-a' at {place.cluster.endpoint}; this is"
            with pytest.raises(UserError, match=f"{owner} .* Set another deployment.targets.kubeflow.root"):
                refused()
        assert cluster.wrote() == []
    assert place.deployer().objects.listed(f"s3://{place.bucket}/") == before
    place.settings.update(mine)
    destroy(place)
    assert place.deployer().objects.listed(f"s3://{place.bucket}/") == {}


def test_objects_of_an_unknown_owner_are_deleted_only_on_request(place: Place) -> None:
    place.apply()
    deployer = place.deployer()
    deployer.objects.delete([uri_of(f"s3://{place.bucket}/pipelines/nightly")])
    assert place.deployer().plan(place.wanted()).uploads, "the next apply records the owner"
    place.cluster.store.pipelines.clear()
    with pytest.raises(UserError, match=r"has 4 objects without a record of whose they are .*: --foreign"):
        deployer.remains("nightly")
    assert len(deployer.remains("nightly", foreign=True).objects) == 4


def test_a_schedule_that_starts_every_minute_does_not_block_destroy(place: Place) -> None:
    """Its executions never end all by themselves."""
    place.apply()
    store = place.cluster.store
    run = place.deployer().start("nightly", StartRequest()).id
    with pytest.raises(UserError, match=f"is executing .{run}.. Its schedules are switched off. Wait, or stop it"):
        destroy(place)
    (daily,) = store.recurring.values()
    assert (daily["mode"], daily["status"]) == ("DISABLE", "DISABLED") and len(store.pipelines) == 1
    store.conclude(run, "SUCCEEDED")
    destroy(place)
    assert store.left() == EMPTY


def test_a_run_started_meanwhile_by_a_schedule_is_deleted(place: Place) -> None:
    """Once its experiment is gone, the server deletes it no more."""
    place.apply()
    deployer, store = place.deployer(), place.cluster.store
    what = deployer.remains("nightly")
    late = place.deployer().start("nightly", StartRequest()).id
    store.conclude(late, "SUCCEEDED")
    deployer.destroy(what, lambda line: None)
    assert store.left() == EMPTY


@pytest.mark.slow_cases(but=["2.17.0"])
@pytest.mark.parametrize("version", ["2.5.0", "2.15.0", "2.17.0"])
def test_every_version_of_the_server_is_left_empty(place: Place, version: str) -> None:
    place.apply()
    place.apply("rows=20")
    place.cluster.store.tag_name = version
    destroy(place)
    assert place.cluster.store.left() == EMPTY


def test_deployments_with_other_settings_are_kept(place: Place) -> None:
    """A server for a single user has one pipeline of a name, whatever the settings' namespaces and folders are."""
    place.apply()
    first, store = dict(place.settings), place.cluster.store
    kept = place.deployer().objects.listed(f"s3://{place.bucket}/")
    place.settings["root"] = f"s3://{place.bucket}/others"
    other = [f"deployment.targets.kubeflow.root={place.settings['root']}"]
    folder = f"{first['root']}/nightly"
    for refused in (
        lambda: place.apply(*other),
        lambda: destroy(place),
        lambda: place.deployer().start("nightly", StartRequest()),
    ):
        with pytest.raises(UserError, match=f"(other settings, with the folder {folder})"):
            refused()
    assert place.deployer().objects.listed(f"s3://{place.bucket}/") == kept and store.runs == {}
    place.settings = first
    destroy(place)
    assert store.left() == EMPTY


def test_another_projects_pipeline_is_kept_until_adopted(place: Place) -> None:
    """Of one namespace, with one folder."""
    ours, theirs = ["deployment.project=sound"], ["deployment.project=vision"]
    place.apply(*theirs)
    place.project = "sound"
    before, kept = place.standing(), place.deployer().objects.listed(f"s3://{place.bucket}/")
    for refused in (
        lambda: place.apply(*ours),
        lambda: destroy(place),
        lambda: place.deployer().start("nightly", StartRequest()),
    ):
        with pytest.raises(UserError, match="not this project's: it belongs to project 'vision'"):
            refused()
    assert place.standing() == before and place.deployer().objects.listed(f"s3://{place.bucket}/") == kept
    wanted, deployer = place.wanted(*ours), place.deployer()
    plan = deployer.plan(wanted, Terms(adopted=True))
    assert plan.refusal is None and [each.action for each in plan.triggers] == ["update"]
    deployer.apply(wanted, plan, lambda line: None)
    assert place.deployer().plan(wanted).is_empty
    assert "project 'sound'" in (place.deployer().plan(place.wanted(*theirs)).refusal or "")
    destroy(place)
    assert place.cluster.store.left() == EMPTY


def test_a_namespace_ignored_by_the_server_is_refused(place: Place) -> None:
    place.cluster.store.installed_in = "kubeflow"
    with pytest.raises(UserError, match=r"runs everything in its own namespace, 'kubeflow'; the settings say 'team-a'"):
        place.apply()
    assert place.cluster.store.left() == EMPTY
    place.apply("by_itself=false")  # without a schedule nothing tells
    (note,) = (each for each in place.deployer().plan(place.wanted("by_itself=false")).notes if "namespace" in each)
    assert "installed for a single user there: it ignores namespace 'team-a'" in note
