"""Tuning steps run as a definition has them: what they give, what they keep, and what they refuse."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.events import StepFinished, StepNoted, unhealthy_part
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.execution import JOB_INTERNAL_ERROR, StepFailedError
from drivetrain.targets.sagemaker.run.step_types import training as training_step
from drivetrain.targets.sagemaker.run.step_types.tuning import tuning_name
from drivetrain.telling.content.from_ledger import run_facts
from drivetrain.telling.page.tuning_section import draw as tunings_section
from tests.fixtures.local_runs import BUCKET, EXECUTION_ID, LocalRuns, join
from tests.fixtures.tunings import COMMAND, categories, plain, training, tuning

# Each training notes its hyperparameters in a folder that all of them see.
NOTING = """
import json, os
from pathlib import Path
given = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())
folder = Path(os.environ["NOTES"])
(folder / f"{os.environ['TRAINING_JOB_NAME']}.json").write_text(json.dumps(given))
"""


def row(runs: LocalRuns, step: str = "tune") -> StepRun:
    with Ledger(runs.home) as ledger:
        return ledger.step(ledger.execution("latest").id, step)


def test_a_tuning_describes_itself_as_the_service_does(runs: LocalRuns) -> None:
    botocore = pytest.importorskip("botocore.session")
    validate = pytest.importorskip("botocore.validate").ParamValidator().validate
    summary = runs.start([tuning(training(runs), most=3, parallel=2)], image_commands=COMMAND, max_parallel=2)
    assert summary.status == "Succeeded", summary.reason
    response = dict(plain(row(runs).response))
    assert response.pop("Drivetrain")["seed"] == 1
    listed = {"TrainingJobSummaries": response.pop("TrainingJobSummaries")}
    service = botocore.get_session().get_service_model("sagemaker")
    for operation, given in (
        ("DescribeHyperParameterTuningJob", response),
        ("ListTrainingJobsForHyperParameterTuningJob", listed),
    ):
        shape = service.operation_model(operation).output_shape
        assert set(given) <= set(shape.members)
        assert validate(given, shape).generate_report() == ""
    assert response["HyperParameterTuningJobStatus"] == "Completed"
    assert response["TrainingJobStatusCounters"]["Completed"] == 3
    assert response["ObjectiveStatusCounters"] == {"Succeeded": 3, "Pending": 0, "Failed": 0}
    values = [one["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] for one in listed["TrainingJobSummaries"]]
    assert values == sorted(values) and response["BestTrainingJob"] == listed["TrainingJobSummaries"][0]
    assert runs.of(StepNoted)[-1].note.startswith("3 of 3 trainings, best loss ")
    assert runs.of(StepFinished)[0].value == row(runs).value
    label = response["BestTrainingJob"]["TrainingJobName"].split("-")[-2]
    assert f"(training {label} of 3: x " in str(row(runs).value)


def test_later_steps_find_the_best_model_as_the_sdk_writes_it(runs: LocalRuns) -> None:
    best = join(
        "s3:/", "bucket", "runs", EXECUTION_ID, "tune",
        {"Get": "Steps.tune.TrainingJobSummaries[0].TrainingJobName"}, "output/model.tar.gz",
    )  # fmt: skip
    program = """
        import tarfile, sys
        from pathlib import Path
        text = tarfile.open("/opt/ml/processing/input/model/model.tar.gz").extractfile("x.txt").read().decode()
        Path("/opt/ml/processing/output/out/x.txt").write_text(text + " " + " ".join(sys.argv[1:]))
    """
    take = runs.processing(
        "take",
        program,
        inputs={"model": best},
        outputs=["out"],
        arguments=[
            {"Get": "Steps.tune.BestTrainingJob.TunedHyperParameters['x']"},
            {"Get": "Steps.tune.HyperParameterTuningJobName"},
        ],
    )
    ranges = categories(x=["0.9", "0.3", "-0.5"])
    summary = runs.start(
        [tuning(training(runs), ranges=ranges, strategy="Grid", most=None), take], image_commands=COMMAND
    )
    assert summary.status == "Succeeded", summary.reason
    told = runs.read(f"{BUCKET}/runs/{summary.execution}/take/out/x.txt")
    assert told == f"0.3 0.3 pipelines-{summary.execution}-tune"
    with Ledger(runs.home) as ledger:
        (model,) = [one for one in ledger.artifacts(summary.execution, "take") if one.name == "model"]
        assert model.from_step == "tune"
        written = {one.name: one.files for one in ledger.artifacts(summary.execution, "tune") if one.flow == "output"}
        assert written == {"001/model": 1, "002/model": 1, "003/model": 1}
        assert [one.name for one in ledger.artifacts(summary.execution, "tune") if one.flow == "input"] == ["code"]


def test_a_training_gets_static_and_tuned_values_and_what_it_is_measured_by(runs: LocalRuns, tmp_path: Any) -> None:
    program = NOTING + "print('loss=1.0;')"
    definition = training(runs, program, static={"fixed": '"text"'}, Environment={"NOTES": str(tmp_path)})
    ranges = categories(x=['"a"'], y=["3"])
    summary = runs.start([tuning(definition, ranges=ranges, strategy="Grid", most=1)], image_commands=COMMAND)
    assert summary.status == "Succeeded", summary.reason
    (note,) = tmp_path.glob("*.json")
    assert note.stem == plain(row(runs).response)["BestTrainingJob"]["TrainingJobName"]
    assert json.loads(note.read_text()) == {
        "fixed": '"text"',
        "x": '"a"',
        "y": "3",
        "_tuning_objective_metric": "loss",
    }


def test_metrics_are_in_the_ledger_under_each_training(runs: LocalRuns) -> None:
    definition = training(runs, static={"epochs": "3"})
    runs.start([tuning(definition, most=2)], image_commands=COMMAND)
    with Ledger(runs.home) as ledger:
        found = [(one.name, one.value) for one in ledger.metrics(ledger.execution("latest").id)]
    first, second = ([value for name, value in found if name == f"{number} loss"] for number in ("001", "002"))
    assert len(first) == len(second) == 3
    # The objective alone is each training's last value, in the order in which they ended.
    assert [value for name, value in found if name == "loss"] == [first[-1], second[-1]]


@pytest.mark.slow
def test_the_same_seed_is_the_same_tuning(runs: LocalRuns) -> None:
    def tuned() -> list[str]:
        summary = runs.start([tuning(training(runs), strategy="Bayesian", most=5)], image_commands=COMMAND)
        assert summary.status == "Succeeded", summary.reason
        summaries = plain(row(runs).response)["TrainingJobSummaries"]
        in_order = sorted(summaries, key=lambda one: one["CreationTime"])
        return [one["TunedHyperParameters"]["x"] for one in in_order]

    first = tuned()
    assert len(set(first)) == 5 and tuned() == first


def test_a_training_that_fails_is_a_result_like_others(runs: LocalRuns) -> None:
    program = """
        import json, sys
        from pathlib import Path
        x = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())["x"]
        if x == "bad":
            Path("/opt/ml/output/failure").write_text("x is bad")
            sys.exit(1)
        print("loss=0.5;" if x == "good" else "nothing")
    """
    ranges = categories(x=["bad", "silent", "good"])
    summary = runs.start(
        [tuning(training(runs, program), ranges=ranges, strategy="Grid", most=None)], image_commands=COMMAND
    )
    assert summary.status == "Succeeded", summary.reason
    response = plain(row(runs).response)
    told = {one["TunedHyperParameters"]["x"]: one for one in response["TrainingJobSummaries"]}
    assert [told[x]["TrainingJobStatus"] for x in ("good", "bad", "silent")] == ["Completed", "Failed", "Completed"]
    assert [told[x]["ObjectiveStatus"] for x in ("good", "bad", "silent")] == ["Succeeded", "Failed", "Failed"]
    assert "x is bad" in told["bad"]["FailureReason"]
    assert response["TrainingJobSummaries"][0] == told["good"]
    assert response["TrainingJobStatusCounters"]["NonRetryableError"] == 1
    assert row(runs).value == "best loss 0.5000 (training 003 of 3: x good; 1 failed)"


def test_after_five_failures_the_tuning_fails(runs: LocalRuns) -> None:
    program = "import sys; sys.exit('no such data')"
    summary = runs.start([tuning(training(runs, program), most=20)], image_commands=COMMAND)
    assert summary.status == "Failed"
    assert "No training job succeeded after 5 attempts. The first to fail was 001: " in str(summary.reason)
    log = next(runs.home.runs.glob("*/tune/attempt-1/logs/tuning.log")).read_text()
    assert log.count("Failed, no objective") == 5


def test_trainings_that_log_no_objective_are_told_of(runs: LocalRuns) -> None:
    summary = runs.start([tuning(training(runs, "print('accuracy 1')"), most=2)], image_commands=COMMAND)
    assert summary.status == "Failed"
    assert "No objective metrics found after running 2 training jobs" in str(summary.reason)


def test_the_service_s_own_algorithms_need_no_metric_definitions(runs: LocalRuns) -> None:
    program = """
        print("[2]#011train-auc:0.99#011validation-auc:0.75")
        print("[3]#011train-auc:0.99#011validation-auc:0.8125")
    """
    definition = training(runs, program, metrics={})
    summary = runs.start([tuning(definition, most=1, objective=("Maximize", "validation:auc"))], image_commands=COMMAND)
    assert summary.status == "Succeeded", summary.reason
    metric = plain(row(runs).response)["BestTrainingJob"]["FinalHyperParameterTuningJobObjectiveMetric"]
    assert metric == {"Type": "Maximize", "MetricName": "validation:auc", "Value": 0.8125}


def test_script_mode_decodes_what_the_sdk_encoded(runs: LocalRuns) -> None:
    script = b"""
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--optimizer"); parser.add_argument("--epochs", type=int); parser.add_argument("--rate", type=float)
given = parser.parse_args()
print(f"loss={given.rate + given.epochs:.1f};", given.optimizer == "adam")
"""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("train.py")
        entry.size = len(script)
        archive.addfile(entry, io.BytesIO(script))
    uri = runs.put("code/source.tar.gz", packed.getvalue())
    static = {"sagemaker_program": '"train.py"', "sagemaker_submit_directory": json.dumps(uri), "epochs": "3"}
    ranges = {
        **categories(optimizer=['"adam"']),
        "ContinuousParameterRanges": [{"Name": "rate", "MinValue": "0.5", "MaxValue": "0.5"}],
    }
    summary = runs.start([tuning(training(runs, static=static), ranges=ranges, most=1)])
    assert summary.status == "Succeeded", summary.reason
    log = next(runs.home.runs.glob("*/tune/attempt-1/logs/001/*.log")).read_text()
    assert "loss=3.5; True" in log


def test_each_training_has_checkpoints_of_its_own(runs: LocalRuns) -> None:
    program = """
        from pathlib import Path
        folder = Path("/opt/ml/checkpoints")
        assert list(folder.iterdir()) == []
        (folder / "state").write_text("1")
        print("loss=1;")
    """
    definition = training(runs, program, CheckpointConfig={"S3Uri": f"{BUCKET}/checkpoints/"})
    summary = runs.start([tuning(definition, most=2, parallel=2)], image_commands=COMMAND, max_parallel=2)
    assert summary.status == "Succeeded", summary.reason
    names = {one["TrainingJobName"] for one in plain(row(runs).response)["TrainingJobSummaries"]}
    assert {path.name for path in runs.store.path(f"{BUCKET}/checkpoints").iterdir()} == names


def test_several_definitions_take_turns_and_one_is_best(runs: LocalRuns) -> None:
    programs = {"first": "print('loss=0.5;')", "second": "print('error: 0.25')"}
    metrics = {"first": {"loss": "loss=([0-9.]+);"}, "second": {"error": "error: ([0-9.]+)"}}
    ranges = {"first": categories(x=["1"]), "second": categories(x=["1", "2", "3"])}
    definitions = [
        training(
            runs, programs[name], step=name, metrics=metrics[name], DefinitionName=name,
            HyperParameterRanges=ranges[name],
            TuningObjective={"Type": "Minimize", "MetricName": next(iter(metrics[name]))},
        )
        for name in programs
    ]  # fmt: skip
    step = tuning(None, strategy="Grid", most=None, objective=None, arguments={"TrainingJobDefinitions": definitions})
    summary = runs.start([step], image_commands=COMMAND)
    assert summary.status == "Succeeded", summary.reason
    response = plain(row(runs).response)
    in_order = sorted(response["TrainingJobSummaries"], key=lambda one: one["CreationTime"])
    assert [one["TrainingJobDefinitionName"] for one in in_order] == ["first", "second", "second", "second"]
    assert response["BestTrainingJob"]["TrainingJobDefinitionName"] == "second"
    assert row(runs).value == "best error 0.2500 (training 002 of 4: x 1)"


def test_a_target_ends_the_tuning(runs: LocalRuns) -> None:
    ranges = categories(x=["0.9", "0.3", "0.5"])
    criteria = {"TargetObjectiveMetricValue": 0.01}
    step = tuning(training(runs), ranges=ranges, strategy="Grid", most=None, TuningJobCompletionCriteria=criteria)
    runs.start([step], image_commands=COMMAND)
    response = plain(row(runs).response)
    assert len(response["TrainingJobSummaries"]) == 2
    assert response["Drivetrain"]["over"] == "the target 0.01 was reached"


def test_a_job_whose_supervisor_died_is_tried_again_as_often_as_it_may(
    runs: LocalRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [1]
    train = training_step.train

    def dies_once(*given: Any, **more: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise StepFailedError("the supervisor died", JOB_INTERNAL_ERROR)
        return train(*given, **more)

    monkeypatch.setattr(training_step, "train", dies_once)
    definition = training(runs, RetryStrategy={"MaximumRetryAttempts": 1})
    summary = runs.start([tuning(definition, most=2)], image_commands=COMMAND)
    assert summary.status == "Succeeded", summary.reason
    counters = plain(row(runs).response)["TrainingJobStatusCounters"]
    assert (counters["Completed"], counters["NonRetryableError"]) == (2, 0)


def test_the_cache_goes_by_the_service_s_attributes(runs: LocalRuns) -> None:
    definition = training(runs)
    definition["OutputDataConfig"] = {"S3OutputPath": f"{BUCKET}/fixed"}

    def status(**change: Any) -> str | None:
        step = {**tuning({**definition, **change}, most=1), "CacheConfig": {"Enabled": True}}
        runs.start([step], image_commands=COMMAND)
        return row(runs).status

    assert status() == "Succeeded"
    other = {"InstanceType": "ml.m5.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30}
    assert status(ResourceConfig=other) == "Cached"
    assert status(StaticHyperParameters={"epochs": "2"}) == "Succeeded"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strategy": "Annealing"}, "step 'tune': Strategy is 'Annealing'"),
        ({"objective": ("Minimize", "mse")}, "the objective 'mse' has no MetricDefinition.*Given: loss"),
        ({"arguments": {"WarmStartConfig": {"WarmStartType": "TransferLearning"}}}, "WarmStartConfig goes on from"),
        ({"strategy": "Grid"}, "Grid searches categories alone"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(
    runs: LocalRuns, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        runs.start([tuning(training(runs), **given)], image_commands=COMMAND)
    assert runs.events == []


def test_the_training_itself_is_checked_before_anything_starts(runs: LocalRuns) -> None:
    with pytest.raises(UserError, match="Give --image-command"):
        runs.start([tuning(training(runs))])
    definition = training(runs)
    definition["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] = f"{BUCKET}/nowhere"
    with pytest.raises(UserError, match="reads s3://bucket/nowhere, and nothing is there"):
        runs.start([tuning(definition)], image_commands=COMMAND)


def test_limits_that_another_step_gives_are_read_when_it_runs(runs: LocalRuns) -> None:
    program = """
        from pathlib import Path
        Path("/opt/ml/processing/output/out/most.json").write_text('{"most": 2, "low": "0.75"}')
    """
    count = runs.processing("count", program, outputs=["out"])
    count["PropertyFiles"] = [{"PropertyFileName": "Most", "OutputName": "out", "FilePath": "most.json"}]
    most = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.count.PropertyFiles.Most"}, "Path": "most"}}
    low = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.count.PropertyFiles.Most"}, "Path": "low"}}
    ranges = {"ContinuousParameterRanges": [{"Name": "x", "MinValue": low, "MaxValue": "0.75"}]}
    definition = training(runs, HyperParameterRanges=ranges, TuningObjective={"Type": "Minimize", "MetricName": "loss"})
    step = tuning(definition, most=most, objective=None)
    summary = runs.start([count, step], image_commands=COMMAND)
    assert summary.status == "Succeeded", summary.reason
    summaries = plain(row(runs).response)["TrainingJobSummaries"]
    assert [one["TunedHyperParameters"] for one in summaries] == [{"x": "0.75"}] * 2


def test_a_stubbed_tuning_gives_what_it_is_told(runs: LocalRuns) -> None:
    stub = {"BestTrainingJob": {"TrainingJobName": "best-one"}}
    summary = runs.start([tuning(training(runs))], stubs={"tune": stub})
    assert summary.status == "Succeeded" and row(runs).response["BestTrainingJob"] == stub["BestTrainingJob"]


def test_names_fit_the_service() -> None:
    assert tuning_name("pipelines-0123456789ab-tune") == "pipelines-0123456789ab-tune"
    long, other = (tuning_name(f"pipelines-0123456789ab-ChurnHyperParameterTuning{n}") for n in (1, 2))
    assert len(long) <= 32 and long.startswith("pipelines-0123456789ab") and long != other


def best_model(step: str) -> dict[str, Any]:
    """As the SDK's get_top_model_s3_uri has it."""
    return join(
        {"Get": f"Steps.{step}.TrainingJobDefinition.OutputDataConfig.S3OutputPath"},
        {"Get": f"Steps.{step}.TrainingJobSummaries[0].TrainingJobName"},
        "output/model.tar.gz",
    )


@pytest.mark.parametrize("named", [{}, {"BestTrainingJob": {"TrainingJobName": "best-one"}}])
def test_a_stub_can_give_the_best_model_to_those_that_look_for_it(
    runs: LocalRuns, tmp_path: Path, named: dict[str, Any]
) -> None:
    if named:
        named = {**named, "TrainingJobSummaries": [named["BestTrainingJob"]]}
    (tmp_path / "m.tar.gz").write_bytes(b"weights")
    program = """
        from pathlib import Path
        text = Path("/opt/ml/processing/input/model/model.tar.gz").read_text()
        Path("/opt/ml/processing/output/out/found.txt").write_text(text)
    """
    after = runs.processing("after", program, inputs={"model": best_model("tune")}, outputs=["out"])
    stub = {**named, "OutputFolders": {"model": str(tmp_path / "m.tar.gz")}}
    summary = runs.start([tuning(training(runs)), after], stubs={"tune": stub})
    assert summary.status == "Succeeded", summary.reason
    assert runs.read(f"{BUCKET}/runs/{summary.execution}/after/out/found.txt") == "weights"


@pytest.mark.parametrize(
    "path", ["BestTrainingJob.TunedHyperParameters['x']", "TrainingJobSummaries[0].ObjectiveStatus"]
)
def test_a_stub_must_give_the_results_of_the_search(runs: LocalRuns, path: str) -> None:
    after = runs.processing("after", "", arguments=[{"Get": f"Steps.tune.{path}"}])
    with pytest.raises(UserError, match=r"--stub tune gives no '\w+'\. Give it in the stub's file"):
        runs.start([tuning(training(runs)), after], stubs={"tune": {}})


UNHEALTHY = """
import json
from pathlib import Path
finding = {"rule": "nan_or_inf", "step": 9, "action": "fail", "text": "the loss is nan", "advice": "Lower it."}
Path("/opt/ml/output/data/health").mkdir(parents=True)
Path("/opt/ml/output/data/health/health.json").write_text(json.dumps({"findings": [finding]}))
print("loss=1.0;")
"""


def test_a_tuning_whose_best_training_failed_a_health_rule_says_so(runs: LocalRuns) -> None:
    ranges = categories(x=["1"])
    summary = runs.start(
        [tuning(training(runs, UNHEALTHY), ranges=ranges, strategy="Grid", most=1)], image_commands=COMMAND
    )
    assert summary.status == "Succeeded", summary.reason
    assert unhealthy_part(row(runs).value) == "nan_or_inf at step 9: the loss is nan. Lower it."
    with Ledger(runs.home) as ledger:
        assert ledger.execution("latest").shown_status == "Unhealthy"
        page = str(tunings_section(run_facts(ledger, summary.execution).tunings))
    assert "status is-unhealthy" in page
