"""The commands about deployed pipelines choose a target, and refuse what it does not have with one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.spec.deployment import Deployment
from drivetrain.targets.deployer import find_deploying
from drivetrain.targets.kubeflow.deploy.deployer import Kubeflow

KUBEFLOW = ("--target", "kubeflow")
ON_KUBEFLOW = ("--on", "kubeflow")
REGISTRY = "--set=deployment.targets.kubeflow.registry=mlflow:http://127.0.0.1:9"
ENDPOINT = "--set=deployment.targets.kubeflow.endpoint=http://127.0.0.1:9/pipeline"


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "retraining", REGISTRY),
        ("apply", "retraining", REGISTRY),
        ("destroy", "retraining", "--yes"),
        ("start", "retraining"),
        ("runs", "show", "-p", "retraining"),
        ("runs", "list", "-p", "nightly"),
        ("list", "--deployed"),
    ],
)
def test_a_target_without_an_address_is_refused_without_a_request(drivetrain: Any, words: tuple[str, ...]) -> None:
    message = drivetrain.error(*words, *(ON_KUBEFLOW if words[0] == "runs" else KUBEFLOW))
    assert "deployment.targets.kubeflow.endpoint is not set" in message and "docs/kubeflow.md" in message


def test_settings_name_the_target(drivetrain: Any) -> None:
    drivetrain.write("retraining.yaml", {"deployment": {"target": "kubeflow"}})
    assert "kubeflow.endpoint is not set" in drivetrain.error("start", "retraining")
    assert "kubeflow.endpoint is not set" in drivetrain.error("runs", "show", "-p", "other", "-c", "retraining.yaml")
    assert "There is no target 'kubflow'. Did you mean 'kubeflow'?" in drivetrain.error(
        "plan", "retraining", "--target", "kubflow"
    )


def test_start_refuses_a_setting_without_effect(drivetrain: Any) -> None:
    message = drivetrain.error("start", "retraining", ENDPOINT, "--set", "epochs=3")
    assert "--set epochs=3: a deployed pipeline is started as it was applied" in message
    assert "drivetrain apply retraining --set epochs=3" in message and "--param NAME=VALUE" in message
    (drivetrain.folder / "named_by_setting.py").write_text(
        "from drivetrain import Pipeline, fail\n"
        "def named(called: str, rows: int = 1) -> Pipeline:\n"
        "    return Pipeline(name=called, steps=[fail(str(rows))])\n"
    )
    words = ("start", "named_by_setting.py", "--target", "kubeflow", "--set", "called=mine")
    assert "kubeflow.endpoint is not set" in drivetrain.error(*words)  # it says which one
    assert "--set rows=2: a deployed" in drivetrain.error(*words, "--set", "rows=2")


def test_the_start_command_has_only_deployment_settings() -> None:
    place = ("--target", "kubeflow", "--set", "deployment.targets.kubeflow.namespace=a")
    settings = Deployment(targets={"kubeflow": {"endpoint": "http://127.0.0.1:9/pipeline"}})
    assert Kubeflow(settings, "nightly.py", place).again("nightly") == " ".join(("nightly.py", *place))
    assert Kubeflow(settings, "nightly.py", (*place, "--set", "rows=3")).again("nightly") == " ".join(
        ("nightly", *place)
    )


def test_options_of_one_target_are_refused_on_the_other(drivetrain: Any) -> None:
    drivetrain.write("d.json", {"Version": "2020-12-01", "Steps": []})
    assert "A definition (-d FILE.json) is of SageMaker" in drivetrain.error(
        "plan", "-d", "d.json", ENDPOINT, *KUBEFLOW
    )
    assert "--region is of SageMaker" in drivetrain.error(
        "runs", "show", "-p", "x", "--region", "eu-west-1", ENDPOINT, *ON_KUBEFLOW
    )
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("list", "-w", "accuracy > 1", "--on", "kubeflow"),
            "--where is for runs on this machine, --on for deployed",
        ),
        (
            ("list", "--sort", "x", "--region", "eu-west-1"),
            "--sort is for runs on this machine, --region for deployed",
        ),
        (("show", "--events", "-c", "x.yaml"), "--events is for runs on this machine, --config for deployed"),
        (("show", "--price", "spot=1", "--set", "a=b"), "--price is for runs on this machine, --set for deployed"),
        (("compare", "-o", "x.html", *ON_KUBEFLOW), "--output is for runs on this machine, --on for deployed"),
        (("logs", "--attempt", "1", *ON_KUBEFLOW), "--attempt is for runs on this machine, --on for deployed"),
        (("stop", "--home", "x", *ON_KUBEFLOW), "--home is for runs on this machine, --on for deployed"),
        (("list", *ON_KUBEFLOW), "--on: no pipeline is given. Give -p PIPELINE"),
        (("stop", "-c", "x.yaml"), "--config: no pipeline is given. Give -p PIPELINE"),
        (("show", "-p", "nightly"), "-p nightly is of a deployed pipeline. Say where: --on TARGET"),
        (("show", "-p", "nightly", "--on", "kubflow"), "There is no target 'kubflow'. Did you mean 'kubeflow'?"),
        (("list", "-p", "nightly", "--on", "local"), "runs on this machine are those without --on"),
    ],
)
def test_conflicting_locations_of_runs_are_refused(drivetrain: Any, words: tuple[str, ...], said: str) -> None:
    assert said in drivetrain.error("runs", *words)
