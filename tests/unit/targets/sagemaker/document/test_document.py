import json
import re
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.document import from_json, read, read_bytes, write
from drivetrain.targets.sagemaker.document.step_fields import Cache, DependsOn, OutputParameter, PropertyFile, Retry

FIXTURES = Path(__file__).parents[4] / "fixtures" / "definitions"
GATE = read((FIXTURES / "gate.json").read_bytes(), "gate.json")
UNKNOWN = read((FIXTURES / "unknown_steps.json").read_bytes(), "unknown_steps.json")


def exact(value: Any) -> str:
    """JSON in which 1, 1.0 and true differ, and the order of keys counts."""
    return json.dumps(value)


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.stem)
def test_nothing_is_lost(path: Path) -> None:
    definition = read(path.read_bytes(), path.name)
    again = read(write(definition), path.name)
    assert exact(definition.raw) == exact(again.raw) == exact(json.loads(path.read_text()))
    assert again == definition
    assert write(again) == write(definition)


def test_far_too_large_definitions_are_refused_at_once(tmp_path: Path) -> None:
    steps = ",".join(['{"Name": "a", "Type": "X"}'] * 10_001)
    condition = '{"Name": "c", "Type": "Condition", "Arguments": {"IfSteps": [' + steps + "]}}"
    for text in (f'{{"Steps": [{steps}]}}', f'{{"Steps": [{condition}]}}'):
        with pytest.raises(UserError, match=r"it: the definition has 10,00\d steps\. Allowed: 10,000\."):
            read(text, "it")
    with pytest.raises(UserError, match="it: a definition has at most 8,388,608 bytes"):
        read(read_bytes(Path("/dev/zero")), "it")
    (tmp_path / "small.json").write_bytes(b"{}")
    assert read_bytes(tmp_path / "small.json") == b"{}"


def test_a_file_in_our_own_layout_is_written_back_byte_for_byte() -> None:
    assert write(GATE).encode() == (FIXTURES / "gate.json").read_bytes()


def test_unknown_fields_keep_place_and_spelling() -> None:
    text = write(UNKNOWN)
    assert '"SelfWritten": "yes"' in text and '"Owner": "überall"' in text and '"MlflowConfig": null' in text
    assert re.search(r"2\.50,\s+1E5,", text)
    assert UNKNOWN.step("Sum").raw["Weird"] == {"Nested": {"Std:Unheard": {"Of": 1}}}


def test_steps_know_their_branches() -> None:
    assert [step.name for step in GATE.steps] == ["Prepare", "Train", "Evaluate", "Gate"]
    assert {step.name: step.branch for step in GATE.walk() if step.branch} == {
        "Register": (("Gate", True),),
        "DeployGate": (("Gate", True),),
        "Model": (("Gate", True), ("DeployGate", True)),
        "Transform": (("Gate", True), ("DeployGate", True)),
        "TooBad": (("Gate", False),),
    }
    assert [step.name for step in GATE.step("Gate").otherwise] == ["TooBad"]
    assert [step.name for step in GATE.walk()] == [
        "Prepare", "Train", "Evaluate", "Gate", "Register", "DeployGate", "Model", "Transform", "TooBad",
    ]  # fmt: skip


def test_a_step_is_a_view_of_the_given_json() -> None:
    step = GATE.step("Prepare")
    assert step.raw is GATE.raw["Steps"][0]
    assert step.arguments is GATE.raw["Steps"][0]["Arguments"]
    assert (step.type, step.display_name, step.description) == ("Processing", "Prepare the data", None)


def test_fields_of_steps() -> None:
    assert GATE.step("Prepare").cache == Cache(enabled=True, expire_after_seconds=30 * 86_400 + 5 * 3600)
    assert GATE.step("Train").cache == Cache(enabled=False)
    assert GATE.step("Evaluate").property_files == {"Report": PropertyFile("evaluation", "evaluation.json")}
    assert GATE.step("Train").retry_policies == (
        Retry(("Step.THROTTLING",), interval_seconds=1, backoff_rate=2.0, max_attempts=3),
        Retry(("SageMaker.CAPACITY_ERROR",), max_attempts=None, expire_after_seconds=7200),
    )
    assert UNKNOWN.step("OnFailure").depends_on == (DependsOn("Report", "Failed"), DependsOn("Each"))
    assert UNKNOWN.step("Ask").output_parameters == (
        OutputParameter("answer", "String"),
        OutputParameter("score", "Float"),
    )


def test_parameters() -> None:
    assert [(p.name, p.type, p.default) for p in GATE.parameters] == [
        ("InstanceCount", "Integer", 1),
        ("Approval", "String", "PendingManualApproval"),
        ("InputData", "String", None),
        ("MaxError", "Float", 6.0),
        ("Deploy", "Boolean", False),
    ]
    assert GATE.parameters[1].choices == ("PendingManualApproval", "Approved")


def test_references_of_a_condition_are_its_own_and_not_its_branches() -> None:
    assert [get.text for get in GATE.step("Gate").references] == [
        "Steps.Evaluate.PropertyFiles.Report",
        "Parameters.MaxError",
    ]
    assert "IfSteps" in GATE.step("Gate").arguments


def test_references_between_the_steps_of_a_for_each_stay_inside() -> None:
    assert {get.step for get in UNKNOWN.step("Each").references if get.step} == {"Ask"}


def test_null_counts_as_left_out() -> None:
    nothing = dict.fromkeys(
        ["Arguments", "DependsOn", "CacheConfig", "RetryPolicies", "PropertyFiles", "OutputParameters", "DisplayName"]
    )
    definition = from_json({"Parameters": None, "Steps": [{"Name": "a", "Type": "Lambda", **nothing}]})
    (step,) = definition.steps
    assert (step.arguments, step.depends_on, step.retry_policies, step.property_files) == ({}, (), (), {})
    assert not step.cache.enabled and definition.parameters == () and write(definition).count("null") == 8


def test_a_missing_step_is_named_with_its_likeness() -> None:
    with pytest.raises(UserError, match=r"gate.json: no step 'Tran'\. Did you mean 'Train'\?"):
        GATE.step("Tran")


STEP = {"Name": "a", "Type": "Lambda"}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "a definition is a JSON object with a list of Steps; given a list"),
        (3, "given 3"),
        ({}, "has no Steps. Given: nothing"),
        ({"steps": []}, "has no Steps. Given: steps"),
        # As `aws sagemaker describe-pipeline` writes it, whole and with --query PipelineDefinition.
        (
            {"PipelineDefinition": '{"Steps": []}'},
            "PipelineDefinition. Take the text out of it: aws sagemaker describe",
        ),
        ('{"Steps": []}', "--query PipelineDefinition --output text"),
        ({"Steps": None}, "Steps is null"),
        ({"Steps": {}}, "Steps is an object. Allowed: a list"),
        ({"Steps": ["a"]}, "Steps[0] is 'a'. Allowed: an object"),
        ({"Steps": [STEP, {"Type": "Lambda"}]}, "Steps[1] has no Name. Given: Type"),
        ({"Steps": [{"Name": "a", "type": "x"}]}, "Steps[0] ('a') has no Type. Given: Name, type"),
        ({"Steps": [{"Name": 5, "Type": "x"}]}, "Steps[0]: Name is 5. Allowed: text"),
        ({"Steps": [{"Name": "", "Type": "x"}]}, "Steps[0]: Name is ''. Allowed: text"),
        ({"Steps": [{**STEP, "Arguments": "x"}]}, "Steps[0] ('a'): Arguments is 'x'. Allowed: an object"),
        ({"Steps": [{**STEP, "DependsOn": "b"}]}, "Steps[0] ('a'): DependsOn is 'b'. Allowed: a list"),
        ({"Steps": [{**STEP, "DependsOn": [1]}]}, "DependsOn[0] is 1. Allowed: text"),
        ({"Steps": [{**STEP, "DependsOn": [{"step": "b"}]}]}, "DependsOn[0] has no Step. Given: step"),
        ({"Steps": [{**STEP, "DependsOn": [{"Step": "b", "Trigger": 1}]}]}, "DependsOn[0]: Trigger is 1"),
        ({"Steps": [{**STEP, "DisplayName": ["x"]}]}, "DisplayName is a list. Allowed: text"),
        (
            {"Steps": [{"Name": "c", "Type": "Condition", "Arguments": {"IfSteps": {}}}]},
            "Steps[0].Arguments.IfSteps is an object. Allowed: a list",
        ),
        (
            {"Steps": [{"Name": "c", "Type": "Condition", "Arguments": {"ElseSteps": [STEP, 1]}}]},
            "Steps[0].Arguments.ElseSteps[1] is 1",
        ),
        ({"Steps": [], "Parameters": {}}, "Parameters is an object. Allowed: a list"),
        ({"Steps": [], "Parameters": [{"Name": "a"}]}, "Parameters[0] ('a') has no Type"),
        ({"Steps": [], "Parameters": [{"Name": "a", "Type": "String", "EnumValues": "x"}]}, "EnumValues is 'x'"),
    ],
)
def test_wrong_shapes_are_refused_with_their_place(raw: Any, said: str) -> None:
    for function in (lambda: from_json(raw, "it"), lambda: read(json.dumps(raw), "it")):
        with pytest.raises(UserError) as caught:
            function()
        assert said in str(caught.value) and str(caught.value).startswith("it: ")


@pytest.mark.parametrize(
    ("fields", "attribute", "said"),
    [
        ({"CacheConfig": []}, "cache", "CacheConfig is a list. Allowed: an object"),
        ({"CacheConfig": {"Enabled": "true"}}, "cache", "CacheConfig.Enabled is 'true'. Allowed: true, false"),
        (
            {"CacheConfig": {"Enabled": True, "ExpireAfter": "soon"}},
            "cache",
            "CacheConfig.ExpireAfter: 'soon' is not a duration",
        ),
        (
            {"CacheConfig": {"Enabled": True, "ExpireAfter": 30}},
            "cache",
            "CacheConfig.ExpireAfter is 30. Allowed: text",
        ),
        ({"RetryPolicies": {}}, "retry_policies", "RetryPolicies is an object. Allowed: a list"),
        ({"RetryPolicies": [{"MaxAttempts": "3"}]}, "retry_policies", "RetryPolicies[0].MaxAttempts is '3'"),
        ({"RetryPolicies": [{"BackoffRate": -1}]}, "retry_policies", "RetryPolicies[0].BackoffRate is -1"),
        ({"RetryPolicies": [{"IntervalSeconds": True}]}, "retry_policies", "RetryPolicies[0].IntervalSeconds is true"),
        ({"RetryPolicies": [{"ExceptionType": "x"}]}, "retry_policies", "RetryPolicies[0].ExceptionType is 'x'"),
        ({"PropertyFiles": [{"PropertyFileName": "F"}]}, "property_files", "PropertyFiles[0] has no OutputName"),
        ({"OutputParameters": ["x"]}, "output_parameters", "OutputParameters[0] is 'x'. Allowed: an object"),
        ({"Arguments": {"x": {"Get": "Steps"}}}, "references", "Get 'Steps' names no step"),
    ],
)
def test_fields_that_nothing_needs_to_walk_are_refused_when_they_are_used(
    fields: dict[str, Any], attribute: str, said: str
) -> None:
    definition = from_json({"Steps": [{**STEP, **fields}]}, "it")
    with pytest.raises(UserError) as caught:
        getattr(definition.step("a"), attribute)
    assert said in str(caught.value) and str(caught.value).startswith("it: Steps[0] ('a'): ")


def test_deep_nesting_is_refused_whether_text_or_object() -> None:
    deep: Any = []
    for _ in range(1_000):
        deep = [deep]
    with pytest.raises(UserError, match="nested more than 200 levels deep"):
        from_json({"Steps": [{**STEP, "Arguments": {"x": deep}}]})
    nested = '{"Steps": [' + '{"Name": "c", "Type": "Condition", "Arguments": {"IfSteps": [' * 100_000
    with pytest.raises(UserError, match="nested more than 200 levels deep"):
        read(nested)


def test_conditions_nest_as_deep_as_the_text_may() -> None:
    raw: dict[str, Any] = {"Name": "leaf", "Type": "Lambda"}
    for n in range(48):
        raw = {"Name": f"c{n}", "Type": "Condition", "Arguments": {"Conditions": [], "IfSteps": [raw]}}
    definition = read(json.dumps({"Steps": [raw]}))
    assert len(definition.walk()) == 49 and len(definition.step("leaf").branch) == 48


def test_a_thousand_steps_of_one_list_are_read() -> None:
    definition = from_json({"Steps": [{**STEP, "Name": f"s{n}"} for n in range(1_000)]})
    assert len(definition.walk()) == 1_000 and definition.step("s999").place == "definition: Steps[999] ('s999')"


def test_all_steps_have_those_of_bodies_and_their_branches_among_them() -> None:
    def step(name: str, kind: str = "Lambda", **arguments: Any) -> dict[str, Any]:
        return {"Name": name, "Type": kind, "Arguments": arguments}

    inner = step("choose", "Condition", Conditions=[], IfSteps=[step("yes")], ElseSteps=[step("no")])
    nested = step("again", "ForEach", ForEachBody=[step("deep")])
    loop = step("each", "ForEach", ForEachBody=[step("one"), inner, nested])
    gate = step("gate", "Condition", Conditions=[], IfSteps=[loop], ElseSteps=[])
    definition = from_json({"Steps": [gate, step("last")]})
    assert [each.name for each in definition.walk()] == ["gate", "each", "last"]
    names = ["gate", "each", "one", "choose", "yes", "no", "again", "deep", "last"]
    assert [each.name for each in definition.all_steps] == names
