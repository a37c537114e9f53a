"""Compiled YAML for Kubeflow as it was reviewed: of the pipelines that have SageMaker definitions here, as far as the
target can express them, and of one with all that its settings can say. `make golden` writes it anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain import Cluster, Deployment, Parameter, Pipeline, Spot, register, step, when
from drivetrain.authoring.loading import load
from drivetrain.authoring.ready import ready_pipelines
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train
from drivetrain.spec.resources import Resources
from drivetrain.targets.kubeflow.compile.checks import check
from drivetrain.targets.kubeflow.compile.compile import Compiled, compile_pipeline
from drivetrain.targets.kubeflow.ir.check import problems, read
from tests.golden import test_searches, test_training_options
from tests.golden.test_golden import without_code_hashes

HERE = Path(__file__).parent / "kubeflow"
SETTINGS = {
    "namespace": "team-a",
    "root": "s3://models/pipelines",
    "s3_endpoint": "http://minio.team-a:9000",
    "s3_secret": "minio",
    "image": "registry.example.com/drivetrain-gpu:1",
    "image_pull_policy": "IfNotPresent",
    "image_pull_secret": "registry",
    "checkpoint_claim": "checkpoints",
    "registry": "kubeflow:http://model-registry-service.kubeflow:8080",
    "node_selector": {"zone": "a"},
    "spot_node_selector": {"pool": "spot"},
    "spot_tolerations": {"spot": ""},
    "pods": {"secrets": {"HF_TOKEN": "hub/token"}},
    "steps": {"train": {"volumes": {"/shared": "shared"}}},
    "notices": "hooks/url",
}


def searches() -> Pipeline:
    """Without the tuning, which is SageMaker's."""
    whole = test_searches.pipeline()
    deployment = whole.deployment.model_copy(update={"targets": {"kubeflow": {"registry": SETTINGS["registry"]}}})
    steps = tuple(each for each in whole.steps if "search" not in each.name)
    return whole.model_copy(update={"steps": steps, "deployment": deployment})


def settings() -> Pipeline:
    """What the settings of the target can say."""
    least = Parameter.number("Least", default=0.9)
    data = step(prepare_data, name="prepare", raw="s3://models/raw/", key="id", label="label", test_percent=20)
    model = step(
        train,
        name="train",
        train=data["train"],
        validation=data["validation"],
        recipe="digits_cnn",
        strategy="single",
        epochs=2,
        cluster=Cluster(
            resources=Resources(cpu=4, memory_gib=16, accelerators=1),
            spot=Spot(max_wait_seconds=172_800),
            max_run_seconds=7_200,
        ),
        display_name="Train the digits",
    )
    scores = step(evaluate, name="measure", model=model["model"], data=data["test"])
    chosen = register(model=model["model"], evaluation=scores, group="digits")
    gate = when(scores.metric("accuracy") >= least, then=[chosen], name="gate")
    deployment = Deployment(target="kubeflow", targets={"kubeflow": SETTINGS})
    return Pipeline(name="settings", steps=[data, model, scores, gate], parameters=[least], deployment=deployment)


def ready(name: str) -> Callable[[], Compiled]:
    def compiled() -> Compiled:
        overrides = [
            f"deployment.targets.kubeflow.{each}={SETTINGS[each]}" for each in ("registry", "checkpoint_claim")
        ]
        loaded = load(name, overrides=overrides)
        return compile_pipeline(loaded.pipeline, loaded.source, loaded.base)

    return compiled


REFUSED = {"tuning": ("train-table", "tune")}
EXAMPLES: dict[str, Callable[[], Compiled]] = {
    **{name: ready(name) for name in sorted(ready_pipelines().keys() - REFUSED)},
    "searches": lambda: compile_pipeline(searches()),
    "settings": lambda: compile_pipeline(settings()),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_compiled_for_kubeflow(name: str, request: pytest.FixtureRequest) -> None:
    text = without_code_hashes(EXAMPLES[name]().text)
    golden = HERE / f"{name}.yaml"
    if request.config.getoption("--write-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert list(map(str, problems(read(text.encode(), name)))) == []


def test_sagemaker_only_examples_are_refused_by_step_and_field() -> None:
    found = {(problem.step, problem.field) for problem in check(test_training_options.pipeline())}
    assert found >= {("mounted", "inputs.train"), ("mounted", "cluster.efa"), ("streamed", "cluster.network")}
    assert ("search", "tune") in {(problem.step, problem.field) for problem in check(test_searches.pipeline())}
    for name, refused in REFUSED.items():
        assert refused in {(problem.step, problem.field) for problem in check(load(name).pipeline)}


def test_no_golden_files_of_removed_examples_remain() -> None:
    assert {path.stem for path in HERE.iterdir()} == set(EXAMPLES)
