"""Step caching: what the service looks at, what it does not, and what is said about both."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from drivetrain.base.masking import Masking
from drivetrain.run_store.events import CacheExplained, StepFinished, StepStarted
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.document.document import from_json
from drivetrain.targets.sagemaker.document.step_types import STEP_TYPES, key_fields, key_of
from drivetrain.targets.sagemaker.run.execution.cache import look_up
from drivetrain.targets.sagemaker.run.execution.cache_differences import differences, reasons
from tests.fixtures.local_runs import BUCKET, LocalRuns, model_of, output_of

COUNT = """
from pathlib import Path
import sys
text = " ".join(sys.argv[1:])
for path in sorted(Path("/opt/ml/processing/input").rglob("*.txt")):
    text += path.read_text()
Path("/opt/ml/processing/output/out/x.txt").write_text(text)
"""


def pipeline(runs: LocalRuns, words: tuple[str, ...] = ("--max-digits", "4"), **fields: Any) -> list[dict[str, Any]]:
    return [
        runs.processing("prepare", COUNT, outputs=["out"], cache=True, **fields),
        runs.processing(
            "evaluate",
            COUNT,
            inputs={"data": output_of("prepare", "out")},
            outputs=["out"],
            arguments=words,
            cache=True,
        ),
    ]


def finished(runs: LocalRuns) -> dict[str, StepFinished]:
    return {event.step: event for event in runs.of(StepFinished)}


def test_an_equal_run_takes_everything_from_the_cache_and_gives_the_earlier_uris(runs: LocalRuns) -> None:
    first = runs.start(pipeline(runs))
    second = runs.start(pipeline(runs))
    assert runs.statuses() == {"prepare": "Cached", "evaluate": "Cached"}
    assert {event.cache_of for event in runs.of(StepFinished)} == {first.execution}
    assert runs.of(StepStarted) == []
    with Ledger(runs.home) as ledger:
        [_, evaluate] = ledger.steps(second.execution)
    [output] = evaluate.response["ProcessingOutputConfig"]["Outputs"]
    assert output["S3Output"]["S3Uri"] == f"{BUCKET}/runs/{first.execution}/evaluate/out"
    # The earlier execution's URI is what evaluate's own key holds: so the second hit follows from the first.
    [data, _] = evaluate.arguments["ProcessingInputs"]
    assert data["S3Input"]["S3Uri"] == f"{BUCKET}/runs/{first.execution}/prepare/out"


def test_a_changed_argument_runs_the_step_and_says_why(runs: LocalRuns) -> None:
    runs.start(pipeline(runs))
    runs.start(pipeline(runs, ("--max-digits", "3")))
    assert runs.statuses() == {"prepare": "Cached", "evaluate": "Succeeded"}
    [started] = runs.of(StepStarted)
    assert (started.step, started.why) == ("evaluate", ("max_digits 4 -> 3",))
    with Ledger(runs.home) as ledger:
        assert ledger.step(ledger.execution("latest").id, "evaluate").why == ("max_digits 4 -> 3",)


def test_a_step_that_runs_again_makes_those_after_it_run(runs: LocalRuns) -> None:
    runs.start(pipeline(runs))
    runs.start(pipeline(runs, environment={"SEED": "1"}))
    assert [(event.step, event.why) for event in runs.of(StepStarted)] == [
        ("prepare", ("SEED is new: 1",)),
        ("evaluate", ("input data: upstream prepare re-ran",)),
    ]


def test_changes_ignored_by_the_service_hit_with_a_warning(runs: LocalRuns) -> None:
    runs.start(pipeline(runs))
    changed = COUNT.replace("sorted(", "list(")
    steps = pipeline(runs)
    steps[0]["Arguments"]["ProcessingResources"]["ClusterConfig"]["InstanceType"] = "ml.m5.xlarge"
    steps[0]["Arguments"]["RoleArn"] = "arn:aws:iam::000000000000:role/Other"
    runs.put("code/prepare/prepare.py", changed)
    runs.start(steps, explain_cache=True)
    assert runs.statuses() == {"prepare": "Cached", "evaluate": "Cached"}
    instance, code = finished(runs)["prepare"].why
    assert instance == "InstanceType ml.m5.large -> ml.m5.xlarge, which the cache does not look at"
    assert code.startswith("input code: the bytes under s3://bucket/code/prepare/prepare.py have changed since")
    prepare, evaluate = runs.of(CacheExplained)
    assert prepare.hit and prepare.warnings == (instance, code)
    assert evaluate.hit and evaluate.warnings == ()


def test_touching_a_file_without_changing_it_warns_of_nothing(runs: LocalRuns) -> None:
    runs.start(pipeline(runs))
    runs.store.path(f"{BUCKET}/code/prepare/prepare.py").touch()
    runs.start(pipeline(runs))
    assert finished(runs)["prepare"].why == ()


def test_outputs_that_are_gone_are_a_miss_that_says_so(runs: LocalRuns) -> None:
    first = runs.start(pipeline(runs))
    shutil.rmtree(runs.store.path(f"{BUCKET}/runs/{first.execution}/prepare"))
    runs.start(pipeline(runs), explain_cache=True)
    explained = runs.of(CacheExplained)[0]
    assert not explained.hit
    [reason] = explained.reasons
    assert "prepare/out/x.txt" in reason and "is gone or changed" in reason
    # Nobody has to ask for it: the table of the run and the ledger say so, too.
    assert next(event.why for event in runs.of(StepStarted) if event.step == "prepare") == (reason,)


def test_outputs_that_another_run_overwrote_are_a_miss(runs: LocalRuns) -> None:
    def steps(word: str) -> list[dict[str, Any]]:
        step = runs.processing("s", COUNT, outputs=["out"], arguments=[word], cache=True)
        step["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = f"{BUCKET}/fixed"
        return [step]

    for word in ("1", "2", "1"):
        runs.start(steps(word), explain_cache=True)
        assert runs.statuses() == {"s": "Succeeded"}
        assert runs.read(f"{BUCKET}/fixed/x.txt") == word
    assert f"{BUCKET}/fixed/x.txt" in runs.of(CacheExplained)[0].reasons[0]
    # The third run wrote it as the first had; and a time that changed alone is no change.
    runs.store.path(f"{BUCKET}/fixed/x.txt").touch()
    runs.start(steps("1"))
    assert runs.statuses() == {"s": "Cached"}


def test_a_transform_is_not_taken_from_the_cache_though_it_has_a_key(runs: LocalRuns) -> None:
    step = {"Name": "ask", "Type": "Transform", "Arguments": {"ModelName": "digits"}, "CacheConfig": {"Enabled": True}}
    [node] = from_json({"Steps": [step]}).steps
    assert key_fields(node.type, node.arguments) == {"ModelName": "digits"}
    with Ledger(runs.home) as ledger:
        found = look_up(
            node, node.arguments, execution="x", pipeline="p", ledger=ledger, store=runs.store, masking=Masking()
        )
    assert not found.hit and found.reasons == ("its model is created anew in each execution",)


def test_a_result_expires(runs: LocalRuns) -> None:
    steps = [runs.processing("s", COUNT, outputs=["out"], cache="T1H")]
    runs.start(steps)
    runs.start(steps)
    assert runs.statuses() == {"s": "Cached"}
    with closing(sqlite3.connect(runs.home.ledger)) as connection, connection:
        connection.execute("UPDATE steps SET ended = ended - 3700 WHERE status = 'Succeeded'")
    runs.start(steps, explain_cache=True)
    assert runs.statuses() == {"s": "Succeeded"}
    assert runs.of(CacheExplained)[0].reasons[0].endswith("is older than T1H")
    assert runs.of(StepStarted)[0].why == runs.of(CacheExplained)[0].reasons


def test_only_successes_of_this_pipeline_with_caching_on_are_taken(runs: LocalRuns) -> None:
    flag = runs.put("flag.txt", "no")
    program = """
        from pathlib import Path
        assert Path("/opt/ml/processing/input/flag/flag.txt").read_text() == "yes"
    """
    steps = [runs.processing("s", program, inputs={"flag": flag}, cache=True)]
    assert runs.start(steps).status == "Failed"
    runs.put("flag.txt", "yes")
    assert runs.start(steps).status == "Succeeded"
    assert runs.of(StepStarted)[0].step == "s"
    runs.start(steps, pipeline="another")
    assert runs.statuses() == {"s": "Succeeded"}
    runs.start(steps, cache=False)
    assert runs.statuses() == {"s": "Succeeded"}
    del steps[0]["CacheConfig"]
    runs.start(steps)
    assert runs.statuses() == {"s": "Succeeded"}


def test_training_takes_its_model_from_the_cache(runs: LocalRuns) -> None:
    program = "open('/opt/ml/model/w', 'w').write('w')"
    steps = [
        runs.training("train", program, hyperparameters={"epochs": '"3"'}, cache=True),
        runs.processing("use", COUNT, inputs={"model": model_of("train")}, outputs=["out"], cache=True),
    ]
    runs.start(steps)
    runs.start(steps)
    assert runs.statuses() == {"train": "Cached", "use": "Cached"}
    steps[0] = runs.training("train", program, hyperparameters={"epochs": '"4"'}, cache=True)
    runs.start(steps)
    assert [event.why for event in runs.of(StepStarted)] == [
        ("epochs 3 -> 4",),
        ("input model: upstream train re-ran",),
    ]


def test_the_key_holds_the_documented_attributes_and_nothing_else(runs: LocalRuns) -> None:
    step = runs.processing("s", COUNT, outputs=["out"], environment={"A": "1"})
    fields = key_fields("Processing", step["Arguments"])
    assert fields is not None and set(fields) == set(STEP_TYPES["Processing"].key or ())
    assert key_fields("Lambda", {}) is None
    base = key_of("Processing", fields)
    assert base == key_of("Processing", dict(reversed(fields.items())))
    for name in fields:
        assert key_of("Processing", {**fields, name: {"changed": True}}) != base


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"Environment": {"A": "1"}}, {"Environment": {"A": "2"}}, "A 1 -> 2"),
        ({"Environment": {"A": "1"}}, {}, "A is gone"),
        ({"Environment": {"DRIVETRAIN_PROCESSES": "2"}}, {}, "processes 2 -> (not given)"),
        ({}, {"Environment": {"DRIVETRAIN_PROCESSES": "4"}}, "processes (not given) -> 4"),
        ({"HyperParameters": {"lr": "0.1"}}, {"HyperParameters": {"lr": "0.2"}}, "lr 0.1 -> 0.2"),
        (
            {"AppSpecification": {"ImageUri": "a:1"}},
            {"AppSpecification": {"ImageUri": "a:2"}},
            "image a:1 -> a:2",
        ),
        (
            {"AppSpecification": {"ContainerArguments": ["--code", "aa", "m:f", "--fast"]}},
            {"AppSpecification": {"ContainerArguments": ["--code", "bb", "m:f", "--fast"]}},
            "code changed",
        ),
        (
            {"AppSpecification": {"ContainerArguments": ["--x", "1"]}},
            {"AppSpecification": {"ContainerArguments": ["--x", "1", "--y", "2"]}},
            "y is new: 2",
        ),
        (
            {"InputDataConfig": [{"ChannelName": "d", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/1"}}}]},
            {"InputDataConfig": [{"ChannelName": "d", "DataSource": {"S3DataSource": {"S3Uri": "s3://b/2"}}}]},
            "input d: s3://b/1 -> s3://b/2",
        ),
        (
            {"InputDataConfig": [{"ChannelName": "d"}]},
            {"InputDataConfig": [{"ChannelName": "d"}, {"ChannelName": "e"}]},
            "input e is new",
        ),
        ({"Environment": {"TOKEN": "***"}}, {"Environment": {"TOKEN": "***", "B": "1"}}, "B is new: 1"),
        # Long ones are told by their ends, or from where they differ on where the ends are alike.
        (
            {"Environment": {"A": "1" * 60 + "x"}},
            {"Environment": {"A": "1" * 60 + "y"}},
            f"A ...{'1' * 44}x -> ...{'1' * 44}y",
        ),
        (
            {"AppSpecification": {"ImageUri": f"683313688378.dkr.ecr.us-east-1.amazonaws.com/{'pytorch' * 9}:1"}},
            {"AppSpecification": {"ImageUri": f"683313688378.dkr.ecr.eu-west-1.amazonaws.com/{'pytorch' * 9}:1"}},
            "image ...378.dkr.ecr.us-east-1.amazonaws.com/pytorchpy... -> "
            "...378.dkr.ecr.eu-west-1.amazonaws.com/pytorchpy...",
        ),
        (
            {"Environment": {"A": "a" + "1" * 60}},
            {"Environment": {"A": "1" * 60}},
            f"A a{'1' * 44}... -> {'1' * 45}...",
        ),
    ],
)
def test_differences_are_described_briefly(old: dict[str, Any], new: dict[str, Any], told: str) -> None:
    assert reasons(differences(old, new), lambda uri: None) == (told,)


def test_a_derived_checkpoint_folder_is_not_reported_too() -> None:
    old = {"HyperParameters": {"lr": "1"}, "CheckpointConfig": {"S3Uri": "s3://b/c/aa/"}}
    new = {"HyperParameters": {"lr": "2"}, "CheckpointConfig": {"S3Uri": "s3://b/c/bb/"}}
    assert reasons(differences(old, new), lambda uri: None) == ("lr 1 -> 2",)
    only = differences({**new, "CheckpointConfig": old["CheckpointConfig"]}, new)
    assert reasons(only, lambda uri: None) == ("CheckpointConfig.S3Uri s3://b/c/aa/ -> s3://b/c/bb/",)


def test_a_changed_secret_misses_without_being_shown(runs: LocalRuns) -> None:
    first = [runs.processing("s", COUNT, outputs=["out"], environment={"API_KEY": "canary-1"}, cache=True)]
    second = [runs.processing("s", COUNT, outputs=["out"], environment={"API_KEY": "canary-2"}, cache=True)]
    runs.start(first)
    runs.start(second, explain_cache=True)
    assert runs.statuses() == {"s": "Succeeded"}
    [explained] = runs.of(CacheExplained)
    assert "looks like a secret" in explained.reasons[0]
    assert "canary" not in repr(runs.events)
