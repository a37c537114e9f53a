"""docs/models.md and what docs/running.md says of pages: their commands exist, their example runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, Literal

import pytest

from drivetrain import Pipeline, folder_out, script, step
from drivetrain.cli import main
from drivetrain.registry.artifacts import fetch
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import kinds, open_registry
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures import kubeflow_examples

DOCS = Path(__file__).parents[2] / "docs"
MODELS = (DOCS / "models.md").read_text(encoding="utf-8")
RUNNING = (DOCS / "running.md").read_text(encoding="utf-8")
# Of running.md, the commands that this page and models.md are about.
NAMED = re.findall(r"`(drivetrain (?:evaluations|models|runs report)[^`]*)`", RUNNING.replace("\n", " "))
COMMANDS = sorted({*re.findall(r"^drivetrain [^#\n]+", MODELS, re.MULTILINE), *NAMED})


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 10 and any("evaluations show" in line for line in COMMANDS)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_exists_with_its_options(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line)[1:]
    command = words[:1] if words == ["models"] else words[:2]
    assert main.run([*command, "--help"]) == 0
    told = capsys.readouterr().out
    assert [word for word in words if word.startswith("-") and f"{word} " not in told and f"{word}," not in told] == []


def test_the_table_has_every_kind_of_registry() -> None:
    assert sorted(re.findall(r"^\| `(\w+)", MODELS, re.MULTILINE)) == kinds()


def test_the_example_prints_the_champion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    registry = open_registry("local:.drivetrain/ledger.db")
    model = tmp_path / "models" / "1"
    model.mkdir(parents=True)
    (model / "model.txt").write_text("weights")
    package = {"SourceUri": model.as_uri()}
    registry.register("retraining", content_hash(model), record_of(package), metrics={"accuracy": 0.97})
    example, _ = re.findall(r"^```python\n(.*?)^```", MODELS, re.MULTILINE | re.DOTALL)
    exec(compile(example, "models.md", "exec"), {})
    assert capsys.readouterr().out == ""
    assert main.run(["models", "approve", "retraining", "1", "-m", "better on all classes"]) == 0
    capsys.readouterr()
    exec(compile(example, "models.md", "exec"), {})
    assert capsys.readouterr().out == f"1 0.97 {model.as_uri()}\n"


MAKE = """
import sys
from pathlib import Path

Path(sys.argv[1], "model.json").write_text("{}")
"""


@pytest.mark.slow_cases("rewrite")
@pytest.mark.parametrize("mode", ["auto", "rewrite"])
def test_the_step_example_registers_the_model_location(
    mode: Literal["auto", "rewrite"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, example = re.findall(r"^```python\n(.*?)^```", MODELS, re.MULTILINE | re.DOTALL)
    source = tmp_path / "source"
    source.mkdir()
    (source / "make.py").write_text(MAKE)
    made = script("make.py", outputs=["model"], arguments=[folder_out("model")])
    known: dict[str, Any] = {"trained": made, "scores": {"report": None}, "compared": {"decision": None}}
    exec(compile(example, "models.md", "exec"), known)
    assert known["registered"].parameters["registry"] == "mlflow:http://mlflow:5000"
    exec(compile(example.replace("mlflow:http://mlflow:5000", "auto"), "models.md", "exec"), known)
    compiled = compile_pipeline(Pipeline(name="own", steps=[made, known["registered"]]), source, source)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="own", mode=mode), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    version = open_registry(f"local:{home.ledger}").version("retraining")
    assert version.artifact.startswith("s3://") and version.execution is not None
    assert version.execution.endswith(summary.execution)
    monkeypatch.setenv("DRIVETRAIN_OBJECT_STORE", str(home.objects))
    assert content_hash(fetch(version.artifact, tmp_path / "new")) == version.content_hash


def test_the_example_of_a_step_compiles_for_kubeflow() -> None:
    _, example = re.findall(r"^```python\n(.*?)^```", MODELS, re.MULTILINE | re.DOTALL)
    made = step(kubeflow_examples.fit, data="s3://raw/data/")
    scores = step(kubeflow_examples.score, data="s3://raw/data/")
    known: dict[str, Any] = {"trained": made, "scores": {"report": None}, "compared": {"decision": None}}
    registry = "kubeflow:http://model-registry-service.kubeflow:8080"
    exec(compile(example.replace("mlflow:http://mlflow:5000", registry), "models.md", "exec"), known)
    settings = {"checkpoint_claim": "kept"}
    built = kubeflow_examples.compiled(made, scores, known["registered"], settings=settings)
    words = dict(each["option"] for each in kubeflow_examples.document(built, "register-model")["arguments"])
    assert words["--registry"] == registry and words["--execution"] and words["--artifact"] == {"uri": "model"}


def test_the_example_output_is_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines of the page's example, in their order, of a version that says the same."""
    (example,) = re.findall(r"^\$ drivetrain models show retraining\n(.*?)^```", MODELS, re.MULTILINE | re.DOTALL)
    (reason,) = re.findall(r"^    (accuracy is .*)$", example, re.MULTILINE)
    lineage = dict(re.findall(r"^  (data|config|code) +([0-9a-f]{64})$", example, re.MULTILINE))
    decision = {
        "format": 1, "verdict": "register", "metric": "accuracy", "difference": {"value": 0.0112, "confidence": 0.95},
        "why": [reason],
        "candidate": {"metrics": {
            "accuracy": {"value": 0.9748, "low": 0.9556, "high": 0.9895, "higher_is_better": True},
            "loss": {"value": 0.2233, "low": 0.1901, "high": 0.2647, "higher_is_better": False},
            "auroc_macro": {"value": 0.9991, "bound": 3.7e-6, "low": 0.9972, "high": 0.99998, "higher_is_better": True},
        }},
    }  # fmt: skip
    card = {"additional_information": {"custom_details": {"drivetrain_decision_1": json.dumps(decision)}}}
    package = {
        "SourceUri": "s3://bucket/model.tar.gz",
        "ModelCard": {"ModelCardContent": json.dumps(card)},
        "CustomerMetadataProperties": {f"drivetrain-lineage-{name}": value for name, value in lineage.items()},
    }
    url = f"local:{tmp_path / 'ledger.db'}"
    registry = open_registry(url)
    registry.register("retraining", "b" * 64, ModelRecord())
    metrics = {"accuracy": 0.9748, "loss": 0.2233, "auroc_macro": 0.9991, "auroc_macro_bound": 3.7e-6}
    registry.register("retraining", "a" * 64, record_of(package), metrics=metrics, execution="7527c750754e")
    assert main.run(["models", "show", "retraining", "--registry", url]) == 0
    shown = iter([" ".join(line.split()) for line in capsys.readouterr().out.splitlines()])
    of_this_run = ("registered ", "artifact ", "content ")
    for line in example.splitlines():
        told = " ".join(line.split())
        if told and told != "..." and not told.startswith(of_this_run):
            assert told in shown, told  # and what follows is looked for behind it
