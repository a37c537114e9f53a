from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Pipeline, step
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.document.document import from_json
from drivetrain.targets.sagemaker.document.step_types import key_fields
from drivetrain.targets.sagemaker.written import Written, built, write_code
from drivetrain.targets.written.layout import Called, Code, Item, assigned, text
from drivetrain.targets.written.names import Hints, Names
from tests.fixtures.kubeflow_examples import fit
from tests.fixtures.public_forms import FORMS, FUNCTION, ROLE, definition, get, processing

BY_HAND = Path(__file__).parents[4] / "fixtures" / "written_by_hand"
RETRY = {
    "ExceptionType": ["SageMaker.CAPACITY_ERROR", "SageMaker.RESOURCE_LIMIT"],
    "IntervalSeconds": 1,
    "BackoffRate": 2.0,
    "MaxAttempts": 9,
}


def written(*steps: Any, parameters: Any = (), **fields: Any) -> Written:
    return write_code(from_json(definition(steps, parameters, **fields)), "nightly")


def called(name: str, arguments: Any, outputs: Any = (), **fields: Any) -> dict[str, Any]:
    listed = [{"OutputName": each, "OutputType": kind} for each, kind in outputs]
    step = {"Name": name, "Type": "Lambda", "FunctionArn": FUNCTION, "Arguments": arguments, "OutputParameters": listed}
    return {**step, **fields}


def model(name: str, **fields: Any) -> dict[str, Any]:
    return {"Name": name, "Type": "Model", "Arguments": {"ExecutionRoleArn": ROLE}, **fields}


def compared(kind: str, left: Any, right: Any) -> dict[str, Any]:
    return {"Type": kind, "LeftValue": left, "RightValue": right}


def join_of(*values: Any) -> dict[str, Any]:
    return {"Std:Join": {"On": "/", "Values": list(values)}}


def job(name: str, image: str, code: str, more: Any) -> dict[str, Any]:
    made = processing(name, {"code": (f"{code}/code", "in"), "more": (more, "more")}, {}, image=image)
    inputs = made["Arguments"]["ProcessingInputs"]
    for each, folder in zip(inputs, ("/in", "/more"), strict=True):
        each["S3Input"]["LocalPath"] = folder
    made["Arguments"]["ProcessingResources"]["ClusterConfig"]["InstanceType"] = "ml.m5.large"
    made["Arguments"]["Environment"] = {"place": "s3://second/x", "machine": "ml.p3.2xlarge"}
    return made


def gate(*conditions: Any, then: Any = (), name: str = "gate") -> dict[str, Any]:
    return {
        "Name": name,
        "Type": "Condition",
        "Arguments": {"Conditions": list(conditions), "IfSteps": list(then), "ElseSteps": []},
    }


def test_loops_functions_and_conditions_have_the_words_of_authors() -> None:
    body = called("Score", {"item": get("ForEach.CurrentItem.id"), "deep": {"a": [1, "x"]}}, [("score", "Float")])
    field = get("IterationOutput.Score.OutputParameters['score']")
    each = {
        "Name": "Each",
        "Type": "ForEach",
        "Arguments": {
            "IterableItems": get("Parameters.Items"),
            "MaxConcurrency": 2,
            "Selector": {"Pick": "MaxBy", "Field": field},
            "ForEachBody": [body],
        },
    }
    best = get("Steps.Each.Selected.OutputParameters['score']")
    either = {"Type": "Or", "Conditions": [compared("GreaterThan", best, 0.5), compared("Equals", best, 1)]}
    message = {"Std:Join": {"On": " ", "Values": ["stopped", get("Execution.PipelineName")]}}
    stop = {"Name": "Stop", "Type": "Fail", "Arguments": {"ErrorMessage": message}}
    listed = {"Type": "In", "QueryValue": get("Parameters.Items"), "Values": ["[]", "[1]"]}
    nothing = {"Type": "Not", "Condition": listed}
    found = written(each, gate(either, nothing, then=[stop]), parameters=[("Items", "String", "[1]")])
    assert (found.is_equal, found.raw) == (True, {})
    assert (
        found.code
        == '''\
"""A pipeline as SageMaker has it, written by drivetrain import --code."""

from drivetrain import (
    Parameter,
    Pipeline,
    call_lambda,
    current_item,
    execution,
    fail,
    for_each,
    join,
    largest,
    when,
)


def pipeline() -> Pipeline:
    items = Parameter.string("Items", "[1]")

    score = call_lambda(
        "arn:aws:lambda:us-west-2:000000000000:function:deploy",
        name="Score",
        payload={"item": current_item(field="id"), "deep": {"a": [1, "x"]}},
        outputs={"score": "Float"},
    )
    each = for_each(
        items,
        [score],
        name="Each",
        max_concurrency=2,
        best=largest(score.value("score")),
    )
    stop = fail(join("stopped", execution("PipelineName"), on=" "), name="Stop")
    score_value = each.property("Selected.OutputParameters['score']", type="Float")
    gate = when(
        (score_value > 0.5) | score_value.equals(1),
        ~items.is_in(["[]", "[1]"]),
        then=[stop],
        name="gate",
    )
    return Pipeline(name="nightly", parameters=[items], steps=[each, gate])
'''
    )


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"Name": "a", "Type": "EMR", "Arguments": {"ClusterId": "j-1", "StepConfig": {}}}, "type EMR has no word"),
        (gate(compared("Equals", 1, 1)), "a literal on a condition's left has no word"),
        (
            gate({"Type": "Or", "Conditions": [compared("Equals", get("Execution.PipelineName"), "x")]}),
            "an Or of fewer",
        ),
    ],
)
def test_what_has_no_word_stays_json_with_the_reason(step: Any, reason: str) -> None:
    found = written(step)
    assert list(found.raw) == [step["Name"]]
    assert found.raw[step["Name"]].startswith(reason)
    assert "NativeStep(" in found.code
    assert found.is_equal


@pytest.mark.parametrize(
    "step",
    [
        {"Name": "a", "Type": "EMR", "Arguments": None},
        {"Name": "a", "Type": "EMR", "Arguments": {}, "CacheConfig": 3},
        {**called("a", {}), "OutputParameters": [{"OutputName": {"a": 1}, "OutputType": "String"}]},
        {**called("a", {}), "OutputParameters": [{"OutputName": "x", "OutputType": ["String"]}]},
        gate({"Type": ["Equals"], "LeftValue": get("Execution.PipelineName"), "RightValue": 1}),
        {**model("a"), "Arguments": None},
        {**model("a"), "Tags": {"Std:Join": {"On": "", "Values": [get("Parameters.NoSuch"), None]}}},
        {"Name": "a", "Type": "Callback", "Arguments": {}, "OutputParameters": [{"Name": "a"}, 3]},
    ],
)
def test_odd_json_is_carried_or_refused(step: Any) -> None:
    found = written(step, parameters=[("Odd", "String", get("Parameters.Odd"))])
    assert found.problem
    found = written(step)
    assert found.is_equal or found.problem


def test_both_sides_of_a_condition_have_the_type_of_its_parameter() -> None:
    """A parameter may stand on the left, a number of a step on the right."""
    listed = [{"OutputName": "score", "OutputType": "Float"}]
    wait = {"Name": "Wait", "Type": "Callback", "SqsQueueUrl": "https://q", "Arguments": {}, "OutputParameters": listed}
    less = compared("LessThan", get("Parameters.Floor"), get("Steps.Wait.OutputParameters['score']"))
    found = written(wait, gate(less, then=[model("m")]), parameters=[("Floor", "Float", 0.5)])
    assert (found.raw, found.is_equal) == ({}, True)


def test_a_step_around_others_stays_json_with_all_of_them() -> None:
    found = written(gate(compared("Equals", 1, 1), then=[model("inner")]))
    assert list(found.raw) == ["gate"]
    assert found.code.count("inner") == 1
    assert found.is_equal


def test_a_step_is_written_after_those_that_it_takes_from() -> None:
    late = model("late", DependsOn=["first", {"Step": "second", "Trigger": "Failed"}], DisplayName="Late")
    found = written(late, model("first"), model("second"))
    assert found.is_equal
    assert 'after=[first, Dependency("second", "Failed")]' in found.code
    assert "steps=[late, first, second]" in found.code


def test_what_no_code_can_say_is_a_difference_and_what_is_refused_a_problem() -> None:
    given = definition([model("a")], [("p", "String", "x")])
    given["Parameters"][0]["FieldOfNextYear"] = 1
    found = write_code(from_json(given), "nightly")
    assert (len(found.changes), found.problem) == (1, "")
    assert found.lines("p.py")[-1] == "parameter p: FieldOfNextYear removed (was 1)"
    inner = {"Name": "inner", "Type": "Model", "Arguments": {"ExecutionRoleArn": "no role"}}
    assert (
        "Arguments.ExecutionRoleArn"
        in written(
            gate(compared("Equals", get("Parameters.p"), "x"), then=[inner]), parameters=[("p", "String", "x")]
        ).problem
    )
    refused = written({"Name": "a", "Type": "Model", "Arguments": {"ExecutionRoleArn": "no role"}})
    assert "Arguments.ExecutionRoleArn" in refused.problem
    assert "role=role" in refused.code
    assert refused.to_json()["equal"] is False


def test_steps_are_found_inside_of_one_that_stays_json() -> None:
    """Its steps refer to each other, and others to them."""
    inner = [model("made"), {**model("again"), "DisplayName": ""}]
    inner[1]["Arguments"]["PrimaryContainer"] = {"ModelDataUrl": get("Steps.made.ModelName")}
    later = model("later", DependsOn=["made"])
    later["Arguments"]["PrimaryContainer"] = {"ModelDataUrl": get("Steps.again.ModelName")}
    found = written(gate(compared("Equals", 1, 1), then=inner), later)
    assert (list(found.raw), found.is_equal) == (["gate"], True)


def test_a_function_has_what_every_job_has() -> None:
    cached = called("Ask", {"x": None, "y": get("Parameters.p")}, [("score", "Float")], CacheConfig={"Enabled": True})
    cached |= {"DisplayName": "Ask it", "RetryPolicies": [RETRY, {**RETRY, "ExpireAfterMin": 5}]}
    low = compared("LessThan", get("Steps.Ask.OutputParameters['score']"), 0.5)
    told = called("Tell", {"score": get("Steps.Ask.OutputParameters['score']")})
    stop = {
        "Name": "Stop",
        "Type": "Fail",
        "DisplayName": "Stop",
        "DependsOn": ["Tell"],
        "Arguments": {"ErrorMessage": "low"},
    }
    found = written(cached, told, gate(low, then=[stop]), parameters=[("p", "String", "x")])
    assert (found.is_equal, found.raw) == (True, {})
    assert 'payload={"x": None, "y": p},\n        outputs={"score": "Float"},\n        cache=True,' in found.code
    assert 'payload={"score": ask["score"]}' in found.code
    assert 'RetryPolicy(causes=("no_capacity", "quota"), max_attempts=9),' in found.code


@pytest.mark.parametrize("items", [[1, 2], ["a"], ['{"n": 1, "s": "x"}', '{"n": 2, "s": "y"}']])
def test_fields_of_listed_items_have_their_types(items: list[Any]) -> None:
    fields = {name: get(f"ForEach.CurrentItem.{name}") for name in ("n", "s")}
    payload = fields if "{" in str(items) else {"all": get("ForEach.CurrentItem")}
    each = {"IterableItems": items, "MaxConcurrency": 2, "ForEachBody": [called("Score", payload)]}
    found = written({"Name": "Each", "Type": "ForEach", "Arguments": each})
    assert (found.is_equal, found.raw) == (True, {})


@pytest.mark.parametrize(
    "fields",
    [
        {"FieldOfNextYear": {"deep": [1, {"x": get("Parameters.p")}]}, "MlflowConfig": {"MlflowResourceArn": "arn"}},
        {"PipelineExperimentConfig": {"ExperimentName": "e"}, "Metadata": {"owner": "vision"}},
        {"PipelineExperimentConfig": "", "Metadata": []},
        {"PipelineExperimentConfig": None, "Metadata": None, "Version": None, "Parameters": None},
        {"Version": "2031-01-01"},
    ],
)
def test_fields_beside_the_steps_are_kept(fields: dict[str, Any]) -> None:
    whole = {**definition([model("a")]), **fields}
    found = write_code(from_json({name: each for name, each in whole.items() if each is not None}), "p")
    assert found.is_equal, found


def test_fields_of_the_cache_keep_their_bytes() -> None:
    """By which the service knows that a step ran already; the SDK writes them in this order."""
    compared = 0
    for name, form in FORMS.items():
        found = write_code(from_json(form()), "p")
        if found.problem:
            continue
        again = from_json(dict(compile_pipeline(built(found.code, "p.py")).definition))
        for before in from_json(form()).walk():
            old, new = (key_fields(before.type, each.arguments) for each in (before, again.by_name[before.name]))
            assert json.dumps(new) == json.dumps(old), (name, before.name)
            compared += old is not None
    assert compared >= 20


def test_a_definition_of_this_package_is_written_with_its_parameter_of_fresh_starts() -> None:
    made = compile_pipeline(Pipeline(name="p", steps=[step(fit, name="ours", data="s3://b/d/")])).definition
    assert [each["Name"] for each in made["Parameters"]] == ["Fresh"]
    found = write_code(from_json(json.loads(json.dumps(made))), "p")
    assert (found.is_equal, found.raw) == (True, {})
    again = compile_pipeline(built(found.code + "\n", "p.py"))
    assert again.definition["Parameters"] == made["Parameters"]


def test_experiment_and_metadata_are_kept() -> None:
    whole = definition([model("a")], Metadata={"owner": "vision"}, PipelineExperimentConfig={"ExperimentName": "e"})
    assert write_code(from_json(whole), "p").is_equal
    del whole["PipelineExperimentConfig"]
    found = write_code(from_json(whole), "p")
    assert found.is_equal
    assert "experiment=None" in found.code


HOSTILE = [
    '"""',
    "'\"\\",
    "\n\t\x00",
    "{bucket}",
    "__import__('os').system('x')",
    "süd\u202e",
    "\ud800",
    "",
    "lambda",
    "s3://b/{x}",
]


def test_hostile_texts_are_literals() -> None:
    for hostile in HOSTILE:
        body = called(f"a{hostile}", {"x": hostile, hostile or "y": [hostile]})
        step = model(f"m{hostile}", DisplayName=hostile[:9], Description=hostile)
        step["Arguments"]["Containers"] = [{"Image": hostile, "Environment": {hostile: hostile}}] * 3
        found = written(
            step, body, parameters=[(f"p{hostile}", "String", hostile), ("x", "String", f"s3://b/{hostile}")]
        )
        names = {node.id for node in ast.walk(ast.parse(found.code)) if isinstance(node, ast.Name)}
        assert not names & {"__import__", "os", "exec", "eval"}
        assert found.problem or found.is_equal, hostile


def test_texts_stand_in_the_quotes_that_need_fewer_escapes() -> None:
    for given in [*HOSTILE, "a'b", 'a"b', "a\\'b", "a\\\\'\"b"]:
        assert ast.literal_eval(text(given)) == given
    assert [text("a'b"), text('a"b'), text("a\"'b")] == ['"a\'b"', "'a\"b'", '"a\\"\'b"']


def test_long_lines_are_split_with_a_comma_at_the_end() -> None:
    long = "x" * 80
    assert assigned("a", {"b": ("c",), "d": 1.5}) == '    a = {"b": ("c",), "d": 1.5}'
    split = assigned("a", Called("f", (Code("b"), [long]), {"k": Item("step", long)}), 0)
    inner = f'[\n        "{long}"'
    assert split == f"a = f(\n    b,\n    {inner},\n    ],\n    k=step{inner}\n    ],\n)"
    assert assigned("NAME", long, 0) == f'NAME = (\n    "{long}"\n)'


def test_names_hide_nothing() -> None:
    names = Names(["processing"])
    given = ["AbaloneTrain", "abalone-train", "processing", "class", "list", "3D", "süß", "日本", "HTTPServer2Go"]
    made = [names.give(each, otherwise="step") for each in given]
    assert made == [
        "abalone_train",
        "abalone_train_step",
        "processing_step",
        "class_step",
        "list_step",
        "step_3_d",
        "s",
        "step",
        "http_server2_go",
    ]


def test_what_repeats_becomes_a_setting_or_a_name() -> None:
    stamped = "s3://first/a/job-x-2023-01-02-03-04-05-678"
    other = join_of("s3://first/b", get("Execution.PipelineExecutionId"), "out/model.tar.gz")
    images = [f"0.dkr.ecr.eu-west-1.amazonaws.com/{name}:1" for name in ("sagemaker-xgboost", "xgboost")] * 2
    steps = [job(str(number), image, stamped, other) for number, image in enumerate(images)]
    steps[3]["Arguments"]["RoleArn"] = f"{ROLE}-Of-Data"
    found = written(*steps, parameters=[("Bucket", "String", "s3://first/x")])
    assert (found.is_equal, found.raw) == (True, {})
    for line in (
        'XGBOOST = "0.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-xgboost:1"',
        'XGBOOST_IMAGE = "0.dkr.ecr.eu-west-1.amazonaws.com/xgboost:1"',
        "def pipeline(",
        f'    role: str = "{ROLE}",',
        f'    execution_of_data_role: str = "{ROLE}-Of-Data",',
        '    bucket: str = "s3://first",',
        '    second_bucket: str = "s3://second",',
        '    machine: str = "ml.m5.large",',
        '    bucket_parameter = Parameter.string("Bucket", f"{bucket}/x")',
        '    job_x_place = f"{bucket}/a/job-x-2023-01-02-03-04-05-678"',
        '            "code": At(f"{job_x_place}/code", "/in"),',
        "    model_uri = join(",
        '            "more": At(model_uri, "/more"),',
    ):
        assert found.code.splitlines().count(line) >= 1, (line, found.code)
    assert found.code.count("# The name of this place has the time at which") == 1
    named: dict[str, Any] = {"__name__": "p"}
    exec(found.code, named)
    changed = compile_pipeline(named["pipeline"](machine="ml.c5.xlarge")).text
    assert (changed.count("ml.c5.xlarge"), changed.count("ml.m5.large")) == (4, 0)


def test_a_bucket_that_a_setting_could_not_change_everywhere_is_none() -> None:
    jobs = [job(f"step-{n}", "i", f"s3://acme/in/{n}", f"s3://acme/out/{n}") for n in range(3)]
    assert 'bucket: str = "s3://acme"' in written(*jobs).code
    jobs[0]["Arguments"]["Environment"] = {"BUCKET": "acme"}
    found = written(*jobs)
    assert found.is_equal and 'BUCKET = "s3://acme"\n' in found.code and "bucket: str" not in found.code


def test_only_machines_of_jobs_are_the_setting() -> None:
    jobs = [job(f"step-{n}", "i", f"s3://b/in/{n}", f"s3://b/out/{n}") for n in range(3)]
    jobs[0]["Arguments"]["Environment"] = {"served": "ml.m5.large"}
    found = written(*jobs, parameters=[("Machine", "String", "ml.m5.large")])
    assert found.is_equal and found.code.count("machine=machine,") == 3
    assert '{"served": "ml.m5.large"}' in found.code and 'Parameter.string("Machine", "ml.m5.large")' in found.code


def test_what_a_reader_should_know_stands_above_a_step() -> None:
    packed = job("Register-RepackModel-0", "i", "s3://b/x", "s3://b/y")
    packed["Arguments"]["AppSpecification"]["ContainerArguments"] = ["--use-amp", "True", "--rate", "0.1"]
    found = written(packed)
    assert found.is_equal
    assert (
        """
    # The SDK put this job here to add a script; Drivetrain's register() needs none.
    # use-amp: text, no Boolean. In Python bool("False") is True.
    register_repack_model = processing(
"""
        in found.code
    )


@pytest.mark.parametrize("file", sorted(BY_HAND.glob("*.py")), ids=lambda file: file.stem)
def test_code_is_at_most_a_third_longer_than_what_a_person_writes(file: Path) -> None:
    """Both in ruff's own form; the person did not see the written code."""
    form = FORMS[file.stem]()
    by_hand = file.read_text(encoding="utf-8")
    named: dict[str, Any] = {"__name__": file.stem}
    exec(by_hand, named)
    assert differences(form, compile_pipeline(named[file.stem]()).definition) == ()
    command = [Path(sys.executable).with_name("ruff"), "format", "--isolated", "-"]
    formatted = subprocess.run(command, input=by_hand, capture_output=True, text=True, check=True).stdout
    ours = write_code(from_json(form), "p").code
    assert len([*filter(None, ours.splitlines())]) <= 1.3 * len([*filter(None, formatted.splitlines())])


def test_hints_of_a_source_name_and_explain() -> None:
    said = 'Trains "nightly".\n\n        C:\\new """x"""\t\n    end'
    hints = Hints(
        names={"TrainStep": "trainer", "class": "class", "p": "import"},
        comments={"TrainStep": "x " * 50 + "\n\n\u2028\x00\rimport os", "p": "Rows."},
        docstring=said,
    )
    steps = [model("TrainStep"), model("class")]
    found = write_code(from_json(definition(steps, [("p", "String", "x")])), "nightly", hints=hints)
    assert found.is_equal
    assert ast.get_docstring(ast.parse(found.code)) == 'Trains "nightly".\n\n    C:\\new """x"""\nend'
    assert (
        """\
    # Rows.
    import_parameter = Parameter.string("p", "x")
"""
        in found.code
    )
    assert (
        f"""\
    # {"x " * 40}x
    # {"x " * 8}x
    #
    #
    # \ufffd
    # import os
    trainer = model("TrainStep", role=role)
    class_step = model("class", role=role)
"""
        in found.code
    )


def test_names_of_a_person_are_without_what_the_sdk_puts_behind_them() -> None:
    code = written(model("Serve-CreateModel"), model("Serve"), model("-CreateModel")).code
    assert [line.split()[0] for line in code.splitlines() if " = model(" in line] == [
        "serve",
        "serve_step",
        "create_model",
    ]


def test_the_code_is_a_function_that_returns_the_pipeline() -> None:
    assert built(written(model("a")).code, "p.py").name == "nightly"
