"""What is loaded for a step while the one before is at work."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.objects import ObjectStore
from drivetrain.steps import START_COMMAND
from drivetrain.targets.sagemaker.run.spares import Spares, is_of_ours, loaded_ahead
from tests.fixtures.local_runs import LocalRuns

CODE = "s3://bucket/pipelines/p/code/1"
SHA256 = "a" * 64
FILE = """
import json, numpy.random
from drivetrain.components import component
from . import helpers
import tensorflow

@component
def train() -> None:
    from sklearn.ensemble import RandomForestClassifier
    if True:
        import pandas as pd

@component
def other() -> None:
    import torch
"""


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    found = ObjectStore(tmp_path / "s3")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, text in (("source/steps/mine.py", FILE), ("source/broken.py", "def (")):
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    found.put(f"{CODE}/{SHA256}.tar", archive.getvalue())
    return found


def processing(target: str, **other: Any) -> dict[str, Any]:
    return {
        "AppSpecification": {"ContainerArguments": ["--code", SHA256, target, "--rows", "3"]},
        "ProcessingInputs": [{"InputName": "code", "S3Input": {"S3Uri": CODE}}],
        **other,
    }


def test_the_imports_of_a_file_and_of_its_function(store: ObjectStore) -> None:
    """Of the packages that take long and may be loaded before a fork; of no other function."""
    assert loaded_ahead(processing("steps.mine:train"), store) == ("numpy.random", "sklearn.ensemble", "pandas")
    assert loaded_ahead(processing("steps.mine:other"), store) == ("numpy.random", "torch")
    training = {
        "AlgorithmSpecification": {"ContainerArguments": ["--code", SHA256, "--training", "steps.mine:other"]},
        "InputDataConfig": [{"ChannelName": "code", "DataSource": {"S3DataSource": {"S3Uri": CODE}}}],
    }
    assert loaded_ahead(training, store) == ("numpy.random", "torch")


def test_our_own_components_say_it_themselves(store: ObjectStore) -> None:
    assert loaded_ahead(processing("drivetrain.components.train:train"), store) == ("torch", "torch._dynamo")
    assert loaded_ahead(processing("drivetrain.components.compare:compare"), store) == ("torch",)


def test_torch_is_not_loaded_for_models_of_functions_and_for_answers(store: ObjectStore) -> None:
    def asking(**inputs: Any) -> dict[str, Any]:
        given = {"code": CODE, **inputs}
        entries = [{"InputName": name, "S3Input": {"S3Uri": uri}} for name, uri in given.items()]
        return processing("drivetrain.components.evaluate:evaluate", ProcessingInputs=entries)

    steps = {
        "describe": processing("drivetrain.components.describe_model:describe_model"),
        "fit": processing("drivetrain.components.train:train"),
    }
    described = {"Get": "Steps.describe.ProcessingOutputConfig.Outputs['model'].S3Output.S3Uri"}
    assert loaded_ahead(asking(model=described), store, steps) == ()
    assert loaded_ahead(asking(answers="s3://b/table/"), store, steps) == ()
    trained = {"Get": "Steps.fit.ModelArtifacts.S3ModelArtifacts"}
    assert loaded_ahead(asking(model=trained), store, steps) == ("torch",)
    assert loaded_ahead(asking(model="s3://b/model.tar.gz"), store, steps) == ("torch",)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"AppSpecification": {"ContainerArguments": ["main.py"]}},
        {"AppSpecification": {"ContainerArguments": ["--code"]}},
        processing("broken:train"),
        processing("missing:train"),
        processing("script:main.py"),
        processing("steps.mine:train", ProcessingInputs=[]),
        processing("steps.mine:train", ProcessingInputs=[{"InputName": "code", "S3Input": {"S3Uri": {"Get": "x"}}}]),
        processing("steps.mine:train", ProcessingInputs=[{"InputName": "code", "S3Input": {"S3Uri": "nowhere"}}]),
        processing("steps.mine:train", ProcessingInputs=[{"InputName": "code", "S3Input": {"S3Uri": "s3://b/other"}}]),
    ],
)
def test_unknown_programs_preload_nothing(arguments: dict[str, Any], store: ObjectStore) -> None:
    assert loaded_ahead(arguments, store) == ()


@pytest.mark.parametrize("app", ["AppSpecification", "AlgorithmSpecification"])
@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ([*START_COMMAND, SHA256, "/opt/ml/start.py"], True),
        ([*START_COMMAND[:-1], "print()"], False),
        (["python3", "main.py"], False),
        ([{"Get": "Parameters.Program"}], False),
    ],
)
def test_foreign_programs_do_not_use_a_waiting_interpreter(app: str, command: list[Any], ours: bool) -> None:
    assert is_of_ours({app: {"ContainerEntrypoint": command}}) is ours
    assert is_of_ours({app: {}})  # what it will start is not known here


@pytest.mark.parametrize(("command", "waiting"), [(START_COMMAND, ["two"]), (("python3",), [])])
def test_no_interpreter_waits_for_a_program_of_somebody_else(
    command: tuple[str, ...], waiting: list[str], runs: LocalRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[str] = []

    def prepare(spares: Spares, step: str, modules: Sequence[str] = ()) -> None:
        prepared.append(step)

    monkeypatch.setattr(Spares, "prepare", prepare)
    steps = [runs.processing("one", "pass"), runs.processing("two", "pass", DependsOn=["one"])]
    application = steps[1]["Arguments"]["AppSpecification"]
    application["ContainerEntrypoint"] = [*command, *application["ContainerEntrypoint"][-1:]]
    runs.start(steps)
    assert prepared == waiting
