"""What a plan says: changes by meaning, and what others did since the last apply."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.plan import Plan, Terms, lines
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.executions.steps import planned as planned_steps
from tests.fixtures.kubeflow_pipelines.place import Place


def planned(place: Place, *changed: str, discarded: tuple[str, ...] = ()) -> Plan:
    return place.deployer().plan(place.wanted(*changed), Terms(discarded=discarded))


def drift(plan: Plan) -> list[str]:
    return [each.text for each in plan.drift]


def text(place: Place, *changed: str) -> str:
    wanted = place.wanted(*changed)
    return "\n".join(lines(place.deployer().plan(wanted)))


def test_changes_are_described_by_meaning(place: Place) -> None:
    place.apply()
    for changed, says in [
        (("rows=20",), ["prepare: --rows 10 -> 20"]),
        (("memory=2.0",), ["prepare: resources"]),
        (("min_accuracy=0.8",), ["parameter MinAccuracy 0.9 -> 0.8"]),
        (("deployment.targets.kubeflow.image=b:2",), ["prepare: image registry.example.com/drivetrain-cpu:1 -> b:2"]),
        (("deployment.targets.kubeflow.service_account=runner",), ["~ schedule 'daily'"]),
        (("threshold=0.5",), ["~ schedule 'daily'\n    parameters MinAccuracy"]),
        (("by_itself=false",), ["- schedule 'daily'"]),
        (("other=true",), ["+ schedule 'often'\n    every 21600 s"]),
    ]:
        found = text(place, *changed)
        assert all(each in found for each in says), found
        assert "{" not in found
        assert not planned(place, *changed).is_empty
    assert planned(place).is_empty


def test_a_notice_changes_no_step(place: Place) -> None:
    """It puts all of the pipeline into one task of the root."""
    place.apply()
    notice = ("deployment.targets.kubeflow.notices=hook/url",)
    assert [each.text for each in planned(place, *notice).changes] == ["+ step notice"]
    steps = [each.name for each in planned_steps(place.wanted(*notice).spec)]
    assert sorted(steps) == sorted([*(each.name for each in planned_steps(place.wanted().spec)), "notice"])


def test_a_secret_is_not_shown(place: Place) -> None:
    from drivetrain.targets.kubeflow.deploy.differences import differences

    def spec(value: str) -> dict[str, Any]:
        env = [{"name": "API_TOKEN", "value": value}]
        container = {"image": "i", "env": env}
        return {
            "components": {"comp-a": {"executorLabel": "exec-a"}},
            "deploymentSpec": {"executors": {"exec-a": {"container": container}}},
            "root": {"dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}}}}},
        }

    (line,) = differences(spec("hunter2-abcdef"), spec("hunter3-abcdef"))
    assert line.startswith("a: environment API_TOKEN") and "hunter" not in line


def test_a_foreign_version_is_not_overwritten_without_consent(place: Place) -> None:
    place.apply()
    (pipeline,) = place.cluster.store.pipelines
    service.upload_version(place.deployer().api, pipeline, "by-hand", "mine", place.wanted("rows=99").text)
    plan = planned(place)
    assert drift(plan) == ["version 'by-hand' was uploaded"] and not plan.is_empty
    assert "prepare: --rows 99 -> 10" in text(place) and "undone by applying" in text(place)
    refusal = plan.refusal
    assert refusal is not None and "--discard all" in refusal
    with pytest.raises(UserError, match="was changed since the last apply"):
        place.apply()
    assert planned(place, discarded=("all",)).refusal is None
    with pytest.raises(UserError, match="--discard 'steps': there is no such place on Kubeflow"):
        planned(place, discarded=("steps",))


def test_a_disabled_schedule_is_not_enabled_without_consent(place: Place) -> None:
    place.apply()
    (daily,) = place.cluster.store.recurring.values()
    daily["status"] = "DISABLED"
    assert drift(planned(place)) == ["schedule 'daily' was switched off"] and planned(place).refusal is not None
    assert "switched off -> cron" in text(place)


def test_foreign_recurring_runs_are_kept(place: Place) -> None:
    place.apply()
    store = place.cluster.store
    (daily,) = store.recurring.values()
    store.recurring["theirs"] = {**daily, "recurring_run_id": "theirs", "display_name": "theirs", "description": ""}
    plan = planned(place, "by_itself=false")
    assert "recurring run 'theirs' of others starts this pipeline, too; it is left alone" in plan.notes
    place.apply("by_itself=false")
    assert list(store.recurring) == ["theirs"]


def test_a_duplicate_recurring_run_is_deleted(place: Place) -> None:
    place.apply()
    store = place.cluster.store
    (daily,) = store.recurring.values()
    store.recurring["second"] = {**daily, "recurring_run_id": "second"}
    assert "- schedule 'daily'\n    a second recurring run for it" in text(place)
    place.apply()
    assert len(store.recurring) == 1


def test_a_foreign_pipeline_is_not_taken_over_without_consent(place: Place) -> None:
    service.create_pipeline(place.deployer().api, "nightly", "nightly", "by hand")
    refusal = planned(place).refusal
    assert refusal is not None and "was not made by `drivetrain apply`" in refusal
    deployer = place.deployer()
    with pytest.raises(UserError, match="To delete it all the same: --foreign"):
        deployer.remains("nightly")
    assert [each.state for each in deployer.pipelines(9)] == ["not ours"]
    # Taken over, it is ours from then on.
    wanted = place.wanted()
    deployer.apply(wanted, deployer.plan(wanted, Terms(discarded=("all",))), lambda line: None)
    assert planned(place).is_empty and planned(place).refusal is None
    assert [each.state for each in deployer.pipelines(9)] == ["as applied"]
    assert deployer.remains("nightly").deployed is not None


def test_two_pipelines_of_one_name_are_distinguished(place: Place) -> None:
    place.apply()
    (pipeline,) = place.cluster.store.pipelines.values()
    pipeline["description"] = pipeline["description"].replace('"nightly"', '"Nightly"')
    with pytest.raises(UserError, match="is called 'nightly' there, and so is pipeline 'Nightly'"):
        planned(place)
