"""A champion whose library is missing is named before a candidate trains."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Pipeline, step
from drivetrain.components.compare import compare
from drivetrain.components.register_model import register_model
from drivetrain.operations import champions
from drivetrain.operations.champions import install, notes
from drivetrain.registry.registry import open_registry


def comparing(registry: str = "auto") -> Pipeline:
    judged = step(
        compare, evaluation="s3://b/e/", model="s3://b/m/", data="s3://b/d/", group="churn", registry=registry
    )
    return Pipeline(name="p", steps=[judged])


def champion(folder: Path, **about: Any) -> str:
    """The registry of an approved version whose model.json says this."""
    model = folder / "model"
    model.mkdir()
    (model / "model.json").write_text(json.dumps({"format": 1, "framework": "functions", **about}))
    (model / "weights.bin").write_bytes(b"w")
    registry = f"local:{folder}/ledger.db"
    made = register_model(model, None, None, None, None, group="churn", registry=registry)
    open_registry(registry).set_status("churn", made.version, "Approved")
    return registry


def test_a_library_that_is_missing_here_is_named_with_its_command(tmp_path: Path) -> None:
    registry = champion(tmp_path, needs={"numpy": version("numpy"), "no-such-boost": "2.1.0"})
    (said,) = notes(comparing(), registry)
    assert said == (
        "step 'compare': the champion, version 1 of churn, was made with no-such-boost 2.1.0, which is not here: it "
        "cannot be asked, and a new test set cannot be compared on. Install it before the training: pip install "
        "'no-such-boost==2.1.0'"
    )
    assert list(notes(comparing(registry), "local:elsewhere.db")) == [said]


def test_another_framework_that_is_missing_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = champion(tmp_path, framework="tensorflow")
    monkeypatch.setattr(champions, "find_spec", lambda name: None)
    (said,) = notes(comparing(), registry)
    assert "made with tensorflow-cpu, which is not here" in said and said.endswith("'drivetrain[tensorflow]'")


def test_nothing_is_said_of_libraries_that_are_here_and_of_no_champion(tmp_path: Path) -> None:
    registry = champion(tmp_path, needs={"numpy": version("numpy")})
    assert list(notes(comparing(), registry)) == []
    assert list(notes(comparing(), f"local:{tmp_path}/none.db")) == []
    assert list(notes(comparing("sagemaker:eu-west-1"), registry)) == []


@pytest.mark.parametrize(
    ("library", "made_with", "argument"),
    [
        ("lightgbm", "4.7.0", "'drivetrain[trees]'"),
        ("lightgbm", "3.3.5", "'lightgbm==3.3.5'"),
        ("torch", "", "'drivetrain[torch]'"),
        ("catboost", "1.2", "'catboost==1.2'"),
    ],
)
def test_an_extra_is_advised_where_it_brings_that_version(library: str, made_with: str, argument: str) -> None:
    assert install(library, made_with) == argument
