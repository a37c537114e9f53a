import json
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.cli.models.version_text import version_text
from drivetrain.components.register_model import Registered, read_metrics, register_model
from drivetrain.registry.card_sections import as_markdown
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.package_mapping import request_of
from drivetrain.registry.registry import open_registry


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.json").write_text("{}")
    (folder / "weights").write_bytes(b"\0\1\2")
    return folder


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    folder = tmp_path / "evaluation"
    folder.mkdir()
    (folder / "metrics.json").write_text('{"accuracy": 0.98, "rows": 360}')
    return folder


@pytest.fixture
def registry(tmp_path: Path) -> str:
    return f"local:{tmp_path}/home/ledger.db"


def refused(*arguments: object, **named: object) -> str:
    with pytest.raises(InputError) as caught:
        register_model(*arguments, **named)  # type: ignore[arg-type]
    return str(caught.value)


def test_the_declaration() -> None:
    assert (register_model.job, register_model.metrics) == ("processing", ("version", "created"))
    assert {name: folder.optional for name, folder in register_model.inputs.items()} == {
        "model": False,
        "evaluation": True,
        "report": True,
        "decision": True,
        "baselines": True,
    }
    assert {name for name, parameter in register_model.parameters.items() if parameter.required} == {"group"}
    assert register_model.parameters["approval"].choices == ("PendingManualApproval", "Approved", "Rejected")


def test_registers_once(model: Path, evaluation: Path, registry: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = register_model(model, evaluation, group="digits", registry=registry, execution="run-1")
    again = register_model(model, None, group="digits", registry=registry, approval="Approved")
    assert (first, again) == (Registered(1, 1), Registered(1, 0))
    (model / "weights").write_bytes(b"\0\1\3")
    assert register_model(model, group="digits", registry=registry, approval="Approved") == Registered(2, 1)
    assert capsys.readouterr().out.splitlines() == [
        "digits version 1 (new)",
        "digits version 1 (already registered)",
        "digits version 2 (new)",
    ]
    opened = open_registry(registry)
    version = opened.version("digits", 1)
    assert (version.metrics, version.execution, version.status) == (
        {"accuracy": 0.98, "rows": 360},
        "run-1",
        "PendingManualApproval",
    )
    assert opened.version("digits", 2).status == "Approved"
    assert opened.version("digits", 2).content_hash == content_hash(model)
    assert request_of(version.record)["SourceUri"] == model.as_uri()


def test_the_baselines_of_checked_data(model: Path, registry: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    (report / "model_monitor").mkdir(parents=True)
    (report / "model_monitor/statistics.json").write_text("{}")
    said = refused(model, baselines=report, group="g", registry=registry)
    assert said == f"{report} has no model_monitor/constraints.json. Give the output `report` of check_data."
    (report / "model_monitor/constraints.json").write_text("{}")
    register_model(model, baselines=report, group="g", registry=registry)
    version = open_registry(registry).version("g", 1)
    assert version.record.baselines == (report / "model_monitor").as_uri()
    assert f"  baselines   {version.record.baselines}\n" in version_text(version, [], "")
    assert f"| Baselines | {version.record.baselines} |" in as_markdown(version)


def test_a_local_path_is_refused_for_a_remote_registry(
    model: Path, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = f"mlflow:sqlite:///{tmp_path}/mlflow.db"
    said = refused(model, group="digits", registry=elsewhere)
    assert "Give artifact its URI" in said and "artifact=trained['model']" in said and "the registry mlflow" in said
    assert not (tmp_path / "mlflow.db").exists()
    monkeypatch.setattr("drivetrain.components.register_model._OF_THE_JOB", tmp_path)
    assert "which goes with the job. Give artifact" in refused(model, group="digits", registry=registry)
    register_model(model, group="digits", registry=registry, artifact="s3://models/digits")
    assert open_registry(registry).version("digits").artifact == "s3://models/digits"


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drivetrain.components.register_model", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
    )


def test_from_a_plain_shell(model: Path, evaluation: Path, tmp_path: Path) -> None:
    done = run("--model", model, "--evaluation", evaluation, "--group", "digits", "--metrics", "numbers", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("digits version 1 (new)\n")
    assert json.loads((tmp_path / "numbers" / "metrics.json").read_text()) == {"created": 1, "version": 1}
    assert open_registry(f"local:{tmp_path}/.drivetrain/ledger.db").version("digits").version == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--group", "digits_1"], "error: group 'digits_1' is not a legal name."),
        (["--group", "digits", "--registry", "locl:x"], "error: registry 'locl:x': unknown kind 'locl'. Did you mean"),
        (["--group", "digits", "--model", "gone"], "error: --model gone: no such file or folder."),
        (["--group", "digits", "--evaluation", "model"], "error: model has no metrics.json."),
        (["--group", "digits", "--registry", "local:model/weights"], "error: model/weights is damaged or no SQLite"),
    ],
)
def test_bad_input_ends_with_one_clear_line(model: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    done = run("--model", "model", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said) and done.stderr.count("\n") == 1
    assert not (tmp_path / ".drivetrain").exists()


def test_a_training_image_does_not_serve(model: Path, registry: str) -> None:
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.10.0-cpu-py313-ubuntu22.04-sagemaker"
    said = refused(model, group="digits", registry=registry, artifact="s3://b/model.tar.gz", image=image)
    assert image in said and "no server" in said
    with pytest.raises(InputError, match="no group 'digits'"):
        open_registry(registry).versions("digits")


def test_bad_input_registers_nothing(model: Path, evaluation: Path, registry: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no files" in refused(tmp_path / "empty", group="digits", registry=registry)
    (evaluation / "metrics.json").write_text('{"accuracy": NaN}')
    assert "NaN is no finite number" in refused(model, evaluation, group="digits", registry=registry)
    (model / "link").symlink_to("/etc/passwd")
    assert "is a link or device" in refused(model, group="digits", registry=registry)
    assert open_registry(registry).groups() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "is not a JSON file of numbers"),
        (b"\xff\xfe", "is not a JSON file of numbers"),
        (b"[" * 100_000, "is not a JSON file of numbers"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "is not a JSON file of numbers"),
        (b"[1]", "is not a JSON object"),
        (b'{"a": Infinity}', "Infinity is no finite number"),
        (b'{"a": 1e999}', "metric 'a' is inf"),
    ],
)
def test_invalid_metrics_are_refused(model: Path, evaluation: Path, registry: str, text: bytes, said: str) -> None:
    (evaluation / "metrics.json").write_bytes(text)
    assert said in refused(model, evaluation, group="digits", registry=registry)


def test_metrics_are_read_from_a_file_too(evaluation: Path) -> None:
    assert read_metrics(evaluation / "metrics.json") == read_metrics(evaluation) == {"accuracy": 0.98, "rows": 360}


def test_returned_texts_are_not_registered_as_metrics(model: Path, evaluation: Path, registry: str) -> None:
    """As where the local runner registers: texts, and what a script of one's own nests."""
    (evaluation / "metrics.json").write_text('{"accuracy": 1, "verdict": "go", "sure": true, "mse": {"value": 0.5}}')
    register_model(model, evaluation, group="digits", registry=registry)
    assert open_registry(registry).version("digits").metrics == {"accuracy": 1, "mse.value": 0.5}
