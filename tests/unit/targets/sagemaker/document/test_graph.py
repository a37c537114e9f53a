import time
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.document import Definition, from_json, read
from drivetrain.targets.sagemaker.document.graph import check, check_selection, dependencies, faults

FIXTURES = Path(__file__).parents[4] / "fixtures" / "definitions"


def of(*steps: dict[str, Any], parameters: tuple[str, ...] = ()) -> Definition:
    return from_json({"Parameters": [{"Name": n, "Type": "String"} for n in parameters], "Steps": list(steps)}, "it")


def step(name: str, *needs: str, type: str = "Processing", **fields: Any) -> dict[str, Any]:
    arguments = {f"from-{n}": {"Get": f"Steps.{n}.Uri"} for n in needs}
    return {"Name": name, "Type": type, "Arguments": {**arguments, **fields.pop("Arguments", {})}, **fields}


def condition(name: str, then: list[dict[str, Any]], otherwise: list[dict[str, Any]], *of: str) -> dict[str, Any]:
    left = {"Get": f"Steps.{of[0]}.Outcome"} if of else 1
    compared = {"Type": "Equals", "LeftValue": left, "RightValue": 1}
    return step(name, type="Condition", Arguments={"Conditions": [compared], "IfSteps": then, "ElseSteps": otherwise})


def body(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"IterableItems": ["x"], "MaxConcurrency": 1, "ForEachBody": list(steps)}


def problem(definition: Definition) -> str:
    with pytest.raises(UserError) as caught:
        check(definition)
    return str(caught.value)


def test_dependencies_come_from_references_depends_on_and_branches() -> None:
    definition = read((FIXTURES / "gate.json").read_bytes())
    check(definition)
    assert dependencies(definition) == {
        "Prepare": set(),
        "Train": {"Prepare"},
        "Evaluate": {"Train", "Prepare"},
        "Gate": {"Evaluate"},
        "Register": {"Train", "Gate"},
        "DeployGate": {"Gate", "Register"},
        "Model": {"Gate", "DeployGate"},
        "Transform": {"Gate", "DeployGate", "Model"},
        "TooBad": {"Gate"},
    }


def test_dependencies_of_unknown_step_types() -> None:
    definition = read((FIXTURES / "unknown_steps.json").read_bytes())
    assert dependencies(definition) == {
        "Ask": {"Sum"},
        "Sum": set(),
        "Each": {"Ask"},
        "Report": {"Each"},
        "OnFailure": {"Report", "Each"},
    }


def test_unknown_functions_are_no_fault() -> None:
    definition = read((FIXTURES / "unknown_steps.json").read_bytes())
    check(definition)
    assert {name for step in definition.walk() for name in step.unknown_functions} == {"Std:Unheard"}


def test_a_reference_that_cannot_be_read_is_one_of_the_faults() -> None:
    lost = step("a", Arguments={"x": {"Get": "nowhere"}})
    assert [fault.partition(": Get ")[2][:9] for fault in faults(of(lost, step("each", type="ForEach")))] == [
        "'nowhere'"
    ]


def test_a_whole_step_is_read_and_is_a_fault() -> None:
    definition = of(step("a"), step("b", Arguments={"x": {"Get": "Steps.a"}}))
    assert dependencies(definition)["b"] == {"a"}
    [fault] = faults(definition)
    assert fault.endswith("Get 'Steps.a': it names a step and no value of it. Allowed: Steps.<step>.<path>.")


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (of(step("a"), condition("c", [step("a")], [])), "2 steps are named 'a'"),
        (of(parameters=("p", "p")), "2 parameters are named 'p'"),
        (of(step("load"), step("b", "laod")), "Get 'Steps.laod.Uri': there is no step 'laod'. Did you mean 'load'?"),
        (
            of(step("load"), step("b", DependsOn=["lod"])),
            "depends on step 'lod', which does not exist. Did you mean 'load'?",
        ),
        (
            of(step("a"), step("b", DependsOn=[{"Step": "a", "Trigger": "Faild"}])),
            "trigger 'Faild'. Did you mean 'Failed'?",
        ),
        (
            of(step("a", Arguments={"x": {"Get": "Parameters.Rat"}}), parameters=("Rate",)),
            "there is no parameter 'Rat'. Did you mean 'Rate'?",
        ),
        (of(step("a", Arguments={"x": {"Get": "Execution.Id"}})), "an execution has no 'Id'"),
        (
            of(step("a", Arguments={"x": {"Get": "Execution.TrainingJobName"}})),
            "Get 'Execution.TrainingJobName': it is the name of the job that the step itself starts, and this one",
        ),
        (
            of(step("a", type="Tuning", Arguments={"x": {"Get": "Execution.TrainingJobName"}})),
            "Get 'Execution.TrainingJobName': it is the name of the job that the step itself starts",
        ),
        (
            of(step("a"), step("b", Arguments={"x": {"Get": "Steps.a.PropertyFiles.F"}})),
            "step 'a' has no property file 'F'. None is declared.",
        ),
        (of(step("a", Arguments={"x": {"Get": "nowhere"}})), "Get 'nowhere' begins with 'nowhere'"),
        (of(step("a", CacheConfig={"Enabled": True, "ExpireAfter": "1x"})), "'1x' is not a duration"),
        (of(step("a", RetryPolicies=[1])), "RetryPolicies[0] is 1"),
        (
            of(step("a", Arguments={"Get": "Parameters.All"}), parameters=("All",)),
            'Arguments is {"Get": "Parameters.All"}. Allowed: an object with the fields of the step',
        ),
        (
            of(step("each", type="ForEach", Arguments=body(step("a", Arguments={"Std:Join": {"Values": []}})))),
            'Arguments is {"Std:Join": {"Values": []}}. Allowed: an object',
        ),
        (of(step("a", type="Condition")), "Conditions is None. Allowed: a filled list"),
        (
            of(step("a", type="Condition", Arguments={"Conditions": [{"Type": "Equal"}]})),
            "condition type 'Equal' is not known",
        ),
    ],
)
def test_problems_are_found_before_anything_runs(definition: Definition, said: str) -> None:
    assert said in problem(definition)
    assert problem(definition).startswith("it: ") or problem(definition).startswith("it: Steps[")


def test_a_step_may_ask_for_the_name_of_its_own_job() -> None:
    """https://sagemaker.readthedocs.io/en/v2/amazon_sagemaker_model_building_pipeline.html#execution-variables"""
    names = {kind: {"x": {"Get": f"Execution.{kind}JobName"}} for kind in ("Training", "Processing")}
    check(of(*(step(kind, type=kind, Arguments=given) for kind, given in names.items())))
    check(of(step("check", type="QualityCheck", Arguments=names["Processing"])))
    check(of(step("each", type="ForEach", Arguments=body(step("a", type="Training", Arguments=names["Training"])))))


def with_outputs(name: str, *outputs: str, **fields: Any) -> dict[str, Any]:
    return step(name, Arguments={"ProcessingOutputConfig": {"Outputs": [{"OutputName": o} for o in outputs]}}, **fields)


def reading(output: str) -> dict[str, Any]:
    uri = {"Get": f"Steps.a.ProcessingOutputConfig.Outputs['{output}'].S3Output.S3Uri"}
    return step("b", Arguments={"ProcessingInputs": [{"InputName": "x", "S3Input": {"S3Uri": uri}}]})


def test_a_reference_to_an_output_that_no_step_declares() -> None:
    check(of(with_outputs("a", "train", "test"), reading("train")))
    said = problem(of(with_outputs("a", "train", "test"), reading("tran")))
    assert "step 'a' has no output 'tran'. Did you mean 'train'? Allowed: test, train." in said
    assert "step 'a' has no output 'train'. None is declared." in problem(of(step("a"), reading("train")))
    # Of a step type that nobody knows here the outputs are not known either.
    check(of(step("a", type="Unheard"), reading("train")))


@pytest.mark.parametrize(
    ("output", "path", "said"),
    [
        ("metrcs", "m.json", "lies in output 'metrcs', which the step does not have. Did you mean 'metrics'?"),
        ("metrics", "../m.json", "FilePath '../m.json'. Allowed: a path in the output."),
        ("metrics", "/etc/passwd", "FilePath '/etc/passwd'. Allowed: a path in the output."),
    ],
)
def test_property_files_lie_in_an_output(output: str, path: str, said: str) -> None:
    file = {"PropertyFileName": "M", "OutputName": output, "FilePath": path}
    assert said in problem(of(with_outputs("a", "metrics", PropertyFiles=[file])))


def test_an_unreadable_property_file_is_a_fault_of_each_step_that_reads_it() -> None:
    read = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.a.PropertyFiles.M"}, "Path": "x"}}
    files = [{"PropertyFileName": "M", "OutputName": "metrics", "FilePath": ""}]
    found = faults(of(with_outputs("a", "metrics", PropertyFiles=files), step("b", Arguments={"x": read})))
    assert len(found) == 2
    assert all("FilePath is ''. Allowed: text." in said for said in found)


def test_a_thousand_mistakes_are_refused_as_quickly_as_twenty() -> None:
    steps = [
        step(f"step-number-{n:04d}-with-a-long-name", f"stepp-number-{n:04d}-with-a-long-name") for n in range(1000)
    ]
    started = time.process_time()
    said = problem(of(*steps))
    assert time.process_time() - started < 1.0
    assert "Did you mean 'step-number-0000-with-a-long-name'?" in said
    assert said.endswith("(at least 19 more problems)")


def test_the_number_of_further_problems_is_said() -> None:
    assert problem(of(step("a", "x"), step("b", "y"))).endswith("(1 more problems)")


@pytest.mark.parametrize(
    ("definition", "cycle"),
    [
        (of(step("a", "a")), "a -> a"),
        (of(step("a", "c"), step("b", "a"), step("c", "b")), "a -> c -> b -> a"),
        (of(step("a", DependsOn=["b"]), step("b", "a")), "a -> b -> a"),
        (of(condition("gate", [step("inner")], [], "inner")), "gate -> inner -> gate"),
    ],
)
def test_cycles_are_named(definition: Definition, cycle: str) -> None:
    assert f"the steps wait for each other: {cycle}" in problem(definition)


def test_a_step_may_be_written_after_one_that_waits_for_it() -> None:
    check(of(step("b", "a"), step("a")))


def lambda_step(name: str, *needs: str, kind: str = "Lambda", **arguments: Any) -> dict[str, Any]:
    return {"Name": name, "Type": kind, "DependsOn": list(needs), "Arguments": arguments}


@pytest.fixture
def definition() -> Definition:
    loop = lambda_step("each", "middle", kind="ForEach", IterableItems=["a"], ForEachBody=[lambda_step("inner")])
    steps = [
        lambda_step("first"),
        lambda_step("middle", "first"),
        lambda_step("last", "middle"),
        lambda_step("aside"),
        loop,
    ]
    return from_json({"Version": "2020-12-01", "Steps": steps}, "test")


@pytest.mark.parametrize(
    ("names", "needed"),
    [
        (("last",), {"first", "middle"}),
        (("middle", "last"), {"first"}),
        (("first", "aside"), set()),
        (("each",), {"first", "middle"}),
    ],
)
def test_inputs_needed_from_other_steps(definition: Definition, names: tuple[str, ...], needed: set[str]) -> None:
    assert check_selection(definition, names) == needed


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "--select names 0 steps. Allowed: 1 to 50"),
        (tuple(f"s{n}" for n in range(51)), "--select names 51 steps. Allowed: 1 to 50"),
        (("asid",), "--select asid: there is no such step. Did you mean 'aside'"),
        (("inner",), "--select inner: it stands in the body of each. Select each."),
        (("first", "last"), "--select: middle lies between steps that are selected"),
    ],
)
def test_what_is_refused(definition: Definition, names: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_selection(definition, names)
