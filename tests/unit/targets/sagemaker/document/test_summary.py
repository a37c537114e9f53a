from pathlib import Path

from drivetrain.report.content.from_definition import Edge, Node, picture
from drivetrain.targets.sagemaker.document.document import from_json, read

FIXTURES = Path(__file__).parents[4] / "fixtures" / "definitions"


def test_nodes_and_labelled_edges() -> None:
    nodes, edges = picture(read((FIXTURES / "gate.json").read_bytes()))
    assert nodes[0] == Node("Prepare", "Processing", "Prepare the data", None)
    assert nodes[-2:] == [
        Node("Transform", "Transform", None, ("DeployGate", True)),
        Node("TooBad", "Fail", None, ("Gate", False)),
    ]
    assert edges == [
        Edge("Prepare", "Train", "train"),
        Edge("Train", "Evaluate", "model"),
        Edge("Prepare", "Evaluate", "test"),
        Edge("Evaluate", "Gate", "Report"),
        Edge("Train", "Register", "model"),
        Edge("Gate", "Register", "yes"),
        Edge("Register", "DeployGate", ""),
        Edge("DeployGate", "Model", "yes"),
        Edge("Model", "Transform", "ModelName"),
        Edge("Gate", "TooBad", "no"),
    ]


def test_triggers_and_outputs_of_steps_that_nobody_knows() -> None:
    _, edges = picture(read((FIXTURES / "unknown_steps.json").read_bytes()))
    assert edges == [
        Edge("Sum", "Ask", ""),
        Edge("Ask", "Each", "answer"),
        Edge("Each", "Report", "n"),
        Edge("Report", "OnFailure", "if failed"),
        Edge("Each", "OnFailure", ""),
    ]


def test_what_does_not_exist_is_no_edge() -> None:
    step = {"Name": "a", "Type": "Lambda", "Arguments": {"x": {"Get": "Steps.gone.Uri"}}, "DependsOn": ["away"]}
    assert picture(from_json({"Steps": [step]})) == ([Node("a", "Lambda", None, None)], [])
