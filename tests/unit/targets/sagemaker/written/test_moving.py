from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.difference.place import STEPS
from drivetrain.targets.sagemaker.document.document import from_json
from drivetrain.targets.sagemaker.written import Written, write_code
from tests.fixtures.public_forms import (
    BUCKET,
    FORMS,
    SKLEARN,
    definition,
    framework,
    get,
    output,
    repack,
    scripted,
    training,
)

PREPARE = scripted("Prepare", "preprocess.py", {"input-1": f"{BUCKET}/data"}, ["train"])
TRAIN = framework("Fit", "train.py", {"training": output("Prepare", "train")}, epochs="3", rate="NaN", kind='"a"')


def moved(*names: str, steps: Any = (PREPARE, TRAIN), parameters: Any = ()) -> Written:
    return write_code(from_json(definition(steps, parameters)), "nightly", "nightly.py", moving=names)


def changed(step: Any, **arguments: Any) -> Any:
    return {**step, "Arguments": {**step["Arguments"], **arguments}}


def test_a_script_that_is_not_fetched_is_named_with_the_command_and_the_folders() -> None:
    written = moved("Prepare", "Fit")
    assert written.is_as_told and not written.is_equal and "NativeStep" not in written.code
    said = "\n".join(written.lines("nowhere/nightly.py"))
    place = f"{BUCKET}/Prepare-2022-07-13-16-07-51-228/input/code/preprocess.py"
    assert f"  Fetch it: aws s3 cp {place} src/preprocess.py\n" in said
    assert f"aws s3 cp {BUCKET}/Fit-81bd53b4/source/sourcedir.tar.gz - | tar xz -C src\n" in said
    assert "  src/preprocess.py is to find /opt/ml/processing/train at /opt/ml/processing/output/train.\n" in said
    assert written.to_json()["moved"][0] == {"step": "Prepare", "script": "src/preprocess.py"}
    assert '{"epochs": 3, "rate": "NaN", "kind": "a"}' in written.code


def test_steps_that_stay_say_the_same_as_before() -> None:
    written = moved("Prepare")
    assert {change.place[:2] for change in written.changes} == {(STEPS, "Prepare")}


def test_machines_of_parameters_stay_parameters() -> None:
    cluster = {"InstanceType": get("Parameters.Box"), "InstanceCount": get("Parameters.Count"), "VolumeSizeInGB": 50}
    step = changed(PREPARE, ProcessingResources={"ClusterConfig": cluster})
    written = moved("Prepare", steps=(step,), parameters=[("Box", "String", "ml.m5.large"), ("Count", "Integer", 1)])
    assert "Cluster(instance_type=box.ref(), count=count.ref(), volume_gb=50)" in " ".join(written.code.split())
    assert written.is_as_told, written.problem


def test_a_script_of_a_model_trainer_is_named_by_hand() -> None:
    channels = {"code": f"{BUCKET}/job/input/code/", "sm_drivers": f"{BUCKET}/job/drivers", "train": f"{BUCKET}/a"}
    step = training("Fit", SKLEARN, channels, {"lr": "0.1"})
    step["Arguments"]["AlgorithmSpecification"]["ContainerEntrypoint"] = ["/bin/bash", "sm_train.sh"]
    written = moved("Fit=bin/train.py", steps=(step,))
    assert written.is_as_told, written.problem
    assert 'contract="model_trainer"' in written.code and "sm_drivers" not in written.code
    assert f"Fetch it: aws s3 cp --recursive {BUCKET}/job/input/code/ src" in written.moves[0].lines(Path("nowhere"))[1]
    with pytest.raises(
        UserError, match=r"in S3; of a ModelTrainer's, give --moving STEP=SCRIPT\.py\. No step can move"
    ):
        moved("Fit", steps=(step,))


def test_scripts_of_the_same_name_have_a_folder_each() -> None:
    other = scripted("Again", "preprocess.py", {}, ["train"])
    code = moved("Prepare", steps=(PREPARE, other)).code
    assert '"src/Prepare/preprocess.py"' in code
    same = changed(other, ProcessingInputs=PREPARE["Arguments"]["ProcessingInputs"])
    assert '"src/preprocess.py"' in moved("Prepare", steps=(PREPARE, same)).code


def test_steps_that_cannot_move_are_refused_with_those_that_can() -> None:
    with pytest.raises(UserError, match=r"--moving Prepar is no step. Did you mean 'Prepare'\?"):
        moved("Prepar")
    steps = (PREPARE, TRAIN, repack("Repack", get("Steps.Fit.ModelArtifacts.S3ModelArtifacts")))
    with pytest.raises(
        UserError, match=r"--moving Repack is a job without a Python script in S3.* Allowed: Fit, Prepare"
    ):
        moved("Repack", steps=steps)
    for path in ("../a.py", "/a.py", "a/../../b.py", "a b.py", "$(a).py"):
        with pytest.raises(UserError, match="--moving Fit is a job without a Python script in S3"):
            moved("Fit", steps=(PREPARE, framework("Fit", path, {"train": f"{BUCKET}/a"})))
    item = PREPARE["Arguments"]["ProcessingInputs"][0]
    pipe = {**item, "S3Input": {**item["S3Input"], "S3InputMode": "Pipe"}}
    listed = [pipe, PREPARE["Arguments"]["ProcessingInputs"][1]]
    for step, reason in (
        (changed(PREPARE, ProcessingInputs=listed), "'input-1' is no folder of files that is copied as a whole"),
        (changed(PREPARE, ProcessingInputs=[*listed[1:], *listed[1:]]), "ProcessingInputs has an entry that no"),
        (framework("Fit", "a.py", dict.fromkeys("abcd", f"{BUCKET}/a")), "it has more than three channels"),
        (
            framework("Fit", "a.py", {"a": f"{BUCKET}/a"}, sagemaker_mpi_enabled="true"),
            "its hyperparameter sagemaker_mpi_enabled starts",
        ),
    ):
        with pytest.raises(UserError, match=f"--moving {step['Name']}: {reason}.* Move it by hand."):
            moved(step["Name"], steps=(step,))


def test_hyperparameters_that_only_a_run_knows_are_joined() -> None:
    text = {"Std:Join": {"On": "", "Values": [get("Parameters.Epochs")]}}
    step = framework("Fit", "train.py", {"train": f"{BUCKET}/a"}, epochs=text, kind=get("Parameters.Kind"))
    written = moved("Fit", steps=(step,), parameters=[("Epochs", "Integer", 3), ("Kind", "String", "a")])
    assert written.is_as_told, written.problem
    assert """join('{"epochs": ', epochs, ', "kind": "', kind, '"}')""" in written.code


@pytest.mark.parametrize("form", FORMS)
def test_every_script_of_a_public_form_moves_or_says_why(form: str, tmp_path: Path) -> None:
    made = from_json(json.loads(json.dumps(FORMS[form]())))
    for step in made.walk():
        try:
            written = write_code(made, "nightly", moving=(step.name,))
        except UserError as error:
            assert str(error).startswith(f"--moving {step.name}")
        else:
            assert written.moves == () or written.is_as_told, written.problem
