"""`drivetrain check` of a text for any target: which one, its content says."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

SOUND = """\
pipelineInfo: {name: one}
schemaVersion: 2.1.0
deploymentSpec: {executors: {exec-a: {container: {image: python}}}}
components: {comp-a: {executorLabel: exec-a}}
root: {dag: {tasks: {a: {componentRef: {name: comp-a}}}}}
"""


@pytest.mark.parametrize("name", ["one.yaml", "one.yml", "one.txt"])
def test_a_sound_pipeline_of_kubeflow(drivetrain, name: str) -> None:
    (drivetrain.folder / name).write_text(SOUND)
    assert drivetrain("check", name) == f"{name}: 1 step, nothing that would be refused.\n"


def test_the_same_as_json(drivetrain) -> None:
    document = {
        "pipelineInfo": {"name": "one"},
        "schemaVersion": "2.1.0",
        "deploymentSpec": {"executors": {"exec-a": {"container": {"image": "python"}}}},
        "components": {"comp-a": {"executorLabel": "exec-a"}},
        "root": {"dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}}}}},
    }
    file = drivetrain.write("one.json", document)
    assert drivetrain("check", file).endswith("one.json: 1 step, nothing that would be refused.\n")


def test_problems_show_their_position(drivetrain) -> None:
    (drivetrain.folder / "one.yaml").write_text(SOUND.replace("{name: comp-a}", "{name: comp-b}"))
    said = drivetrain("check", "one.yaml", code=1)
    assert said.startswith("A cluster would refuse, or do otherwise:\n")
    assert "    root.dag.tasks['a'].componentRef: there is no component 'comp-b'. Did you mean 'comp-a'?" in said
    found = json.loads(drivetrain("check", "one.yaml", "--json", code=1))
    assert [problem["place"] for problem in found["problems"]] == [
        "components['comp-a']",
        "root.dag.tasks['a'].componentRef",
    ]


def test_a_misspelt_step_type_is_refused_and_an_unknown_one_reported(drivetrain) -> None:
    def checked(kind: str, code: int) -> str:
        file = drivetrain.write("one.json", {"Steps": [{"Name": "a", "Type": kind, "Arguments": {}}]})
        return drivetrain("check", file, code=code)

    assert "a: there is no step type 'Trainig'. Did you mean 'Training'?" in checked("Trainig", 1)
    for newer in ("Quantum", "TrainingV2"):
        said = checked(newer, 0)
        assert "1 step (1 could not be checked), nothing that would be refused." in said
        assert "`drivetrain run` takes a step of such a type only with its results: --stub" in said


def test_a_pipeline_of_ours_compiled_for_kubeflow(drivetrain) -> None:
    said = drivetrain("check", "retraining", "--target", "kubeflow")
    assert said == "retraining: 18 steps, nothing that would be refused.\n"


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        ("one.yaml", "a: [", (), "one.yaml, line 2, column 1: not YAML"),
        ("one.yaml", "a: 1", (), "no pipeline of Kubeflow Pipelines v2"),
        ("one.txt", "a: 1", (), "one.txt, line 1, column 1: not JSON"),
        ("one.json", SOUND, ("--target", "sagemaker"), "one.json, line 1, column 1: not JSON"),
        ("one.yaml", SOUND, ("--target", "kubflow"), "There is no target 'kubflow'. Did you mean 'kubeflow'?"),
    ],
)
def test_unreadable_files_cannot_be_checked(
    drivetrain, name: str, text: str, options: tuple[str, ...], said: str
) -> None:
    (drivetrain.folder / name).write_text(text)
    assert said in drivetrain.error("check", name, *options)


def test_a_target_that_reads_no_definitions(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    from drivetrain.targets import target

    found = target.find_target
    blind = SimpleNamespace(TITLE="Shell", SUFFIX=".sh")
    monkeypatch.setattr(target, "target_names", lambda: ["kubeflow", "sagemaker", "shell"])
    monkeypatch.setattr(target, "find_target", lambda name: blind if name == "shell" else found(name))
    (drivetrain.folder / "one.yaml").write_text(SOUND)
    assert drivetrain("check", "one.yaml").startswith("one.yaml: 1 step")
    assert "Shell reads no definitions." in drivetrain.error("check", "one.yaml", "--target", "shell")


def test_a_missing_file_is_refused(drivetrain) -> None:
    assert "Definition one.yaml: No such file or directory." in drivetrain.error("check", "one.yaml")
