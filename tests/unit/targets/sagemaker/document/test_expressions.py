import copy
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.expressions import (
    MAX_JOINED,
    Get,
    Scope,
    UnresolvedReference,
    expressions,
    parse_get,
    references,
    resolve,
)


class Known(Scope):
    def parameter(self, name: str) -> Any:
        return {"Count": 3, "Rate": 0.5, "Text": "abc", "Yes": True}[name]

    def execution(self, field: str) -> Any:
        return f"<{field}>"

    def step(self, name: str) -> Any:
        if name != "prepare":
            return super().step(name)
        outputs = [{"OutputName": "train", "S3Output": {"S3Uri": "s3://b/train"}}]
        return {"ProcessingOutputConfig": {"Outputs": outputs}, "OutputParameters": {"k": 7}}

    def property_file(self, step: str, name: str) -> Any:
        assert (step, name) == ("evaluate", "Report")
        return {"metrics": {"mse": {"value": 2.5}, "list": [1, {"a.b": "deep"}]}, "null": None}

    def s3_json(self, uri: str) -> Any:
        assert uri == "s3://bucket/file.json"
        return [{"a": 1}]

    def root(self, name: str) -> Any:
        return {"CurrentItem": {"lr": 0.1}} if name == "ForEach" else super().root(name)


def get(text: str) -> dict[str, Any]:
    return {"Get": text}


def json_get(path: Any, **where: Any) -> dict[str, Any]:
    return {"Std:JsonGet": {**(where or {"PropertyFile": get("Steps.evaluate.PropertyFiles.Report")}), "Path": path}}


@pytest.mark.parametrize(
    ("text", "root", "step", "path"),
    [
        ("Parameters.Count", "Parameters", None, ("Count",)),
        ("Execution.PipelineName", "Execution", None, ("PipelineName",)),
        ("Steps.a-b_1.ModelName", "Steps", "a-b_1", ("ModelName",)),
        (
            "Steps.p.ProcessingOutputConfig.Outputs['x.y'].S3Output.S3Uri",
            "Steps",
            "p",
            ("ProcessingOutputConfig", "Outputs", "x.y", "S3Output", "S3Uri"),
        ),
        (
            "Steps.t.TrainingJobSummaries[0].TrainingJobName",
            "Steps",
            "t",
            ("TrainingJobSummaries", 0, "TrainingJobName"),
        ),
        ("Steps.c.Outcome", "Steps", "c", ("Outcome",)),
        ("Steps.f.IterationOutputs[0].Child.Name", "Steps", "f", ("IterationOutputs", 0, "Child", "Name")),
        ("ForEach.CurrentItem", "ForEach", None, ("CurrentItem",)),
        ("IterationOutput.s.OutputParameters['n']", "IterationOutput", None, ("s", "OutputParameters", "n")),
        ("PipelineExperimentConfig.ExperimentName", "PipelineExperimentConfig", None, ("ExperimentName",)),
    ],
)
def test_get_grammar(text: str, root: str, step: str | None, path: tuple[Any, ...]) -> None:
    assert parse_get(text) == Get(text, root, path, step)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Steps", "names no step"),
        ("Steps[0].b", "names no step"),
        ("Steps.a.PropertyFiles", "names no property file"),
        ("Steps.a.PropertyFiles.F.x", "names no property file"),
        ("Parameters", "names nothing below Parameters"),
        ("Parameters.a.b", "is too long. Allowed: Parameters.<name>"),
        ("Execution[0]", "is too long"),
        ("Paramters.X", "begins with 'Paramters'. Did you mean 'Parameters'?"),
        ("[0].x", "begins with 0"),
        ("", "is not a path"),
        ("Steps.a['b", "is not a path"),
    ],
)
def test_invalid_references_are_refused(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        references({"deep": [get(text)]})
    assert said in str(caught.value)


def test_references_are_found_everywhere_in_order() -> None:
    node = {
        "a": [get("Parameters.A"), {"Std:Join": {"On": "/", "Values": ["x", get("Steps.s.Uri"), 1]}}],
        "b": json_get({"Std:Join": {"Values": [get("Parameters.B")]}}),
        "c": {"Get": "text", "and": "another key"},
        "d": {"Std:New": {"Of": get("Execution.PipelineName")}},
    }
    gets, functions = expressions(node)
    assert [found.text for found in gets] == [
        "Parameters.A",
        "Steps.s.Uri",
        "Steps.evaluate.PropertyFiles.Report",
        "Parameters.B",
        "Execution.PipelineName",
    ]
    assert gets[2].property_file == "Report" and gets[0].parameter == "A"
    assert functions == ["Std:Join", "Std:JsonGet", "Std:Join", "Std:New"]


@pytest.mark.parametrize(
    ("node", "value"),
    [
        (get("Parameters.Count"), 3),
        (get("Execution.StartDateTime"), "<StartDateTime>"),
        (get("Steps.prepare.ProcessingOutputConfig.Outputs['train'].S3Output.S3Uri"), "s3://b/train"),
        (get("Steps.prepare.OutputParameters['k']"), 7),
        (get("ForEach.CurrentItem.lr"), 0.1),
        (
            {"Std:Join": {"On": "/", "Values": ["s3:/", get("Parameters.Text"), 1, 2.5, 6.0, get("Parameters.Yes")]}},
            "s3://abc/1/2.5/6.0/true",
        ),
        ({"Std:Join": {"Values": ["a", {"Std:Join": {"On": "-", "Values": ["b", "c"]}}]}}, "ab-c"),
        ({"Std:Join": {"On": ",", "Values": []}}, ""),
        (json_get("metrics.mse.value"), 2.5),
        (json_get("$.metrics.mse.value"), 2.5),
        (json_get("$['metrics'].mse['value']"), 2.5),
        (json_get("metrics.list[1]['a.b']"), "deep"),
        (json_get({"Std:Join": {"On": ".", "Values": ["metrics", "mse", "value"]}}), 2.5),
        (json_get("null"), None),
        (json_get("[0].a", S3Uri={"Std:Join": {"On": "/", "Values": ["s3://bucket", "file.json"]}}), 1),
        ({"Get": "plain", "because": "of two keys"}, {"Get": "plain", "because": "of two keys"}),
    ],
)
def test_resolves(node: Any, value: Any) -> None:
    assert resolve({"x": [node]}, Known()) == {"x": [value]}


def test_values_without_expressions_are_neither_copied_nor_changed() -> None:
    plain: dict[str, Any] = {"a": [1, {"b": 2}]}
    node: dict[str, Any] = {"plain": plain, "list": [plain, get("Parameters.Count")]}
    resolved = resolve(node, Known())
    assert resolve(plain, Known()) is plain
    assert resolved == {"plain": plain, "list": [plain, 3]}
    assert resolved["plain"] is plain and resolved["list"][0] is plain
    assert node["list"][1] == get("Parameters.Count")


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (get("Steps.train.ModelName"), "step 'train' has not run."),
        (
            get("Steps.prepare.ProcessingOutputConfig.Outputs['tran'].S3Output"),
            "step 'prepare', ProcessingOutputConfig.Outputs.tran.S3Output: ProcessingOutputConfig.Outputs has no 'tran",
        ),
        (
            json_get("metrics.mse.valu"),
            "property file 'Report' of step 'evaluate', metrics.mse.valu: metrics.mse has no 'valu'.",
        ),
        (get("IterationOutput.a"), "IterationOutput has no value here."),
        ({"Std:Join": {"On": "", "Values": [get("Steps.train.ModelName")]}}, "step 'train' has not run."),
    ],
)
def test_unresolved_references_say_what_exists(node: Any, said: str) -> None:
    with pytest.raises(UnresolvedReference) as caught:
        resolve(node, Known())
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (get("Steps.evaluate.PropertyFiles.Report"), "is a file. Take a value from it"),
        ({"Get": 5}, "Get needs text"),
        ({"Std:Join": []}, "Std:Join needs an object"),
        ({"Std:Join": {"On": "", "Values": [{"Get": "Parameters.Text"}] * 90_000}}, "more than 262,144 characters"),
        ({"Std:Join": {"On": 1, "Values": []}}, "Std:Join needs On (text) and Values (a list)"),
        ({"Std:Join": {"On": "", "Values": "abc"}}, "Std:Join needs On (text) and Values (a list)"),
        ({"Std:Join": {"On": "", "Values": [["a"]]}}, "text cannot be made of ['a']"),
        ({"Std:Join": {"On": "", "Values": [json_get("null")]}}, "text cannot be made of None"),
        (json_get(""), "Std:JsonGet needs a Path"),
        (json_get("a..b"), "is not a path"),
        (json_get("a", PropertyFile="Report"), "PropertyFile is 'Report'"),
        (json_get("a", PropertyFile=get("Steps.evaluate.ModelName")), "Allowed: a Get of Steps.<step>.PropertyFiles"),
        (json_get("a", PropertyFile=get("Parameters.Text")), "Allowed: a Get of Steps.<step>.PropertyFiles"),
        (json_get("a", S3Uri=get("Parameters.Count")), "S3Uri is 3"),
        (json_get("a", Uri="s3://x"), "Std:JsonGet needs PropertyFile or S3Uri"),
    ],
)
def test_unreadable_expressions_are_refused(node: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve([node], Known())
    assert said in str(caught.value) and not isinstance(caught.value, UnresolvedReference)


def test_an_unknown_function_has_no_value_yet() -> None:
    """So that what is resolved as far as it can be keeps it whole."""
    with pytest.raises(UnresolvedReference, match=r"function 'Std:Jion' is not known\. Did you mean 'Std:Join'\?"):
        resolve([{"Std:Jion": {"On": "", "Values": []}}], Known())


def test_every_expression_of_a_value_is_replaced_and_the_value_itself_is_not_changed() -> None:
    two = [get("Parameters.Count"), get("Parameters.Text")]
    node = {"first": two[0], "second": two[1], "list": [two[0], "plain", two[1]]}
    before = copy.deepcopy(node)
    assert resolve(node, Known()) == {"first": 3, "second": "abc", "list": [3, "plain", "abc"]}
    assert node == before


def test_the_longest_text_that_can_be_joined() -> None:
    longest = {"Std:Join": {"On": "", "Values": ["x" * (MAX_JOINED - 1), "y"]}}
    assert len(resolve(longest, Known())) == MAX_JOINED
    for on, values in (("", ["x" * MAX_JOINED, "y"]), ("x" * 10_000, ["y"] * 100)):
        with pytest.raises(UserError, match="more than 262,144 characters"):
            resolve({"Std:Join": {"On": on, "Values": values}}, Known())


@pytest.mark.parametrize("content", [{"$ref": 1, "ref": 2}, {"$ref": 1}])
def test_a_key_with_a_dollar_is_read_as_it_is_written(content: dict[str, int]) -> None:
    class Dollars(Scope):
        def s3_json(self, uri: str) -> Any:
            return content

    assert resolve(json_get("$ref", S3Uri="s3://bucket/file.json"), Dollars()) == 1


def test_a_scope_knows_nothing_by_itself() -> None:
    nodes = [
        get("Parameters.a"),
        get("Execution.PipelineName"),
        get("Steps.a.b"),
        json_get("a"),
        json_get("a", S3Uri="s3://x"),
        get("ForEach.CurrentItem"),
    ]
    for node in nodes:
        with pytest.raises(UnresolvedReference):
            resolve(node, Scope())
