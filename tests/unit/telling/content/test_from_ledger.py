from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.operations.concluding import conclude
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.package_mapping import record_of
from drivetrain.run_store.events import StepStatus
from drivetrain.run_store.home import Home
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.schema import ArtifactEntry
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.run.interruption_simulation.journal import Journal, told
from drivetrain.telling.content import RunFacts
from drivetrain.telling.content.from_ledger import note, record_environment, run_facts, save_page
from drivetrain.telling.content.given import settings
from drivetrain.telling.content.goodput import account

CODE = "c" * 64
DEFINITION = {
    "Version": "2020-12-01",
    "Steps": [
        {
            "Name": "train",
            "Type": "Training",
            "Arguments": {"AlgorithmSpecification": {"ContainerArguments": ["--code", CODE]}},
        },
        {
            "Name": "evaluate",
            "Type": "Processing",
            "DependsOn": ["train"],
            "Arguments": {},
            "PropertyFiles": [{"PropertyFileName": "M", "OutputName": "metrics", "FilePath": "metrics.json"}],
        },
        {"Name": "register", "Type": "RegisterModel", "DependsOn": ["evaluate"], "Arguments": {}},
    ],
}
METRICS_OUTPUT = {
    "ProcessingOutputConfig": {
        "Outputs": [{"OutputName": "metrics", "S3Output": {"S3Uri": "s3://bucket/run/metrics", "LocalPath": "/x"}}]
    }
}


class Writing:
    """A home with one execution, written as the runner writes it."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.home.create()
        self.ledger = LedgerWriter(self.home)

    def begin(self, execution: str = "e-1") -> None:
        steps = [(step["Name"], step["Type"], step["Name"].title()) for step in DEFINITION["Steps"]]
        self.ledger.begin(
            execution, "nightly", definition_hash="d" * 64, request_hash="r", parameters={"Password": "x", "n": 3},
            steps=steps,  # type: ignore[arg-type]
        )  # fmt: skip
        folder = self.home.run(execution)
        folder.mkdir(parents=True)
        (folder / "definition.json").write_text(json.dumps(DEFINITION))

    def settle(self, step: str, status: Any, execution: str = "e-1", **fields: Any) -> None:
        self.ledger.settle_step(execution, step, status, **fields)

    def facts(self, execution: str = "e-1") -> RunFacts:
        with Ledger(self.home) as ledger:
            return run_facts(ledger, execution)


@pytest.fixture
def writing(tmp_path: Path) -> Writing:
    return Writing(tmp_path / "home")


def numbers(writing: Writing, text: str) -> RunFacts:
    file = writing.home.objects / "bucket" / "run" / "metrics" / "metrics.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    writing.begin()
    writing.settle("evaluate", "Succeeded", response=METRICS_OUTPUT)
    return writing.facts()


def test_a_killed_run_is_described(writing: Writing) -> None:
    writing.begin()
    writing.ledger.start_step("e-1", "train", arguments=DEFINITION["Steps"][0]["Arguments"])  # type: ignore[index]
    facts = writing.facts()
    assert facts.status == "Interrupted"
    assert [step.status for step in facts.steps] == ["Interrupted", "Waiting", "Waiting"]
    assert facts.ended is not None and facts.steps[0].started is not None and facts.ended >= facts.steps[0].started
    assert [edge.target for edge in facts.dag.edges] == ["evaluate", "register"]
    assert [node.label for node in facts.dag.nodes] == ["Train", "Evaluate", "Register"]


def test_a_killed_run_shows_its_working_time(writing: Writing) -> None:
    writing.begin()
    number = writing.ledger.start_step("e-1", "train", arguments={})
    with Ledger(writing.home) as ledger:
        began = ledger.step("e-1", "train").started or 0.0
    writing.ledger.log_metrics("e-1", "train", number, [("loss", 40.0, 1.0)])
    facts = writing.facts()
    assert facts.steps[0].seconds == pytest.approx(40.0, abs=1.0) and facts.dag.nodes[0].note.startswith("40")
    log = writing.home.logs("e-1", "train", number) / "127.0.0.1.log"
    log.parent.mkdir(parents=True)
    log.write_text("later")
    os.utime(log, (began + 90.0, began + 90.0))
    facts = writing.facts()
    assert facts.steps[0].seconds == pytest.approx(90.0) and facts.seconds == pytest.approx(90.0, abs=1.0)
    assert facts.steps[1].seconds is None
    with Ledger(writing.home) as ledger:
        assert ledger.executions()[0].seconds == facts.seconds
        with writing.home.lock("e-1"):
            assert ledger.step("e-1", "train").seconds is ledger.executions()[0].seconds is None


def test_a_running_run_is_described(writing: Writing) -> None:
    writing.begin()
    writing.ledger.start_step("e-1", "train", arguments={})
    with writing.home.lock("e-1"):
        facts = writing.facts()
    assert facts.status == "Executing" and facts.ended is None and facts.seconds >= 0
    assert [step.status for step in facts.steps] == ["Executing", "Waiting", "Waiting"]


def test_unreached_steps_of_an_ended_run_are_shown(writing: Writing) -> None:
    writing.begin()
    writing.ledger.finish("e-1", "Failed", "train: broke")
    facts = writing.facts()
    assert facts.status == "Failed" and {step.status for step in facts.steps} == {"NotExecuted"}


def test_secrets_are_masked_before_they_are_facts(writing: Writing) -> None:
    writing.begin()
    assert writing.facts().parameters == {"Password": "***", "n": 3}


def test_the_numbers_of_a_property_file(writing: Writing) -> None:
    facts = numbers(writing, '{"accuracy": 0.9, "by": {"cat": 0.5}, "name": "x", "ok": true, "bad": NaN}')
    assert facts.measured[0].step == "evaluate"
    assert facts.measured[0].numbers == {"accuracy": 0.9, "by.cat": 0.5}


@pytest.mark.parametrize("text", ["[1, 2]", "{", "3", "{}", '{"a": ' * 3000 + "1" + "}" * 3000])
def test_a_property_file_without_numbers_is_left_out(writing: Writing, text: str) -> None:
    assert numbers(writing, text).measured == ()


def test_curves_of_a_cached_training_are_those_of_the_run_that_made_them(writing: Writing) -> None:
    writing.begin("e-1")
    number = writing.ledger.start_step("e-1", "train", arguments={})
    writing.ledger.log_metrics("e-1", "train", number, [("loss", 1.0, 0.9), ("loss", 2.0, 0.5)])
    writing.ledger.finish_step("e-1", "train", "Succeeded", number=number)
    writing.begin("e-2")
    writing.settle("train", "Cached", "e-2", cache_of="e-1")
    (curve,) = writing.facts("e-2").curves
    assert curve.step == "train" and curve.points == ((1.0, 0.9), (2.0, 0.5))


EARLY = "early stopping: validation_loss was best at step 40 (0.1), and the 3 validations since were no better"


def log(writing: Writing, execution: str, text: str, number: int = 1) -> None:
    folder = writing.home.logs(execution, "train", number)
    folder.mkdir(parents=True)
    (folder / "algo-1.log").write_text(text)


def test_the_reason_of_early_stopping_is_read_from_the_log(writing: Writing) -> None:
    writing.begin("e-1")
    writing.ledger.start_step("e-1", "train", arguments={})
    number = writing.ledger.start_step("e-1", "train", arguments={})
    log(writing, "e-1", "early stopping: of the first try\n")
    log(writing, "e-1", f"epoch 5/12 step 60 train_loss=0.4\n{EARLY}\nsaved\n", number)
    assert writing.facts("e-1").ended_early == {}, "it runs"
    writing.ledger.finish_step("e-1", "train", "Succeeded", number=number)
    writing.begin("e-2")
    writing.settle("train", "Cached", "e-2", cache_of="e-1")
    for execution in ("e-1", "e-2"):
        assert writing.facts(execution).ended_early == {"train": EARLY}


def test_a_complete_training_has_no_early_stopping_note(writing: Writing) -> None:
    writing.begin("e-1")
    number = writing.ledger.start_step("e-1", "train", arguments={})
    log(writing, "e-1", "epoch 12/12 step 60 early stopping: no line of its own\n")
    writing.ledger.finish_step("e-1", "train", "Succeeded", number=number)
    assert writing.facts("e-1").ended_early == {}


def test_the_times_of_an_interrupted_training(writing: Writing) -> None:
    response = {"TrainingTimeInSeconds": 9, "Drivetrain": {"interruptions": [{"at_step": 3}]}}
    writing.begin("e-1")
    writing.settle("train", "Succeeded", arguments={"EnableManagedSpotTraining": True}, response=response)
    (times,) = writing.facts("e-1").job_times
    assert times.step == "train" and times.spot and times.interruptions[0].at_step == 3
    writing.begin("e-2")
    writing.settle("train", "Cached", "e-2", cache_of="e-1", response=response)
    assert writing.facts("e-2").job_times == (), "this run was not interrupted"


def test_the_interruptions_of_a_training_that_failed(writing: Writing) -> None:
    writing.begin("e-1")
    number = writing.ledger.start_step("e-1", "train", arguments={"EnableManagedSpotTraining": True})
    assert writing.facts("e-1").job_times == ()
    journal = Journal(writing.home.run("e-1") / "train", job=number, spot=True, checkpoints=None)
    journal.begin()
    (times,) = writing.facts("e-1").job_times
    assert times.spot and times.interruptions == () and account(times) is None, "it is at work, and says nothing yet"
    journal.ended({"number": 1, "first_step": 0, "step": 7})
    journal.interrupted("step=7", reached=7, notice_s=0.0, reason="taken back")
    (times,) = writing.facts("e-1").job_times
    assert times.interruptions[0].at_step == 7 and times.steps_lost is None and account(times) is not None
    writing.ledger.finish_step("e-1", "train", "Failed", number=number, reason="interrupted too often")
    assert writing.facts("e-1").job_times == (times,)
    # Its description tells of it once it has succeeded, also without spot machines.
    response = {"Drivetrain": told(writing.home.run("e-1") / "train")}
    writing.settle("train", "Succeeded", arguments={"EnableManagedSpotTraining": False}, response=response)
    assert writing.facts("e-1").job_times == (times,)


def test_a_training_that_cannot_be_interrupted_has_no_account_of_time(writing: Writing) -> None:
    writing.begin("e-1")
    number = writing.ledger.start_step("e-1", "train", arguments={})
    journal = Journal(writing.home.run("e-1") / "train", job=number, spot=False, checkpoints=None)
    journal.begin()
    journal.ended({"number": 1, "first_step": 0, "step": 7})
    assert writing.facts("e-1").job_times == ()


def test_the_resume_point_of_an_interrupted_training_is_shown(writing: Writing) -> None:
    writing.begin("e-1")
    arguments = {"CheckpointConfig": {"S3Uri": "s3://bucket/checkpoints/train/abc/"}}
    number = writing.ledger.start_step("e-1", "train", arguments=arguments)
    folder = writing.home.objects / "bucket/checkpoints/train/abc/digits/step-00000120"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"manifest": {"files": []}}')
    saved = writing.facts("e-1").goes_on_from["train"]
    ends: list[tuple[StepStatus, str]] = [
        ("Stopped", "stopped by the user"),
        ("Failed", "interrupted 3 times in a row"),
    ]
    for status, reason in ends:
        writing.ledger.finish_step("e-1", "train", status, number=number, reason=reason)
        assert writing.facts("e-1").goes_on_from == {"train": saved}
    writing.ledger.finish_step("e-1", "train", "Failed", number=number, reason="error: no recipe 'x'")
    assert writing.facts("e-1").goes_on_from == {}, "what was refused is not begun"
    assert saved.training_step == 120 and saved.uri == "s3://bucket/checkpoints/train/abc/digits/step-00000120/"
    writing.ledger.finish_step("e-1", "train", "Succeeded", number=number)
    assert writing.facts("e-1").goes_on_from == {}


def wrote(writing: Writing, step: str, output: str, execution: str = "e-1", uri: str = "") -> None:
    number = writing.ledger.start_step(execution, step, arguments={})
    entry = ArtifactEntry(
        flow="output", name=output, uri=uri or f"s3://bucket/{output}", digest="d", stamp="s", files=1, bytes=1
    )
    writing.ledger.publish(execution, step, number, response={}, value=None, moves=[], artifacts=[entry], objects=[])
    writing.ledger.finish_step(execution, step, "Succeeded", number=number)


def test_evaluations_and_decisions_are_found_among_outputs(writing: Writing, findings: Callable[..., Path]) -> None:
    findings(writing.home.objects / "bucket")
    writing.begin()
    wrote(writing, "train", "report")
    wrote(writing, "evaluate", "decision")
    facts = writing.facts()
    assert [(one.step, one.num_samples) for one in facts.evaluations] == [("train", 360)]
    assert [(one.step, one.verdict) for one in facts.decisions] == [("evaluate", "register")]
    assert facts.plain_numbers() == facts.measured
    # Another run takes them from the cache.
    writing.begin("e-2")
    writing.settle("train", "Cached", "e-2", cache_of="e-1")
    cached = writing.facts("e-2")
    assert [one.step for one in cached.evaluations] == ["train"] and cached.decisions == ()


def test_foreign_outputs_are_ignored(writing: Writing) -> None:
    folder = writing.home.objects / "bucket" / "report"
    folder.mkdir(parents=True)
    (folder / "evaluation.json").write_text('{"regression_metrics": {"mse": {"value": 1}}}')
    (folder / "decision.json").mkdir()
    writing.begin()
    wrote(writing, "train", "report")
    wrote(writing, "evaluate", "elsewhere", uri="file:///etc")
    facts = writing.facts()
    assert facts.evaluations == () and facts.decisions == ()
    (folder / "evaluation.json").write_text("{")
    assert [one.problem for one in writing.facts().evaluations] == ["evaluation.json is no JSON"]


def test_a_registered_model_is_shown_with_its_origin(writing: Writing) -> None:
    registry = LocalRegistry(writing.home.ledger)
    package = {"InferenceSpecification": {"Containers": [{"ModelDataUrl": "s3://bucket/model.tar.gz"}]}}
    version, _ = registry.register(
        "digits", "a" * 64, record_of(package), metrics={"accuracy": 0.9}, execution="arn:x/e-0"
    )
    writing.begin()
    writing.settle("register", "Succeeded", response={"ModelPackageArn": registry.arn("digits", version)},
                   value="digits version 1 (the same content was registered before)")  # fmt: skip
    facts = writing.facts()
    (model,) = facts.models
    assert (model.group, model.version, model.status) == ("digits", 1, "PendingManualApproval")
    assert model.model_uri == "s3://bucket/model.tar.gz" and model.registered_by == "e-0"
    assert facts.dag.nodes[2].note == "version 1"


@pytest.mark.parametrize("arn", ["arn:aws:sagemaker:us-east-1:0:model-package/gone/3", "nonsense", 7, None])
def test_the_answer_of_a_stub_is_no_registered_model(writing: Writing, arn: object) -> None:
    writing.begin()
    writing.settle("register", "Succeeded", response={"ModelPackageArn": arn})
    assert writing.facts().models == ()


def test_a_run_whose_folder_is_gone_still_has_its_steps(writing: Writing) -> None:
    writing.begin()
    (writing.home.run("e-1") / "definition.json").unlink()
    facts = writing.facts()
    assert len(facts.dag.nodes) == 3 and facts.dag.edges == ()


def test_settings_of_a_job() -> None:
    assert settings(
        {
            "ProcessingResources": {"ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2}},
            "AppSpecification": {
                "ContainerArguments": ["--code", CODE, "m:f", "--raw", "/opt/ml/processing/input/raw", "--max-digits",
                                       "3", "--verbose", "--key", "id"]
            },
        }
    ) == {"machine": "2 x ml.m5.large", "max_digits": "3", "key": "id"}  # fmt: skip
    assert settings({"ResourceConfig": {"InstanceType": "ml.g5.xlarge"}, "HyperParameters": {"epochs": "3"}}) == {
        "machine": "ml.g5.xlarge", "epochs": "3",
    }  # fmt: skip
    assert settings({"AppSpecification": "odd", "HyperParameters": ["odd"], "ResourceConfig": None}) == {}


def test_the_environment_is_that_of_the_run(writing: Writing) -> None:
    writing.begin()
    record_environment(writing.home, "e-1")
    facts = writing.facts()
    assert facts.environment["drivetrain"] and facts.environment["python"].startswith("3.")
    (writing.home.run("e-1") / "environment.json").write_text('{"drivetrain": "0.0.1"}')
    record_environment(writing.home, "e-1")
    assert writing.facts().environment == {"drivetrain": "0.0.1"}


def test_a_removed_run_folder_is_reported(writing: Writing) -> None:
    writing.begin()
    folder = writing.home.run("e-1")
    shutil.rmtree(folder)
    with pytest.raises(UserError) as caught:
        conclude(writing.home, "e-1")
    lost = "was removed while the run went on; what it made there is lost. Run it again."
    assert str(caught.value) == f"{folder} {lost}"
    shutil.rmtree(writing.home.root)
    with pytest.raises(UserError) as caught:
        writing.home.refuse_removed(writing.home.ledger)
    assert str(caught.value) == f"{writing.home.root} {lost}"


def test_the_page_is_written_atomically(writing: Writing) -> None:
    writing.begin()
    path = save_page(writing.home, writing.facts())
    assert path.read_text().rstrip().endswith("</html>")
    assert [file.name for file in path.parent.iterdir() if file.suffix == ".part"] == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("starts from nothing (a new training)", "2.00 s"),
        ("starts from step 8 of this training (interrupted); 1 interruption", "1 interruption"),
        (None, "2.00 s"),
    ],
)
def test_the_step_card_shows_metrics_or_the_duration(value: str | None, said: str) -> None:
    step = StepRun(name="fit", type="Training", title="fit", status="Succeeded", started=0.0, ended=2.0, value=value)
    assert note(step) == said
