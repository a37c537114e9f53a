"""A definition with a search and with iterations, as it was reviewed; `make golden` writes it anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain import (
    Cluster,
    Deployment,
    Pipeline,
    between,
    current_item,
    for_each,
    largest,
    one_of,
    register,
    step,
    tune,
)
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from tests.golden.test_golden import without_code_hashes

GOLDEN = Path(__file__).with_name("searches.json")


def pipeline() -> Pipeline:
    data = step(prepare_data, name="prepare", raw="s3://own-bucket/raw/", key="id", label="label", test_percent=20)
    learnt = {"train": data["train"], "validation": data["validation"], "recipe": "digits_cnn", "strategy": "ddp"}
    search = tune(
        step(train, name="search", epochs=2, cluster=Cluster(instance_type="ml.g5.xlarge"), **learnt),
        objective="validation_accuracy",
        learning_rate=between(1e-4, 1e-1, scale="Logarithmic"),
        global_batch=one_of(32, 64),
        max_trainings=12,
        max_parallel=3,
        early_stopping=True,
        seed=7,
    )
    fitted = step(
        train,
        name="fit",
        epochs=current_item("Integer", "epochs"),
        **learnt,
    )
    measured = step(evaluate, name="measure", model=fitted["model"], data=data["test"])
    sweep = for_each(
        [{"name": "short", "epochs": 2}, {"name": "long", "epochs": 20}],
        [fitted, measured],
        name="sweep",
        max_concurrency=2,
        key="name",
        best=largest(fitted.logged("validation_accuracy")),
    )
    return Pipeline(
        name="searches",
        steps=[
            data,
            search,
            sweep,
            register(name="register-search", model=search["model"], group="searched"),
            register(name="register-sweep", model=sweep.best["model"], group="swept"),
        ],
        deployment=Deployment(targets={"sagemaker": {"region": "eu-west-1", "bucket": "own-bucket"}}),
    )


def test_a_pipeline_with_a_search_and_iterations(request: pytest.FixtureRequest) -> None:
    text = without_code_hashes(compile_pipeline(pipeline()).text)
    if request.config.getoption("--write-golden"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
