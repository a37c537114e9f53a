from pathlib import Path

from drivetrain.targets.sagemaker.document.document import from_json, read
from drivetrain.telling.content.from_definition import dag_of, read_by_conditions
from drivetrain.telling.dag import Dag, Node

FIXTURES = Path(__file__).parents[3] / "fixtures" / "definitions"


def edges_of(dag: Dag) -> set[tuple[str, str, str, str]]:
    """Where each begins and ends, what is written on it, and what flows along it."""
    return {(edge.source, edge.target, edge.label, edge.carries) for edge in dag.edges}


def test_nodes_and_labelled_edges() -> None:
    dag = dag_of(read((FIXTURES / "gate.json").read_bytes()))
    assert dag.nodes[0] == Node("Prepare", "Processing", "Prepare the data")
    assert dag.nodes[-2:] == (Node("Transform", "Transform"), Node("TooBad", "Fail"))
    assert edges_of(dag) == {
        ("Prepare", "Train", "", "train"),
        ("Train", "Evaluate", "", "model"),
        ("Prepare", "Evaluate", "", "test"),
        ("Evaluate", "Gate", "", "Report"),
        ("Train", "Register", "", "model"),
        ("Gate", "Register", "yes", ""),
        ("Register", "DeployGate", "", ""),
        ("DeployGate", "Model", "yes", ""),
        ("Model", "Transform", "", "ModelName"),
        ("Gate", "TooBad", "no", ""),
    }


def test_conditions_name_the_metrics_by_which_they_decide() -> None:
    value = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.E.PropertyFiles.R"}, "Path": "metrics['mae'].value"}}
    least = {"Type": "LessThanOrEqualTo", "LeftValue": value, "RightValue": 11.0}
    either = {"Type": "Or", "Conditions": [{"Type": "Not", "Condition": least}]}
    gate = {"Name": "G", "Type": "Condition", "Arguments": {"Conditions": [either], "IfSteps": [], "ElseSteps": []}}
    definition = from_json({"Version": "2020-12-01", "Parameters": [], "Steps": [gate]})
    assert read_by_conditions(definition) == {"metrics", "mae", "value"}


def test_triggers_and_outputs_of_unknown_steps_are_ignored() -> None:
    dag = dag_of(read((FIXTURES / "unknown_steps.json").read_bytes()))
    assert edges_of(dag) == {
        ("Sum", "Ask", "", ""),
        ("Ask", "Each", "", "answer"),
        ("Each", "Report", "", "n"),
        ("Report", "OnFailure", "if failed", ""),
        ("Each", "OnFailure", "", ""),
    }


def test_references_to_missing_steps_make_no_edge() -> None:
    step = {"Name": "a", "Type": "Lambda", "Arguments": {"x": {"Get": "Steps.gone.Uri"}}, "DependsOn": ["away"]}
    dag = dag_of(from_json({"Steps": [step]}))
    assert (dag.nodes, dag.edges) == ((Node("a", "Lambda"),), ())
