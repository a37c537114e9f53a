"""Definitions that cannot run: one clear error before anything starts, whatever is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.reader import Ledger
from tests.fixtures.local_runs import BUCKET, LocalRuns, join, output_of

Change = Callable[[dict[str, Any]], Any]


def processing(runs: LocalRuns, change: Change) -> dict[str, Any]:
    step = runs.processing("a", "pass", outputs=["out"], arguments=["x"], environment={"A": "1"}, max_run=60)
    change(step["Arguments"])
    return step


def training(runs: LocalRuns, change: Change) -> dict[str, Any]:
    step = runs.training("a", "pass", hyperparameters={"h": "1"}, checkpoints=f"{BUCKET}/c/", metrics={"m": "m=(.)"})
    change(step["Arguments"])
    return step


def setting(*path: Any) -> Change:
    """Set the value at a path (its last part)."""
    *way, key, value = path

    def change(arguments: dict[str, Any]) -> None:
        place: Any = arguments
        for part in way:
            place = place[part]
        place[key] = value

    return change


OUTPUT = ("ProcessingOutputConfig", "Outputs", 0, "S3Output")


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (processing, setting("AppSpecification", "ContainerArguments", ["x\0y"]), "NUL"),
        (processing, setting("Environment", "A", "x\0y"), "NUL"),
        (processing, setting("AppSpecification", "ContainerArguments", ["\ud800"]), "half of a character"),
        (processing, setting("AppSpecification", "ContainerEntrypoint", "python3 x.py"), "a list of words"),
        (processing, setting("AppSpecification", None), "names no ContainerEntrypoint"),
        (processing, setting("Environment", "A=B", "1"), "without '='"),
        (processing, setting("Environment", ["A"]), "an object of names and values"),
        (processing, setting("ProcessingInputs", {"a": 1}), "a list of objects"),
        (processing, setting("ProcessingResources", "ClusterConfig", "InstanceCount", "two"), "a whole number"),
        (processing, setting("ProcessingResources", "ClusterConfig", "InstanceCount", 0), "1 to 254"),
        (processing, setting("StoppingCondition", "MaxRuntimeInSeconds", "soon"), "whole number of seconds"),
        (processing, setting(*OUTPUT, "S3Uri", "s3://bucket/../../etc"), "'..'"),
        (processing, setting(*OUTPUT, "S3Uri", "https://bucket/x"), "s3://bucket/key"),
        (processing, setting(*OUTPUT, "S3Uri", "s3://b/" + "x" * 300), "longer than 255"),
        (processing, setting(*OUTPUT, "LocalPath", "/etc"), "a path below /opt/ml/processing/"),
        (processing, setting(*OUTPUT, "LocalPath", "/opt/ml/processing/../../x"), "a path below /opt/ml/processing/"),
        (processing, setting(*OUTPUT, "LocalPath", "/opt/ml/processing/" + "x" * 300), "longer than 255"),
        (training, setting("HyperParameters", []), "an object of names and values"),
        (training, setting("OutputDataConfig", {}), "S3OutputPath"),
        (training, setting("CheckpointConfig", "LocalPath", "/etc"), "a path below /opt/ml/"),
        (training, setting("CheckpointConfig", {}), "S3Uri is None"),
        (training, setting("InputDataConfig", 0, "ChannelName", "../x"), "'../x'"),
        (training, setting("AlgorithmSpecification", "MetricDefinitions", 0, "Regex", "("), "cannot be read"),
        (training, setting("ResourceConfig", "InstanceCount", 9999), "1 to 254"),
        (processing, setting("ProcessingResources", "x"), 'ProcessingResources: "x" is text. Allowed: an object'),
        (processing, setting("ProcessingOutputConfig", "x"), 'ProcessingOutputConfig: "x" is text'),
        (processing, setting("ProcessingInputs", 0, "S3Input", "LocalPath", 5), "LocalPath is 5"),
        (processing, setting("ProcessingInputs", 0, "S3Input", "S3Uri", 5), "S3Uri is 5"),
    ],
)
def test_a_definition_that_cannot_run_is_refused(
    runs: LocalRuns, make: Callable[[LocalRuns, Change], dict[str, Any]], change: Change, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        runs.start([make(runs, change)])
    assert message in str(caught.value)
    assert "'a'" in str(caught.value)
    assert runs.events == []
    with Ledger(runs.home) as ledger:
        assert ledger.executions() == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("ProcessingOutputConfig.Outputs['ouy'].S3Output.S3Uri", "no output 'ouy'. Did you mean 'out'?"),
        ("ProcessingOutputConfg.Outputs['out'].S3Output.S3Uri", "Did you mean 'ProcessingOutputConfig'?"),
    ],
)
def test_a_reference_to_what_no_step_gives_is_found_before_anything_starts(
    runs: LocalRuns, path: str, said: str
) -> None:
    steps = [
        runs.processing("first", "pass", outputs=["out"]),
        runs.processing("second", "pass", inputs={"data": {"Get": f"Steps.first.{path}"}}),
    ]
    with pytest.raises(UserError) as caught:
        runs.start(steps)
    assert said in str(caught.value) and runs.events == []


def test_a_backslash_before_u0000_is_only_text(runs: LocalRuns) -> None:
    assert runs.start([runs.processing("a", "pass", arguments=["\\u0000"])]).status == "Succeeded"


def test_a_parameter_that_is_no_text_is_refused(runs: LocalRuns) -> None:
    parameters = [{"Name": "word", "Type": "String"}]
    with pytest.raises(UserError, match="a parameter's value holds"):
        runs.start([], {"word": os.fsdecode(b"\xff")}, parameters=parameters)


def test_errors_known_only_at_run_time_fail_the_step(runs: LocalRuns) -> None:
    program = "open('/opt/ml/processing/output/out/n.json', 'w').write('{\"name\": \"../../../etc\", \"half\": 3')"
    first = runs.processing("first", program, outputs=["out"])
    first["PropertyFiles"] = [{"PropertyFileName": "N", "OutputName": "out", "FilePath": "n.json"}]
    value = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.first.PropertyFiles.N"}, "Path": "name"}}
    second = runs.processing("second", "pass", inputs={"data": join("s3://bucket", value)})
    summary = runs.start([first, second])
    assert summary.status == "Failed" and "property file 'N' of step 'first'" in str(summary.reason)
    first["Arguments"]["AppSpecification"]["ContainerEntrypoint"] = ["python3", "-c", program.replace(": 3", ": 3}")]
    summary = runs.start([first, second])
    assert summary.status == "Failed" and "'..'" in str(summary.reason)
    assert runs.statuses() == {"first": "Succeeded", "second": "Failed"}


def test_an_empty_output_is_named_by_who_did_not_write_it(runs: LocalRuns) -> None:
    steps = [
        runs.processing("first", "pass", outputs=["out"]),
        runs.processing("second", "pass", inputs={"data": output_of("first", "out")}),
    ]
    summary = runs.start(steps)
    assert summary.reason is not None
    assert summary.reason.startswith(
        "second: error: input 'data' is empty: step 'first' wrote nothing to s3://bucket/runs/"
    )


def test_an_output_whose_place_is_taken_fails_its_step_and_leaves_nothing_half_done(runs: LocalRuns) -> None:
    program = "open('/opt/ml/processing/output/out/x', 'w').write('x')"
    runs.put("taken", "a file where a folder is wanted")
    steps = [
        runs.processing("a", program, outputs=["out"]),
        runs.processing("b", program, outputs=["out"]),
    ]
    setting(*OUTPUT, "S3Uri", f"{BUCKET}/taken/out")(steps[0]["Arguments"])
    summary = runs.start(steps)
    assert summary.status == "Failed" and "a file here and a folder there" in str(summary.reason)
    assert runs.statuses() == {"a": "Failed", "b": "Succeeded"}
    with Ledger(runs.home) as ledger:
        assert ledger.objects(summary.execution, "a") == []


def reading(*path: str) -> dict[str, Any]:
    arguments = {"read": {"Get": ".".join(path)}}
    return {"Name": "reader", "Type": "Lambda", "FunctionArn": "f", "Arguments": arguments}


def test_missing_outputs_of_other_steps_are_reported_before_anything_starts(runs: LocalRuns, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(event, context):\n    return {'known': 'x'}\n")
    functions = {"f": f"{tmp_path / 'f.py'}:f"}
    outputs = [{"OutputName": "known", "OutputType": "String"}]
    source = {"Name": "source", "Type": "Lambda", "FunctionArn": "f", "Arguments": {}, "OutputParameters": outputs}
    with pytest.raises(UserError, match=r"'source' declares no output 'knwon'\. Did you mean 'known'"):
        runs.start([source, reading("Steps.source.OutputParameters['knwon']")], functions=functions)
    body = {"IterableItems": ["a"], "MaxConcurrency": 1, "ForEachBody": [{**source, "Name": "inner"}]}
    loop = {"Name": "loop", "Type": "ForEach", "Arguments": body}
    with pytest.raises(UserError, match=r"'loop' has 1 items, so its iterations are 0 to 0\."):
        runs.start([loop, reading("Steps.loop.IterationOutputs[5].inner.FunctionArn")], functions=functions)
    read = reading("Steps.source.OutputParameters['known']")
    assert runs.start([source, read], functions=functions).status == "Succeeded"


def test_a_stub_that_lacks_what_another_step_reads_is_found_before_anything_starts(
    runs: LocalRuns, tmp_path: Path
) -> None:
    (tmp_path / "f.py").write_text("def f(event, context):\n    return {}\n")
    functions = {"f": f"{tmp_path / 'f.py'}:f"}
    outputs = [{"OutputName": "known", "OutputType": "String"}]
    source = {"Name": "source", "Type": "Lambda", "FunctionArn": "g", "Arguments": {}, "OutputParameters": outputs}
    read = reading("Steps.source.OutputParameters['known']")
    for stub in ({}, {"OutputParameters": {"other": 1}}):
        with pytest.raises(UserError, match=r"--stub source gives no 'OutputParameters'\. Give it in the stub's file"):
            runs.start([source, read], functions=functions, stubs={"source": stub})
    given = {"source": {"OutputParameters": {"known": "x"}}}
    assert runs.start([source, read], functions=functions, stubs=given).status == "Succeeded"
    query = {"Name": "source", "Type": "Athena", "Arguments": {"Query": "q"}}
    with pytest.raises(UserError, match="--stub source gives no 'QueryId'"):
        runs.start([query, reading("Steps.source.QueryId")], functions=functions, stubs={"source": {}})
    same = reading("Steps.source.Query")
    assert runs.start([query, same], functions=functions, stubs={"source": {}}).status == "Succeeded"
    # Of a branch nobody knows before the run whether it is taken.
    conditions = [{"Type": "Equals", "LeftValue": 1, "RightValue": 2}]
    branch = {"Conditions": conditions, "IfSteps": [reading("Steps.source.QueryId")], "ElseSteps": []}
    gate = {"Name": "gate", "Type": "Condition", "Arguments": branch}
    assert runs.start([query, gate], functions=functions, stubs={"source": {}}).status == "Succeeded"


def test_a_stub_without_the_model_that_is_read_is_found_before_anything_starts(runs: LocalRuns, tmp_path: Path) -> None:
    model = {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}
    train = runs.training("train", "pass")
    registered = {"InferenceSpecification": {"Containers": [{"Image": "i", "ModelDataUrl": model}]}}
    for use in (
        runs.processing("use", "pass", inputs={"model": model}),
        {"Name": "use", "Type": "Model", "Arguments": {"PrimaryContainer": {"Image": "i", "ModelDataUrl": model}}},
        {"Name": "use", "Type": "RegisterModel", "Arguments": {"ModelPackageGroupName": "g", **registered}},
    ):
        with pytest.raises(
            UserError, match=r"step 'use' reads the output 'model' of 'train', and --stub train brings n"
        ):
            runs.start([train, use], stubs={"train": {}})
        assert runs.start([train, use], stubs={"train": {}, "use": {}}).status == "Succeeded"
    (tmp_path / "model.tar.gz").write_bytes(b"x")
    brought = {"train": {"OutputFolders": {"model": str(tmp_path / "model.tar.gz")}}}
    use = runs.processing("use", "pass", inputs={"model": model})
    assert runs.start([train, use], stubs=brought).status == "Succeeded"
    # Its place as a text asks for no file.
    told = runs.processing("use", "pass", environment={"MODEL": model})
    assert runs.start([train, told], stubs={"train": {}}).status == "Succeeded"


def test_a_stub_without_the_output_that_is_read_is_found_before_anything_starts(
    runs: LocalRuns, tmp_path: Path
) -> None:
    prepare = runs.processing("prepare", "pass", outputs=["train", "test"])
    place = {"Get": "Steps.prepare.ProcessingOutputConfig.Outputs['train'].S3Output.S3Uri"}
    first = {"Get": "Steps.prepare.ProcessingOutputConfig.Outputs[0].S3Output.S3Uri"}
    joined = {"Std:Join": {"On": "/", "Values": [place, "part"]}}
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "part").write_text("x")
    brought = {"prepare": {"OutputFolders": {"train": str(folder)}}}
    for given in (place, first, joined):
        use = runs.processing("use", "pass", inputs={"data": given})
        for stub in ({}, {"OutputFolders": {"test": str(folder)}}):
            with pytest.raises(UserError, match=r"'use' reads the output 'train' of 'prepare', and --stub prepare bri"):
                runs.start([prepare, use], stubs={"prepare": stub})
        assert runs.start([prepare, use], stubs={"prepare": {}, "use": {}}).status == "Succeeded"
    # Whoever writes below it, reads nothing.
    below = runs.processing("use", "pass", outputs=["own"])
    below["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = joined
    assert runs.start([prepare, below], stubs={"prepare": {}}).status == "Succeeded"
    # The place written out, with the same answer; and once an earlier run has left something there, it is read.
    fixed = "s3://bucket/fixed/train"
    prepare["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = fixed
    use = runs.processing("use", "pass", inputs={"data": fixed}, DependsOn=["prepare"])
    with pytest.raises(UserError, match=r"'use': input 'data' reads s3://bucket/fixed/train, and nothing is there"):
        runs.start([prepare, use], stubs={"prepare": {}})
    assert runs.start([prepare, use], stubs=brought).status == "Succeeded"
    assert runs.start([prepare, use], stubs={"prepare": {}}).status == "Succeeded"
    use = runs.processing("use", "pass", inputs={"data": place})
    assert runs.start([prepare, use], stubs={"prepare": {}}).status == "Succeeded"


def test_a_stubbed_tuning_without_its_best_model_is_found_before_anything_starts(runs: LocalRuns) -> None:
    tune = {"Name": "tune", "Type": "Tuning", "Arguments": {"HyperParameterTuningJobConfig": {}}}
    for job in ("TrainingJobSummaries[0]", "BestTrainingJob"):
        name = {"Get": f"Steps.tune.{job}.TrainingJobName"}
        model = {"Std:Join": {"On": "/", "Values": ["s3:/", "bucket", name, "output/model.tar.gz"]}}
        use = {"Name": "use", "Type": "Model", "Arguments": {"PrimaryContainer": {"Image": "i", "ModelDataUrl": model}}}
        with pytest.raises(UserError, match=r"'use' reads the output 'model' of 'tune', and --stub tune brings none"):
            runs.start([tune, use], stubs={"tune": {}})
        told = runs.processing("use", "pass", environment={"BEST": name})
        assert runs.start([tune, told], stubs={"tune": {}}).status == "Succeeded"
