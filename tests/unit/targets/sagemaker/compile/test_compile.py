"""What each kind of step becomes, and what compile refuses."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivetrain import (
    Alternative,
    CachePolicy,
    Cluster,
    Dependency,
    Deployment,
    NativeStep,
    Parameter,
    Pipeline,
    RetryPolicy,
    Schedule,
    SpecError,
    Spot,
    UserError,
    call_lambda,
    fail,
    folder_in,
    folder_out,
    join,
    register,
    script,
    step,
    when,
)
from drivetrain.base.json_text import parse
from drivetrain.components import Checkpoints, Input, Output, component
from drivetrain.components.train import train
from drivetrain.pipelines.retraining import Retraining, retraining
from drivetrain.steps import START_COMMAND
from drivetrain.steps import start as start_file
from drivetrain.studio import patch as patches
from drivetrain.targets.sagemaker.compile.compile import Compiled, compile_pipeline
from drivetrain.targets.sagemaker.deploy.wire import wire_text

RUN = {"Get": "Execution.PipelineExecutionId"}
FRESH = {"DRIVETRAIN_FRESH": {"Get": "Parameters.Fresh"}}
START = Path(start_file.__file__)


@component
def load(raw: Input, data: Output, max_rows: int = 5, fast: bool = False, label: str = "x") -> dict[str, float]:
    """Load."""
    return {}


@component(job="training", logs={"loss": r"loss=([0-9.]+)"}, resumable=["epochs"])
def fit(
    data: Input, model: Output, output: Output, checkpoints: Checkpoints, rate: float = 0.1, epochs: int = 1
) -> None:
    """Fit."""


def compiled(*steps: Any, **fields: Any) -> Compiled:
    return compile_pipeline(Pipeline(**{"name": "p", "steps": list(steps), **fields}))


def only(*steps: Any, **fields: Any) -> dict[str, Any]:
    """The JSON of the last step."""
    return compiled(*steps, **fields).definition["Steps"][-1]


def test_a_processing_step() -> None:
    rows = Parameter.integer("Rows", default=3)
    built = only(step(load, raw="s3://b/raw/", max_rows=rows, fast=True), parameters=[rows])
    arguments = built["Arguments"]
    code = arguments["ProcessingInputs"][-1]
    assert built["Type"] == "Processing"
    assert arguments["AppSpecification"]["ContainerEntrypoint"] == [
        *START_COMMAND,
        hashlib.sha256(START.read_bytes()).hexdigest(),
        "/opt/ml/processing/input/code/start.py",
    ]
    flags = arguments["AppSpecification"]["ContainerArguments"]
    assert flags[0] == "--code" and len(flags[1]) == 64 and flags[2].endswith(":load")
    assert flags[3:] == [
        *("--raw", "/opt/ml/processing/input/raw"),
        *("--data", "/opt/ml/processing/output/data"),
        *("--metrics", "/opt/ml/processing/output/metrics"),
        *("--max-rows", {"Std:Join": {"On": "", "Values": [{"Get": "Parameters.Rows"}]}}),
        *("--fast", "true"),
        *("--label", "x"),
    ]
    assert code["InputName"] == "code" and code["S3Input"]["S3Uri"].startswith(
        "s3://drivetrain-local/pipelines/p/code/"
    )
    assert arguments["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] == {
        "Std:Join": {"On": "/", "Values": ["s3://drivetrain-local/pipelines/p/steps/load", RUN, "data"]}
    }
    assert built["PropertyFiles"] == [
        {"PropertyFileName": "metrics", "OutputName": "metrics", "FilePath": "metrics.json"}
    ]
    assert built["CacheConfig"] == {"Enabled": True}


def test_a_long_text_is_passed_in_several_arguments() -> None:
    """Of a text of lines, too, which the service refuses; compile_pipeline checks against the service's shapes."""
    long, lines = "x" * 300, "a\nb"
    for label, passed in (
        (long, ["--label", long[:256], "--label.2", long[256:]]),
        (lines, ["--label.json", '"a\\nb"']),
    ):
        words = only(step(load, raw="s3://b/raw/", label=label))["Arguments"]["AppSpecification"]["ContainerArguments"]
        assert words[-len(passed) :] == passed


@pytest.mark.parametrize("kind", ["processing", "training"])
def test_only_the_start_file_that_was_deployed_is_run(kind: str, tmp_path: Path) -> None:
    arguments = only(step(load, raw="s3://b/raw/") if kind == "processing" else step(fit, data="s3://b/d/"))[
        "Arguments"
    ]
    job = arguments["AppSpecification" if kind == "processing" else "AlgorithmSpecification"]
    *words, path = job["ContainerEntrypoint"]
    assert path.endswith("/code/start.py") and max(map(len, words)) <= 256
    file = tmp_path / "start.py"
    file.write_bytes(START.read_bytes())
    command = [sys.executable, *words[1:], str(file), "--none"]
    whole = subprocess.run(command, capture_output=True, text=True, check=False)
    assert whole.returncode == 2 and "error: start.py: unknown option '--none'" in whole.stderr
    file.write_bytes(START.read_bytes() + b"\nprint('altered')\n")
    altered = subprocess.run(command, capture_output=True, text=True, check=False)
    assert altered.returncode == 1 and altered.stdout == ""
    assert altered.stderr.strip() == f"error: {file} is not the file that was deployed"


def test_an_output_whose_name_begins_another_is_read_alone() -> None:
    made = script("make.py", outputs=["train", "train_labels"])
    read = script("read.py", inputs={"a": made["train"], "b": made["train_labels"]})
    first, second, _ = (one["S3Input"]["S3Uri"] for one in only(made, read)["Arguments"]["ProcessingInputs"])
    train, labels = ({"Get": f"Steps.make.ProcessingOutputConfig.Outputs['{n}'].S3Output.S3Uri"} for n in made.outputs)
    assert first == {"Std:Join": {"On": "/", "Values": [train, ""]}}
    assert second == labels


def test_a_training_step() -> None:
    cluster = Cluster(instance_type="ml.m5.large", count=2, processes=2, max_run_seconds=60)
    loaded = step(load, raw="s3://b/raw/")
    spot = cluster.model_copy(update={"spot": Spot(max_wait_seconds=120)})
    arguments = only(loaded, step(fit, data=loaded["data"], cluster=spot))["Arguments"]
    assert arguments["HyperParameters"] == {"rate": "0.1", "epochs": "1"}
    assert arguments["EnableManagedSpotTraining"] is True
    assert arguments["StoppingCondition"] == {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 120}
    assert arguments["Environment"] == {**FRESH, "DRIVETRAIN_PROCESSES": "2"}
    assert arguments["AlgorithmSpecification"]["MetricDefinitions"] == [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]
    assert arguments["AlgorithmSpecification"]["ContainerArguments"][2:5] == [
        "--training",
        "--folders",
        "model,output,checkpoints",
    ]
    assert arguments["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] == {
        "Get": "Steps.load.ProcessingOutputConfig.Outputs['data'].S3Output.S3Uri"
    }
    on_demand = only(loaded, step(fit, data=loaded["data"], cluster=cluster))["Arguments"]
    assert "MaxWaitTimeInSeconds" not in on_demand["StoppingCondition"]


def checkpoint_uri(**given: Any) -> str:
    return only(step(fit, data="s3://b/k", **given))["Arguments"]["CheckpointConfig"]["S3Uri"]


def test_checkpoints_lie_in_a_folder_of_step_and_configuration() -> None:
    first = checkpoint_uri()
    assert first.startswith("s3://drivetrain-local/pipelines/p/checkpoints/fit/") and first.endswith("/")
    assert checkpoint_uri(epochs=20) == first, "epochs may grow: the checkpoints are the same run's"
    assert checkpoint_uri(rate=0.2) != first, "another configuration must not find them"


def test_the_payload_of_a_lambda_may_nest() -> None:
    loaded = step(load, raw="s3://b/raw/")
    given = {"data": [loaded["data"], {"at": join("v", loaded.metric("n"))}], "flat": 1}
    asked = call_lambda("arn:aws:lambda:us-east-1:111122223333:function:f", name="ask", payload=given)
    uri = {"Get": "Steps.load.ProcessingOutputConfig.Outputs['data'].S3Output.S3Uri"}
    built = only(loaded, asked)
    [first, second] = built["Arguments"]["data"]
    assert first == uri and list(second["at"]) == ["Std:Join"] and built["Arguments"]["flat"] == 1


def test_references_of_every_kind() -> None:
    loaded, fitted = step(load, raw="s3://b/raw/"), step(fit, data="s3://b/k")
    asked = call_lambda("arn:aws:lambda:us-east-1:111122223333:function:f", name="ask", outputs={"n": "Integer"}, m=1)
    accuracy = loaded.metric("top-1")
    gate = when(
        accuracy >= 0.5,
        asked.value("n").equals(3),
        fitted.property("TrainingJobStatus").is_in(["Completed"]),
        then=[register(model=fitted["model"], metrics=loaded, group="g", metadata={"run": fitted["output"]})],
        otherwise=[fail(join("was ", accuracy, " in ", fitted.logged("loss")))],
    )
    document = only(loaded, fitted, asked, gate)["Arguments"]
    number = {
        "Std:JsonGet": {"PropertyFile": {"Get": "Steps.load.PropertyFiles.metrics"}, "Path": "['top-1']"},
    }
    assert document["Conditions"] == [
        {"Type": "GreaterThanOrEqualTo", "LeftValue": number, "RightValue": 0.5},
        {"Type": "Equals", "LeftValue": {"Get": "Steps.ask.OutputParameters['n']"}, "RightValue": 3},
        {"Type": "In", "QueryValue": {"Get": "Steps.fit.TrainingJobStatus"}, "Values": ["Completed"]},
    ]
    registered = document["IfSteps"][0]["Arguments"]
    container = registered["InferenceSpecification"]["Containers"][0]
    assert container["ModelDataUrl"] == {"Get": "Steps.fit.ModelArtifacts.S3ModelArtifacts"}
    assert registered["CustomerMetadataProperties"]["run"]["Std:Join"]["Values"][1:] == [
        {"Get": "Steps.fit.TrainingJobName"},
        "output/output.tar.gz",
    ]
    assert document["ElseSteps"][0]["Arguments"]["ErrorMessage"]["Std:Join"]["Values"][3] == {
        "Get": "Steps.fit.FinalMetricDataList['loss'].Value"
    }


def test_the_rest_of_a_step() -> None:
    loaded = step(load, raw="s3://b/raw/")
    late = step(
        load,
        name="late",
        raw="s3://b/raw/",
        display_name="Load late",
        after=[loaded, Dependency(step="load", trigger="Failed")],
        cache=CachePolicy(enabled=False),
        retry=[RetryPolicy(causes=("throttling",))],
        tags={"team": "vision"},
        environment={"LEVEL": 3},
        image="111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1",
    )
    built = only(loaded, late)
    assert built["DisplayName"] == "Load late"
    assert built["DependsOn"] == ["load", {"Step": "load", "Trigger": "Failed"}]
    assert "CacheConfig" not in built
    assert built["RetryPolicies"][0] == {
        "ExceptionType": ["Step.THROTTLING"],
        "IntervalSeconds": 1,
        "BackoffRate": 2.0,
        "MaxAttempts": 3,
    }
    assert built["Arguments"]["Tags"] == [{"Key": "team", "Value": "vision"}]
    assert built["Arguments"]["Environment"] == {"LEVEL": "3", **FRESH}
    assert built["Arguments"]["AppSpecification"]["ImageUri"].endswith("/mine:1")


def test_a_native_step_is_carried_through() -> None:
    emr = NativeStep(name="spark", type="EMR", fields={"Arguments": {"ClusterId": "j-1", "Any": [1, {"x": None}]}})
    assert only(emr) == {
        "Name": "spark",
        "Type": "EMR",
        "Arguments": {"ClusterId": "j-1", "Any": [1, {"x": None}]},
    }


def test_scripts_get_their_folders() -> None:
    cleaned = script(
        "clean.py",
        inputs={"raw": "s3://b/k"},
        outputs=["clean"],
        arguments=["-i", folder_in("raw"), folder_out("clean")],
    )
    assert only(cleaned)["Arguments"]["AppSpecification"]["ContainerArguments"][2:] == [
        "script:clean.py",
        "-i",
        "/opt/ml/processing/input/raw",
        "/opt/ml/processing/output/clean",
    ]


def test_an_unshipped_script_is_refused(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("")
    compile_pipeline(Pipeline(name="p", steps=[script("clean.py")]), tmp_path)
    for path in ("claen.py", "clean.sh"):
        with pytest.raises(SpecError, match=f"no script '{path}' in .*Did you mean 'clean.py'"):
            compile_pipeline(Pipeline(name="p", steps=[script(path, name="x")]), tmp_path)


def test_a_path_is_uploaded_under_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    monkeypatch.chdir(tmp_path)

    def uri() -> str:
        built = compiled(step(load, raw="rows.csv"))
        found = built.definition["Steps"][0]["Arguments"]["ProcessingInputs"][0]["S3Input"]["S3Uri"]
        assert found in {asset.uri for asset in built.assets}
        return found

    first = uri()
    assert uri() == first and first.endswith("/rows.csv")
    (tmp_path / "rows.csv").write_text("a,b\n1,3\n")
    assert uri() != first
    with pytest.raises(UserError, match=r"no such file or folder in \S+\. Give"):
        compiled(step(load, raw="gone.csv"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="is empty"):
        compiled(step(load, raw="empty"))
    with pytest.raises(UserError, match="Did you mean 'digits'"):
        compiled(step(load, raw="example:digit"))


def test_the_archive_depends_on_content_alone(tmp_path: Path) -> None:
    def code(folder: Path) -> str:
        return compile_pipeline(Pipeline(name="p", steps=[script("steps.py")]), source=folder).digest

    for name in ("one", "two"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "steps.py").write_text("import sub.more\n")
        (tmp_path / name / "sub" / "more.py").write_text("y = 1\n")
    (tmp_path / "two" / "steps.py").touch()
    (tmp_path / "two" / ".venv").mkdir()
    (tmp_path / "two" / ".venv" / "ignored.py").write_text("z = 1\n")
    (tmp_path / "two" / "settings.yaml").write_text("rows: 3\n")
    assert code(tmp_path / "one") == code(tmp_path / "two")
    (tmp_path / "two" / "sub" / "more.py").write_text("y = 2\n")
    assert code(tmp_path / "one") != code(tmp_path / "two")


def test_what_the_service_would_refuse_is_refused() -> None:
    role = Deployment(targets={"sagemaker": {"role": "me"}})
    with pytest.raises(SpecError, match=r"Step 'load': .*RoleArn"):
        compiled(step(load, raw="s3://b/k"), deployment=role)


def labelled(default: str = "a", choices: tuple[str, ...] = (), given: str = "a") -> None:
    label = Parameter.string("Label", default, choices)
    nightly = Schedule(name="nightly", cron="0 2 * * ? *", parameters={"Label": given})
    compiled(step(load, raw="s3://b/k", label=label), parameters=[label], triggers=[nightly])


def test_a_default_choice_or_scheduled_value_that_no_argument_takes_is_refused() -> None:
    labelled(default="x" * 256)
    labelled(choices=("a", "x" * 256))
    labelled(given="x" * 256)
    for wrong in ({"default": "x" * 257}, {"choices": ("a", "x" * 257)}, {"given": "x" * 257}):
        with pytest.raises(SpecError, match=r"Step 'load': .* gets 257 characters by 'Label'; at most 256"):
            labelled(**wrong)  # type: ignore[arg-type]


def test_studio_edits_are_deployed_byte_for_byte() -> None:
    """A field and a step type that nobody knows, from a patch through compile to the text that apply sends."""
    odd = ['{"b":1E5,"a":[0.10,-0.0,1.50,1e-7,123456789012345678901234567890],"\\u00e9":"\\ud800 \\u2603"}', "2.0E+3"]
    added = f'{{"Type":"Quantum2031","Name":"q","Arguments":{{"z":{odd[0]},"a":null}}}}'
    patch = patches.parse(
        f"pipeline: p\nedits:\n- place: steps.q\n  now-json: '{added}'\n"
        f"- place: steps.load.Unheard\n  now-json: '{odd[0]}'\n- place: definition.Odd\n  now: {odd[1]}\n"
    )
    built = compiled(step(load, raw="s3://b/k"))
    edited = replace(built, definition=patch.apply(built.definition))
    sent = wire_text(edited.definition)
    assert added in sent and f'"Unheard":{odd[0]}' in sent and f'"Odd":{odd[1]}' in sent
    read = parse(edited.text, "text")
    assert isinstance(read, dict) and wire_text(read) == sent
    assert '"b": 1E5' in edited.text and edited.text.encode()


TRUTH: list[tuple[str, Callable[[Any, Any, Any], Any]]] = [
    ("and", lambda a, b, c: a & b & c),
    ("or of ands", lambda a, b, c: (a & b) | (b & c)),
    ("not of and", lambda a, b, c: ~(a & b) & c),
    ("not of or", lambda a, b, c: ~(a | (b & ~c))),
]


@pytest.mark.parametrize(("_", "combine"), TRUTH)
def test_conditions_mean_what_was_written(_: str, combine: Callable[[Any, Any, Any], Any]) -> None:
    """Every assignment of the parts, through the definition's evaluator, against Python's own operators."""
    from itertools import product

    from drivetrain.targets.sagemaker.document.conditions import evaluate

    class Truth(int):
        def __invert__(self) -> Truth:
            return Truth(not self)

        def __and__(self, other: int) -> Truth:
            return Truth(bool(self) and bool(other))

        def __or__(self, other: int) -> Truth:
            return Truth(bool(self) or bool(other))

    parameters = [Parameter.integer(name, default=0) for name in ("A", "B", "C")]
    a, b, c = parameters
    gate = when(combine(a.equals(1), b > 0, ~(c < 1)), then=[fail("x")])
    conditions = only(gate, parameters=parameters)["Arguments"]["Conditions"]
    for values in product((0, 1), repeat=3):
        known = dict(zip(("Parameters.A", "Parameters.B", "Parameters.C"), values, strict=True))

        def resolve(node: Any, known: dict[str, int] = known) -> Any:
            return known[node["Get"]] if isinstance(node, dict) else node

        found = all(evaluate(condition, resolve) for condition in conditions)
        assert found == bool(combine(*(Truth(value) for value in values))), values


def test_a_negation_has_the_field_that_the_service_takes() -> None:
    """It refuses `Expression` (aws/sagemaker-python-sdk#2746)."""
    site = Parameter.string("Site", "a")
    gate = when(~site.equals("b"), then=[fail("x")])
    equal = {"Type": "Equals", "LeftValue": {"Get": "Parameters.Site"}, "RightValue": "b"}
    assert only(gate, parameters=[site])["Arguments"]["Conditions"] == [{"Type": "Not", "Condition": equal}]


def test_a_missing_recipe_is_reported_before_anything_runs(tmp_path: Path) -> None:
    from drivetrain.components.train import train

    pipeline = Pipeline(name="p", steps=[step(train, train="s3://b/k/", recipe="digit_cnn")])
    with pytest.raises(SpecError, match=r"no recipe 'digit_cnn'\. Did you mean 'digits_cnn'"):
        compile_pipeline(pipeline, here=True)
    (tmp_path / "faces.py").write_text("")
    for own in ("faces", "my_recipes.faces"):
        pipeline = Pipeline(name="p", steps=[step(train, train="s3://b/k/", recipe=own)])
        assert compile_pipeline(pipeline, source=tmp_path, here=True).definition["Steps"]


@pytest.mark.parametrize(
    ("given", "machine", "processes"),
    [
        ({}, "ml.m5.xlarge", "2"),
        ({"instance_type": "ml.p4d.24xlarge"}, "ml.g6e.xlarge", None),
        ({"instance_type": "ml.p5.48xlarge", "evaluate_instance_type": "ml.g6e.48xlarge"}, "ml.g6e.48xlarge", None),
    ],
)
def test_a_training_s_machine_that_processing_jobs_lack_is_its_own_alone(
    given: dict[str, str], machine: str, processes: str | None
) -> None:
    built = retraining(Retraining(**given, prepare_instance_type="ml.m5.2xlarge"))  # type: ignore[arg-type]
    steps = {each["Name"]: each["Arguments"] for each in compile_pipeline(built).definition["Steps"]}
    assert steps["train"]["ResourceConfig"]["InstanceType"] == given.get("instance_type", "ml.m5.xlarge")
    for name, wanted in (("prepare", "ml.m5.2xlarge"), ("evaluate", machine), ("compare", machine)):
        assert steps[name]["ProcessingResources"]["ClusterConfig"]["InstanceType"] == wanted
    assert steps["evaluate"].get("Environment", {}).get("DRIVETRAIN_PROCESSES") == processes


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster(instance_type="ml.p3.8xlarge"),
        Cluster(instance_type="ml.g5.xlarge", alternatives=(Alternative(instance_type="ml.p3.2xlarge"),)),
        Cluster(instance_type=Parameter.string("Kind", default="ml.g5.xlarge", choices=("ml.p3.2xlarge",)).ref()),
    ],
    ids=["named", "alternative", "choice"],
)
def test_gpus_that_the_image_has_no_code_for_are_refused(cluster: Cluster) -> None:
    kind = Parameter.string("Kind", default="ml.g5.xlarge", choices=("ml.g5.xlarge", "ml.p3.2xlarge"))
    fitted = step(train, train="s3://b/train/", cluster=cluster)
    said = r"Step 'train': ml\.p3\.\w+ has GPUs .*Volta.*deployment\.targets\.sagemaker\.image=\d+\.dkr"
    with pytest.raises(SpecError, match=said):
        compile_pipeline(Pipeline(name="p", parameters=[kind], steps=[fitted]))
    last = Deployment(
        targets={
            "sagemaker": {
                "image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-gpu-py312-cu129-x"
            }
        }
    )
    compile_pipeline(Pipeline(name="p", parameters=[kind], steps=[fitted], deployment=last))


def test_values_of_files_are_read_from_property_files() -> None:
    scores = script("scores.py", outputs=["evaluation", "more"])
    report = scores.report("evaluation", "evaluation.json")
    good = (
        report.value("metrics.acc['value']") >= 0.8,
        report.value("mse") < 1,
        scores.report("more", "a/b.json").value("x") < 1,
    )
    made = compiled(
        script("other.py"), scores, when(*good, then=[fail(join("at ", report.value("name", "String")))])
    ).definition
    evaluation = {
        "PropertyFileName": "evaluation-evaluation",
        "OutputName": "evaluation",
        "FilePath": "evaluation.json",
    }
    more = {"PropertyFileName": "more-a-b-2e0f631f", "OutputName": "more", "FilePath": "a/b.json"}
    assert [step.get("PropertyFiles") for step in made["Steps"]] == [None, [evaluation, more], None]
    place = {"Get": "Steps.scores.PropertyFiles.evaluation-evaluation"}
    first = made["Steps"][-1]["Arguments"]["Conditions"][0]["LeftValue"]
    assert first == {"Std:JsonGet": {"PropertyFile": place, "Path": "metrics.acc['value']"}}


def test_an_output_of_a_report_is_checked_where_it_is_written() -> None:
    with pytest.raises(SpecError, match=r"Step 'scores' has no output 'evaluatoin'. Did you mean 'evaluation'\?"):
        script("scores.py", outputs=["evaluation"]).report("evaluatoin", "evaluation.json")
