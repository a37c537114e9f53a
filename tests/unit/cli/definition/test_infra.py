from __future__ import annotations

import json

import yaml

SETTINGS = """\
from drivetrain import Deployment, Pipeline, fail


def nightly() -> Pipeline:
    target = Deployment(target="kubeflow", targets={"kubeflow": SETTINGS})
    return Pipeline(name="nightly", steps=[fail("no", name="stop")], deployment=target)
"""


def test_the_folder_has_the_printed_files(drivetrain) -> None:
    printed = drivetrain("infra", "kubeflow", "retraining")
    kinds = [each["kind"] for each in yaml.safe_load_all(printed)]
    assert kinds == ["ServiceAccount", "NetworkPolicy", "NetworkPolicy", "Deployment", "Service"]
    assert "note: deployment.targets.kubeflow.root" in drivetrain.err

    folder = drivetrain.folder / "out"
    assert drivetrain("infra", "kubeflow", "retraining", "-o", folder) == ""
    assert f"Wrote {folder}: accounts.yaml, network.yaml, tensorboard.yaml, kustomization.yaml." in drivetrain.err
    assert f"\n  kubectl apply -k {folder}\n" in drivetrain.err
    names = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    written = [each for name in names for each in yaml.safe_load_all((folder / name).read_text())]
    assert written == list(yaml.safe_load_all(printed))
    told = json.loads(drivetrain("infra", "kubeflow", "retraining", "--json"))
    assert (folder / "network.yaml").read_text().endswith(told["files"]["network.yaml"])
    assert any("deployment.targets.kubeflow.root" in note for note in told["notes"])
    told = json.loads(drivetrain("infra", "kubeflow", "retraining", "-o", folder, "--json"))
    assert told["commands"] == [f"kubectl apply -k {folder}"]
    assert told["folder"] == str(folder) and "network.yaml" in told["files"] and drivetrain.err == ""


def test_the_folder_can_be_written_again_unless_it_was_edited(drivetrain) -> None:
    folder = drivetrain.folder / "out"
    drivetrain("infra", "kubeflow", "retraining", "-o", folder)
    drivetrain("infra", "kubeflow", "retraining", "-o", folder)
    (folder / "mine.yaml").write_text("a: 1\n")
    (folder / "network.yaml").write_text("a: 1\n")
    said = drivetrain.error("infra", "kubeflow", "retraining", "-o", folder)
    assert "network.yaml was edited, or was not written by this command" in said
    assert (folder / "mine.yaml").read_text() == (folder / "network.yaml").read_text() == "a: 1\n"


def test_bad_input(drivetrain) -> None:
    assert "Did you mean 'kubeflow'?" in drivetrain.error("infra", "kubflow", "retraining")
    assert "Allowed: kubeflow." in drivetrain.error("infra", "sagemaker", "retraining")
    assert "Did you mean 'retraining'?" in drivetrain.error("infra", "kubeflow", "retrainin")
    drivetrain.write("taken", "x")
    said = drivetrain.error("infra", "kubeflow", "retraining", "-o", drivetrain.folder / "taken")
    assert "taken is not a folder" in said
    drivetrain.write("full.txt", "x")
    said = drivetrain.error("infra", "kubeflow", "retraining", "-o", drivetrain.folder)
    assert "is not empty: it holds" in said and (drivetrain.folder / "full.txt").read_text() == "x"
    assert len(list(drivetrain.folder.iterdir())) == 2, "nothing was written"


def test_wrong_settings_are_one_line(drivetrain) -> None:
    file = drivetrain.write("flow.py", SETTINGS.replace("SETTINGS", '{"namespace": "Team_A"}'))
    said = drivetrain.error("infra", "kubeflow", file)
    assert "deployment.targets.kubeflow.namespace" in said and "'Team_A'" in said
    assert len(said.splitlines()) == 1


def test_errors_of_the_target_are_passed_on(drivetrain) -> None:
    file = drivetrain.write(
        "flow.py",
        "from drivetrain import Pipeline, Upload, fail\n\n\n"
        "def nightly() -> Pipeline:\n"
        '    on = Upload(name="new-data", bucket="acme")\n'
        '    return Pipeline(name="nightly", steps=[fail("no", name="stop")], triggers=[on])\n',
    )
    said = drivetrain.error("infra", "kubeflow", file, "-o", drivetrain.folder / "out")
    assert "Kubeflow Pipelines cannot express this pipeline." in said and "trigger 'new-data'" in said
    assert not (drivetrain.folder / "out").exists()
