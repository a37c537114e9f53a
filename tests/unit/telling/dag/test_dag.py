from __future__ import annotations

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.document import read
from drivetrain.telling.content.from_definition import dag_of
from drivetrain.telling.dag import Dag, Edge, Node, implied_edges

DEFINITION = """
{"Version": "2020-12-01", "Steps": [
  {"Name": "prepare", "Type": "Processing", "DisplayName": "Prepare the data", "Arguments": {}},
  {"Name": "train", "Type": "Training", "Arguments": {"X": {"Get": "Steps.prepare.ProcessingJobArn"}}},
  {"Name": "evaluate", "Type": "Processing", "Arguments": {
    "A": {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}, "B": {"Get": "Steps.prepare.ProcessingJobArn"}}},
  {"Name": "gate", "Type": "Condition", "Arguments": {
    "Conditions": [{"Type": "Equals", "LeftValue": {"Get": "Steps.evaluate.ProcessingJobStatus"},
                    "RightValue": "Completed"}],
    "IfSteps": [{"Name": "register", "Type": "RegisterModel", "Arguments": {
       "M": {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}}}],
    "ElseSteps": [{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}]}},
  {"Name": "clean", "Type": "Processing", "Arguments": {}, "DependsOn": [{"Step": "train", "Trigger": "Failed"}]}
]}
"""


def test_an_edge_that_a_longer_path_makes_too_is_implied() -> None:
    assert implied_edges(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")]) == {("a", "c")}


def test_labelled_edges_are_never_implied() -> None:
    dag = Dag.build(
        [Node(name, "Processing") for name in "abc"],
        [Edge("a", "b"), Edge("b", "c"), Edge("a", "c", label="yes")],
    )
    assert not any(edge.implied for edge in dag.edges)


def test_edges_of_unknown_steps_are_left_out() -> None:
    dag = Dag.build([Node("a", "Processing")], [Edge("gone", "a"), Edge("a", "a")])
    assert dag.edges == ()


def test_the_dag_of_a_definition() -> None:
    dag = dag_of(read(DEFINITION))
    assert [node.name for node in dag.nodes] == ["prepare", "train", "evaluate", "gate", "register", "stop", "clean"]
    assert dag.nodes[0].label == "Prepare the data"
    edges = {(edge.source, edge.target): edge for edge in dag.edges}
    assert edges["gate", "register"].label == "yes" and edges["gate", "stop"].label == "no"
    assert edges["train", "evaluate"].carries == "model" and not edges["train", "evaluate"].label
    assert edges["train", "clean"].label == "if failed"
    assert edges["prepare", "evaluate"].implied and edges["train", "register"].implied


def test_a_definition_whose_steps_wait_for_each_other_is_refused() -> None:
    text = """{"Steps": [
      {"Name": "a", "Type": "Processing", "DependsOn": ["b"]}, {"Name": "b", "Type": "Processing", "DependsOn": ["a"]}
    ]}"""
    with pytest.raises(UserError, match="wait for each other"):
        dag_of(read(text, "x.json"))
