"""What a cluster asks of a pipeline and a run on this machine does not."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain import Cluster, Deployment, Parameter, Pipeline, RetryPolicy, SpecError, Spot, register, step
from drivetrain.components.compare import compare
from drivetrain.components.train_script import train_script
from drivetrain.spec.pipeline import DataDrift, RegistryEvent
from drivetrain.targets.kubeflow.compile import deployable, retries
from drivetrain.targets.kubeflow.compile.compile import compile_pipeline
from tests.fixtures.kubeflow_examples import load, score, trained

Json = dict[str, Any]
RAW = "s3://own/raw/"
SHARED = {"pods": {"volumes": {"/models": "shared"}}}
SPOT = Cluster(spot=Spot(max_wait_seconds=90_000))


def pipeline(*steps: Any, settings: Json | None = None, **fields: Any) -> Pipeline:
    deployment = Deployment(target="kubeflow", targets={"kubeflow": settings or {}})
    return Pipeline(**{"name": "p", "steps": list(steps), "deployment": deployment, **fields})


def registering() -> list[Any]:
    model = trained()
    return [model, register(model=model["model"], group="digits")]


def comparing(**options: Any) -> list[Any]:
    given = {"evaluation": RAW, "model": RAW, "data": RAW, "group": "digits", **options}
    return [step(compare, **given)]


@pytest.mark.parametrize("steps", [registering, comparing])
@pytest.mark.parametrize("settings", [{}, {"registry": "local:/models/registry"}], ids=["none", "local"])
def test_a_registry_on_the_disk_of_a_pod_is_refused(steps: Any, settings: Json) -> None:
    whole = pipeline(*steps(), settings=settings)
    with pytest.raises(SpecError, match=r"registry: it asks a model registry.*Set deployment\.targets\.kubeflow\.reg"):
        compile_pipeline(whole)
    assert compile_pipeline(whole, here=True).text, "a run on this machine has a registry of its own"
    assert compile_pipeline(pipeline(*steps(), settings={"registry": "kubeflow:http://registry:8080"})).text


@pytest.mark.parametrize(
    ("options", "settings", "refused"),
    [
        ({"registry": "local"}, {"registry": "kubeflow:http://registry:8080"}, True),
        ({"registry": "mlflow:http://mlflow:5000"}, {}, False),
        ({"environment": {"DRIVETRAIN_REGISTRY": "mlflow:http://mlflow:5000"}}, {}, False),
        ({}, {"registry": "local:/models/registry", **SHARED}, False),
        ({}, {"registry": "local:/modelstore", **SHARED}, True),
    ],
)
def test_the_registry_of_one_step(options: Json, settings: Json, refused: bool) -> None:
    assert bool(list(deployable.problems(pipeline(*comparing(**options), settings=settings)))) is refused


@pytest.mark.parametrize("kind", [RegistryEvent, DataDrift])
def test_a_trigger_about_a_group_needs_a_registry_that_the_starter_reaches(kind: Any) -> None:
    event = kind(name="approved", group="digits")
    for settings, refused in (({}, True), ({"registry": "local:/models", **SHARED}, True)):
        whole = pipeline(step(load, raw=RAW), settings=settings, triggers=[event])
        assert [each.field for each in deployable.problems(whole)] == ["trigger 'approved'"] * refused
    whole = pipeline(step(load, raw=RAW), settings={"registry": "mlflow:http://mlflow:5000"}, triggers=[event])
    assert list(deployable.problems(whole)) == []


@pytest.mark.parametrize("raw", ["s3://other/raw", Parameter.string("Place", default="s3://other/raw")])
def test_data_of_another_bucket_beside_aws(raw: Any) -> None:
    """There the launcher takes virtual-host addresses, whatever the platform's settings say (recorded: other.json)."""
    store = {"root": "s3://own/p", "s3_endpoint": "http://seaweedfs.kubeflow:9000"}
    parameters = [raw] if isinstance(raw, Parameter) else []
    whole = pipeline(step(load, raw=raw), settings=store, parameters=parameters)
    (problem,) = deployable.problems(whole)
    assert str(problem) == (
        "Step 'load': inputs.raw: s3://other/raw is in another bucket than root, and with s3_endpoint Kubeflow "
        "Pipelines reads root's alone. Copy it to s3://own/."
    )
    on_aws = pipeline(step(load, raw=raw), settings={"root": "s3://own/p"}, parameters=parameters)
    assert list(deployable.problems(on_aws)) == []
    assert list(deployable.problems(pipeline(step(load, raw=RAW), settings=store))) == []


def test_a_model_of_another_bucket_beside_aws() -> None:
    store = {"root": "s3://own/p", "s3_endpoint": "http://seaweedfs.kubeflow:9000", "registry": "mlflow:http://m"}
    whole = pipeline(register(model="s3://other/model/", group="digits", name="again"), settings=store)
    (problem,) = deployable.problems(whole)
    assert str(problem).startswith("Step 'again': model: s3://other/model/ is in another bucket than root")


@pytest.mark.parametrize(
    ("settings", "noted"),
    [
        ({}, False),
        ({"root": "s3://own/p"}, True),
        ({"root": "s3://own/p", "region": "eu-west-1"}, False),
        ({"root": "s3://own/p", "s3_endpoint": "http://seaweedfs.kubeflow:9000"}, False),
    ],
)
def test_storage_of_aws_without_a_region_is_noted(settings: Json, noted: bool) -> None:
    notes = list(deployable.notes(pipeline(step(load, raw=RAW), settings=settings)))
    assert [note.startswith("deployment.targets.kubeflow.region is not set") for note in notes] == [True] * noted


@pytest.mark.parametrize(
    ("steps", "noted"),
    [
        ([step(load, raw=RAW, retry=[RetryPolicy(causes=("throttling",))])], True),
        ([trained(cluster=Cluster(count=2), strategy="ddp")], True),
        ([trained(cluster=SPOT)], True),
        ([trained(), step(score, data=RAW)], False),
    ],
)
def test_administrator_settings_for_retries_are_noted_once(steps: list[Any], noted: bool) -> None:
    whole = pipeline(*steps, *(each.model_copy(update={"name": f"{each.name}-2"}) for each in steps))
    assert list(deployable.notes(whole)).count(retries.NOTE) == noted
    assert retries.NOTE not in compile_pipeline(whole, here=True).notes


@pytest.mark.parametrize(
    ("every", "noted"), [("auto", False), ("90s", False), ("200steps", False), ("2h", True), ("epoch", True)]
)
def test_a_spot_pod_that_saves_rarely_is_noted(every: str, noted: bool) -> None:
    def notes(one_node: str) -> list[str]:
        settings = {"trainer": {"one_node": one_node}}
        whole = pipeline(trained(cluster=SPOT, checkpoint_every=every), settings=settings)
        return [note for note in deployable.notes(whole) if "within a second of SIGTERM" in note]

    assert len(notes("pod")) == noted
    assert notes("spot") == [], "a TrainJob has time to save"


@pytest.mark.parametrize(("choices", "noted"), [(("90s", "2h"), True), (("90s", "5m"), False)])
def test_a_parameter_may_make_a_spot_pod_save_rarely(choices: tuple[str, ...], noted: bool) -> None:
    every = Parameter.string("Every", "90s", choices=choices)
    whole = pipeline(trained(cluster=SPOT, checkpoint_every=every), parameters=[every])
    assert any("within a second of SIGTERM" in note for note in deployable.notes(whole)) == noted


def test_the_save_interval_of_a_foreign_program_is_unknown() -> None:
    own = step(train_script, name="own", train=RAW, script="fit.py", cluster=SPOT)
    notes = deployable.notes(pipeline(own, settings={"checkpoint_claim": "kept"}))
    assert any(note.startswith("Step 'own': a spot pod ends within a second") for note in notes)
