from pathlib import Path

from drivetrain.targets.sagemaker.document.document import from_json, read
from drivetrain.telling.content.from_definition import Step, Wait, picture, read_by_conditions

FIXTURES = Path(__file__).parents[3] / "fixtures" / "definitions"


def test_nodes_and_labelled_edges() -> None:
    nodes, edges = picture(read((FIXTURES / "gate.json").read_bytes()))
    assert nodes[0] == Step("Prepare", "Processing", "Prepare the data", None)
    assert nodes[-2:] == [
        Step("Transform", "Transform", None, ("DeployGate", True)),
        Step("TooBad", "Fail", None, ("Gate", False)),
    ]
    assert edges == [
        Wait("Prepare", "Train", "train"),
        Wait("Train", "Evaluate", "model"),
        Wait("Prepare", "Evaluate", "test"),
        Wait("Evaluate", "Gate", "Report"),
        Wait("Train", "Register", "model"),
        Wait("Gate", "Register", "yes"),
        Wait("Register", "DeployGate", ""),
        Wait("DeployGate", "Model", "yes"),
        Wait("Model", "Transform", "ModelName"),
        Wait("Gate", "TooBad", "no"),
    ]


def test_conditions_name_the_metrics_by_which_they_decide() -> None:
    value = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.E.PropertyFiles.R"}, "Path": "metrics['mae'].value"}}
    least = {"Type": "LessThanOrEqualTo", "LeftValue": value, "RightValue": 11.0}
    either = {"Type": "Or", "Conditions": [{"Type": "Not", "Condition": least}]}
    gate = {"Name": "G", "Type": "Condition", "Arguments": {"Conditions": [either], "IfSteps": [], "ElseSteps": []}}
    definition = from_json({"Version": "2020-12-01", "Parameters": [], "Steps": [gate]})
    assert read_by_conditions(definition) == {"metrics", "mae", "value"}


def test_triggers_and_outputs_of_steps_that_nobody_knows() -> None:
    _, edges = picture(read((FIXTURES / "unknown_steps.json").read_bytes()))
    assert edges == [
        Wait("Sum", "Ask", ""),
        Wait("Ask", "Each", "answer"),
        Wait("Each", "Report", "n"),
        Wait("Report", "OnFailure", "if failed"),
        Wait("Each", "OnFailure", ""),
    ]


def test_what_does_not_exist_is_no_edge() -> None:
    step = {"Name": "a", "Type": "Lambda", "Arguments": {"x": {"Get": "Steps.gone.Uri"}}, "DependsOn": ["away"]}
    assert picture(from_json({"Steps": [step]})) == ([Step("a", "Lambda", None, None)], [])
