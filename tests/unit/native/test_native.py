from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drivetrain.native
from drivetrain import Cluster, Dependency, Parameter, Pipeline, RetryPolicy, SpecError, execution, join, step, when
from drivetrain.native import At, Channel, Container, To, Word, callback, model, processing, training, transform, tuning
from drivetrain.native.table import Call, MisfitError, Row, Table
from drivetrain.native.words import ENTRIES, TABLES
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from tests.fixtures.kubeflow_examples import fit
from tests.fixtures.public_forms import FORMS

PAGE = Path(__file__).parents[3] / "docs" / "from_sagemaker_sdk.md"
SAMPLES: tuple[Any, ...] = (
    *("text", 3, True, ["a", "b"], {"a": "b"}, {"a": ["b"]}, ("a", "b"), {"a": ("b", "c")}, {"a": ("b", "c", "d")}),
    *([{"A": 1}], {"a": {"b": [1]}}, [RetryPolicy(causes=("quota",), backoff_rate=1.5)]),
)
ROWS = [(table, row) for table in (*TABLES.values(), *ENTRIES) for row in table.rows]


def value(given: Any) -> Any:
    """The value that a table reads, as code would give it."""
    if isinstance(given, Call):
        keywords = {name: value(each) for name, each in given.keywords.items()}
        return getattr(drivetrain.native, given.word, RetryPolicy)(*map(value, given.positional), **keywords)
    if isinstance(given, dict):
        return {name: value(each) for name, each in given.items()}
    return [value(each) for each in given] if isinstance(given, list) else given


def spelled(row: Row) -> Any:
    """The JSON of the first sample that a row takes."""
    for sample in SAMPLES:
        try:
            return row.spelling.write(sample)
        except (MisfitError, SpecError):
            continue
    raise AssertionError(row)


@pytest.mark.parametrize(("table", "row"), ROWS, ids=lambda one: one.word if isinstance(one, Table) else one.keyword)
def test_each_keyword_is_read_as_it_is_written(table: Table, row: Row) -> None:
    none = {each.keyword: None for each in table.rows}
    json = spelled(row)
    written = table.write({**none, row.keyword: value(row.spelling.read(json))}, "here")
    at: Any = written
    for name in row.path.split("."):
        at = at[name]
    assert at == json
    keywords, rest = table.read(written)
    assert rest == {}
    assert table.write(value(keywords), "here") == written
    assert table.read({})[0] == {each.keyword: None for each in table.rows if each.default is not None}


def steps(definition: Any) -> list[Any]:
    found: list[Any] = []
    for each in definition:
        arguments = each.get("Arguments") or {}
        found += [each, *steps([*arguments.get("IfSteps", ()), *arguments.get("ElseSteps", ())])]
    return found


JOBS = [one for form in FORMS.values() for one in steps(form()["Steps"]) if one["Type"] in TABLES]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["String", "File", {"Get": "x"}]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=3,
)


def places(json: Any) -> list[tuple[Any, Any]]:
    items = json.items() if isinstance(json, dict) else enumerate(json) if isinstance(json, list) else ()
    return [each for key, item in items for each in ((json, key), *places(item))]


@given(st.sampled_from(JOBS), st.data())
@settings(deadline=None, max_examples=150)
def test_any_step_is_read_without_a_loss(job: Any, data: st.DataObject) -> None:
    fields = {name: copy.deepcopy(each) for name, each in job.items() if name not in ("Name", "Type", "DependsOn")}
    for _ in range(data.draw(st.integers(0, 2))):
        at, key = data.draw(st.sampled_from(places(fields)))
        at[key] = data.draw(JSON)
    table = TABLES[job["Type"]]
    keywords, rest = table.read(fields)
    other = {"other": rest.pop("Arguments")} if isinstance(rest.get("Arguments"), dict) else {}
    made = Word(table)(job["Name"], **value(keywords), **other, fields=rest)
    assert json.dumps(made.fields, sort_keys=True) == json.dumps(fields, sort_keys=True)


def example() -> Pipeline:
    count, floor = Parameter.integer("Count", 1), Parameter.number("Floor", 0.9)
    ours = step(fit, name="ours", data="s3://b/data/", cluster=Cluster(instance_type="ml.m5.large"))
    prepared = processing(
        "prepare",
        image="image",
        machine="ml.m5.large",
        count=count,
        role="arn:aws:iam::000000000000:role/r",
        cache="30d",
        retry=[RetryPolicy(causes=("throttling",)), {"ExceptionType": ["Step.SERVICE_FAULT"], "MaxAttempts": 1}],
        inputs={"own": At(ours["model"], "/in"), "code": At("s3://b/code/", "/code", mode="Pipe", compression=None)},
        outputs={"train": To("s3://b/train/", "/out")},
        reports={"Report": ("train", "report.json")},
        environment={"RUN": execution("PipelineExecutionId")},
        other={"StoppingCondition": {"MaxRuntimeInSeconds": count}},
        fields={"StepFieldOfNextYear": 1},
        display_name="Prepare",
        description="All of it.",
        after=[Dependency(ours, "Any")],
    )
    trained = training(
        "train",
        image="image",
        machine="ml.m5.large",
        role="arn:aws:iam::000000000000:role/r",
        output="s3://b/model/",
        channels={"train": prepared["train"], "more": Channel("s3://b/more/", content_type="text/csv")},
        hyperparameters={"rate": 0.1, "fast": True, "of": count},
    )
    made = model("make", image="image", data=trained["model"], role="arn:aws:iam::000000000000:role/r")
    scored = transform("score", model=made["name"], data="s3://b/x", output="s3://b/y", machine="ml.m5.large")
    asked = callback("ask", queue="https://sqs/q", arguments={"of": join("a", count)}, outputs={"answer": "String"})
    good = prepared.report("Report").value("metrics.mse.value") >= floor
    gate = when(good, asked["answer"].equals("yes"), then=[made, scored])
    return Pipeline(name="p", parameters=[count, floor], steps=[ours, prepared, trained, asked, gate], experiment=None)


def test_jobs_as_they_are_compile_with_references_to_each_other_and_to_other_steps() -> None:
    definition = json.loads(compile_pipeline(example()).text)
    assert "PipelineExperimentConfig" not in definition
    built = {each["Name"]: each for each in steps(definition["Steps"])}
    assert [each for each in definition["Parameters"] if each["Name"] == "Fresh"]  # by the step of this package
    prepared = built["prepare"]
    assert prepared["CacheConfig"] == {"Enabled": True, "ExpireAfter": "30d"}
    policy = {"ExceptionType": ["Step.THROTTLING"], "IntervalSeconds": 1, "BackoffRate": 2.0, "MaxAttempts": 3}
    assert prepared["RetryPolicies"] == [policy, {"ExceptionType": ["Step.SERVICE_FAULT"], "MaxAttempts": 1}]
    assert prepared["DependsOn"] == [{"Step": "ours", "Trigger": "Any"}]
    assert (prepared["DisplayName"], prepared["StepFieldOfNextYear"]) == ("Prepare", 1)
    arguments = prepared["Arguments"]
    assert arguments["StoppingCondition"] == {"MaxRuntimeInSeconds": {"Get": "Parameters.Count"}}
    fresh = {"Get": "Parameters.Fresh"}
    assert arguments["Environment"] == {"RUN": {"Get": "Execution.PipelineExecutionId"}, "DRIVETRAIN_FRESH": fresh}
    assert arguments["ProcessingResources"]["ClusterConfig"]["VolumeSizeInGB"] == 30
    own, code = arguments["ProcessingInputs"]
    assert own["S3Input"]["S3Uri"] == {"Get": "Steps.ours.ModelArtifacts.S3ModelArtifacts"}
    assert code == {
        "InputName": "code",
        "AppManaged": False,
        "S3Input": {
            "S3Uri": "s3://b/code/",
            "LocalPath": "/code",
            "S3InputMode": "Pipe",
            "S3DataType": "S3Prefix",
            "S3DataDistributionType": "FullyReplicated",
        },
    }
    trained = built["train"]["Arguments"]
    train = {"Get": "Steps.prepare.ProcessingOutputConfig.Outputs['train'].S3Output.S3Uri"}
    assert trained["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] == train
    joined = {"Std:Join": {"On": "", "Values": [{"Get": "Parameters.Count"}]}}
    assert trained["HyperParameters"] == {"rate": "0.1", "fast": "true", "of": joined}
    model_data = {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}
    assert built["make"]["Arguments"]["PrimaryContainer"]["ModelDataUrl"] == model_data
    assert built["score"]["Arguments"]["ModelName"] == {"Get": "Steps.make.ModelName"}
    first, second = built["decide"]["Arguments"]["Conditions"]
    read = {"PropertyFile": {"Get": "Steps.prepare.PropertyFiles.Report"}, "Path": "metrics.mse.value"}
    assert first["LeftValue"] == {"Std:JsonGet": read}
    assert second["LeftValue"] == {"Get": "Steps.ask.OutputParameters['answer']"}


def test_nothing_is_added_to_a_pipeline_of_jobs_as_they_are() -> None:
    """A cached one would run again on the service."""
    job = transform("score", model="m", data="s3://b/x", output="s3://b/y", machine="ml.m5.large", cache=True)
    definition = compile_pipeline(Pipeline(name="p", steps=[job])).definition
    assert definition["Parameters"] == []
    assert "Environment" not in definition["Steps"][0]["Arguments"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: processing("p", imgae="i"), "processing('p') does not take 'imgae'. Did you mean 'image'?"),
        (lambda: processing("p", count="2"), "processing('p'): count='2'. Give a whole number or a reference."),
        (lambda: processing("p", count=True), "processing('p'): count=True. Give a whole number or a reference."),
        (lambda: training("t", spot="yes"), "training('t'): spot='yes'. Give True, False or a reference."),
        (
            lambda: training("t", command="python"),
            "training('t'): command='python'. Give a list of texts or references.",
        ),
        (lambda: training("t", channels=["s3://b/x"]), "Give Channel(...) by name."),
        (lambda: model("m", containers=Container(image="i")), "Give a list of Container(...)."),
        (lambda: processing("p", reports={"R": "r.json"}), "Give (OutputName, FilePath) by name."),
        (lambda: tuning("t", cache=1), "tuning('t'): cache=1. Give True, False, or how long a result is kept"),
        (lambda: processing("p", retry=3), "Give a list of RetryPolicy(...)."),
        (lambda: processing("p", other=json.loads('["x"]')), "processing('p'): other=['x']. Give JSON by name"),
        (lambda: processing("p", other={"Tags": object()}), "Give JSON by name, as the service has it."),
        (
            lambda: training("t", volume=9, other={"ResourceConfig": {"VolumeSizeInGB": 1}}),
            "gives Arguments.ResourceConfig.VolumeSizeInGB, which",
        ),
        (lambda: At("s3://b", "/x", "/y"), "At(...) takes uri, path first, each once."),
        (lambda: At("s3://b", uri="s3://c"), "At(...) takes uri, path first, each once."),
        (lambda: To("s3://b", path=3), "To(...): path=3. Give a text or a reference."),
        (lambda: processing("p")["x"], "Step 'p' has no output 'x'."),
        (lambda: training("p")["x"], "Step 'p' has no output 'x'. Allowed: model."),
        (lambda: processing("p").report("x"), "Step 'p' has no report 'x'."),
    ],
)
def test_bad_input_is_told_by_the_table(wrong: Any, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        wrong()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_page_has_every_word_with_its_keywords() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for type, table in TABLES.items():
        keywords = ", ".join(f"`{row.keyword}`" for row in table.rows)
        assert f"| `{table.word}` | {type} | {keywords} |" in text
    for table in ENTRIES:
        keywords = ", ".join(f"`{row.keyword}`" for row in table.rows)
        assert f"| `{table.word}` | - | {keywords} |" in text
