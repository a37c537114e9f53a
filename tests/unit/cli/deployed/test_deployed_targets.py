"""The commands about deployed pipelines choose a target, and refuse what it does not have with one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.deployer import find_deploying

KUBEFLOW = ("--target", "kubeflow")
ENDPOINT = "--set=deployment.targets.kubeflow.endpoint=http://127.0.0.1:9/pipeline"


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "retraining"),
        ("apply", "retraining"),
        ("destroy", "retraining", "--yes"),
        ("start", "retraining"),
        ("status", "retraining"),
        ("executions", "nightly"),
        ("list", "--deployed"),
    ],
)
def test_a_target_without_an_address_is_refused_without_asking_anybody(drivetrain: Any, words: tuple[str, ...]) -> None:
    message = drivetrain.error(*words, *KUBEFLOW)
    assert "deployment.targets.kubeflow.endpoint is not set" in message and "docs/kubeflow.md" in message


def test_the_targets_of_settings_count(drivetrain: Any) -> None:
    drivetrain.write("retraining.yaml", {"deployment": {"target": "kubeflow"}})
    assert "kubeflow.endpoint is not set" in drivetrain.error("status", "retraining")
    assert "kubeflow.endpoint is not set" in drivetrain.error("status", "other", "-c", "retraining.yaml")
    assert "There is no target 'kubflow'. Did you mean 'kubeflow'?" in drivetrain.error(
        "plan", "retraining", "--target", "kubflow"
    )


def test_what_only_one_target_has_is_refused_on_the_other(drivetrain: Any) -> None:
    drivetrain.write("d.json", {"Version": "2020-12-01", "Steps": []})
    assert "A definition (-d FILE.json) is of SageMaker" in drivetrain.error(
        "plan", "-d", "d.json", ENDPOINT, *KUBEFLOW
    )
    assert "--region is of SageMaker" in drivetrain.error("status", "x", "--region", "eu-west-1", ENDPOINT, *KUBEFLOW)
    drivetrain.write("retraining.yaml", {"deployment": {"target": "kubeflow"}})
    assert "Kubeflow Pipelines has no Studio whose edits could be pulled" in drivetrain.error("pull", "retraining")
    assert "On SageMaker nothing is to be served" in drivetrain.error(
        "serve", "retraining", "--target", "sagemaker", "--set", "deployment.target=sagemaker"
    )
    assert "With --target one pipeline is served" in drivetrain.error("serve", *KUBEFLOW)
    for option, value in (("--target", "kubeflow"), ("--config", "x.yaml"), ("--set", "a=b")):
        assert f"{option} is of the deployed pipelines" in drivetrain.error("list", option, value)


def test_a_target_that_deploys_nowhere_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import drivetrain.targets as folder

    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "__init__.py").touch()
    (tmp_path / "paper" / "target.py").write_text('TITLE, SUFFIX = "Paper", ".txt"\n')
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(tmp_path)])
    with pytest.raises(UserError, match="Paper cannot be deployed to"):
        find_deploying("paper")
