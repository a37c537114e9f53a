from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Cluster, Parameter, Pipeline, join, step
from drivetrain.base.errors import InputError, SpecError
from drivetrain.components.train_script import train_script
from drivetrain.steps import programs
from drivetrain.steps.command_line import read
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline

FIXTURES = Path(__file__).parents[2] / "fixtures" / "own_scripts"


@dataclass(frozen=True)
class Started:
    how: str
    command: list[str]
    environment: dict[str, str]
    folder: str


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Started]:
    """What was started in place of the launcher, from a shell in `tmp_path` with train.py in it."""
    calls: list[Started] = []

    def run(command: list[str], *, cwd: Path, env: dict[str, str], check: bool) -> subprocess.CompletedProcess[bytes]:
        calls.append(Started("run", command, env, str(cwd)))
        return subprocess.CompletedProcess(command, 75 if "fail" in command else 0)

    def execve(path: str, command: list[str], environment: dict[str, str]) -> None:
        assert path == command[0]
        calls.append(Started("exec", command, environment, os.getcwd()))
        raise SystemExit(0)  # the real one does not come back

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path / "no-platform"))
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(os, "execve", execve)
    (tmp_path / "train.py").write_text("")
    for name in ("train", "test"):
        (tmp_path / "data" / name).mkdir(parents=True)
    return calls


FOLDERS = ["--train", "data/train", "--model", "m", "--output", "o", "--checkpoints", "c", "--script", "train.py"]


def test_declaration() -> None:
    assert train_script.job == "training"
    assert {name: folder.optional for name, folder in train_script.inputs.items()} == {
        "train": False, "validation": True, "test": True, "source": True, "continue_from": True,
    }  # fmt: skip
    assert list(train_script.outputs) == ["model", "output"]
    assert train_script.checkpoints is not None
    assert train_script.parameters["script"].required
    assert all(each.help for each in (*train_script.parameters.values(), *train_script.inputs.values()))


def test_as_a_step_it_becomes_the_launcher(
    started: list[Started], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "is_the_step", lambda module: True)
    words = ["--hyperparameters", '{"epochs": 3, "flag": true}', "--launcher", "mpirun", "--processes", "2"]
    with pytest.raises(SystemExit):
        train_script(**read(train_script, [*FOLDERS, *words]))
    (call,) = started
    assert (call.how, call.folder) == ("exec", str(tmp_path))
    (kept,) = (tmp_path / "c").iterdir()
    assert call.command == [
        *(sys.executable, "-m", "drivetrain.training_scripts.launch"),
        *("--launcher=mpirun", "--processes=2", f"--checkpoints={kept}", "--script=train.py"),
        *("--epochs", "3", "--flag", "True"),
    ]
    assert "DRIVETRAIN_PARENT_PID" not in call.environment


def earlier(folder: Path, state: str = "") -> Path:
    """What fetch_previous writes of a script's model; without a state of one that published none."""
    (folder / "model").mkdir(parents=True)
    about = {"group": "own", "version": "7", "content_hash": "0a" * 32}
    (folder / "continues.json").write_text(json.dumps(about))
    if state:
        (folder / "model" / "training" / "deep").mkdir(parents=True)
        (folder / "model" / "training" / "deep" / "last.pt").write_text(state)
    return folder


def test_a_script_finds_the_earlier_ones_checkpoints_once(
    started: list[Started], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*FOLDERS, "--continue-from", str(earlier(tmp_path / "earlier", "epoch 3"))]
    train_script(**read(train_script, words))
    (last,) = (tmp_path / "c").rglob("last.pt")
    last.write_text("half of what a start that was killed had copied")
    next((tmp_path / "c").rglob("continued")).unlink()
    capsys.readouterr()
    train_script(**read(train_script, words))
    assert last.read_text() == "epoch 3"
    assert capsys.readouterr().out == "starts from: the checkpoints of own version 7\n"
    assert f"--publish={tmp_path / 'm'}" in started[0].command
    assert json.loads((tmp_path / "m" / "continues.json").read_bytes())["version"] == "7"
    last.write_text("epoch 4, which the script saved")
    train_script(**read(train_script, words))
    assert last.read_text() == "epoch 4, which the script saved"
    assert capsys.readouterr().out == "starts from: what this training has kept\n"


def test_a_script_starts_fresh_without_a_previous_model(
    started: list[Started], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_script(**read(train_script, [*FOLDERS, "--continue-from", str(earlier(tmp_path / "earlier"))]))
    assert capsys.readouterr().out == "starts from: nothing (own version 7 has no training state)\n"
    assert "--publish=" in " ".join(started[0].command), "the next one can go on from this one"
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "continues.json").write_text("{}")
    train_script(**read(train_script, [*FOLDERS, "--continue-from", str(tmp_path / "none")]))
    assert capsys.readouterr().out.endswith("\nstarts from: nothing (there is no earlier model)\n")
    assert not (tmp_path / "m" / "continues.json").exists()


def test_roles_are_passed_to_the_launcher(started: list[Started]) -> None:
    words = ["--launcher", "tf_config", "--roles", "chief=1,worker=2,ps=1"]
    train_script(**read(train_script, [*FOLDERS, *words]))
    (call,) = started
    assert {"--launcher=tf_config", "--processes=0", "--roles=chief=1,worker=2,ps=1"} < set(call.command)


def test_plain_python_uses_the_rendezvous_of_the_pytorch_container(
    started: list[Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ports(hosts: str) -> list[str]:
        monkeypatch.setenv("DRIVETRAIN_HOSTS", hosts)
        monkeypatch.setenv("DRIVETRAIN_HOST", hosts.split(",")[-1])
        train_script(**read(train_script, [*FOLDERS, "--launcher", "python"]))
        return [word for word in started.pop().command if word.startswith("--port=")]

    assert ports("algo-1") == ports("algo-1,algo-2") == ports("127.0.0.1,127.0.0.2") == ["--port=7777"]
    (free,) = ports("127.0.0.1")
    assert 1024 <= int(free.removeprefix("--port=")) < 65536 and free != "--port=7777"
    monkeypatch.setenv("DRIVETRAIN_PORT", "4321")  # the local runner has reserved one for all hosts
    assert ports("127.0.0.1,127.0.0.2") == []


def test_a_call_from_python_returns(started: list[Started], tmp_path: Path) -> None:
    train_script(**read(train_script, FOLDERS))
    (call,) = started
    assert (call.how, call.folder) == ("run", str(tmp_path))
    assert call.environment["DRIVETRAIN_PARENT_PID"] == str(os.getpid())


def test_a_call_from_python_passes_on_the_exit_code(started: list[Started]) -> None:
    with pytest.raises(SystemExit) as ended:
        train_script(**read(train_script, [*FOLDERS, "--hyperparameters", '{"why": "fail"}']))
    assert ended.value.code == 75


def test_arguments_and_variables_of_a_script_in_a_shell(started: list[Started], tmp_path: Path) -> None:
    words = ["--test", "data/test", "--channels", '{"train": "training"}', "--hyperparameters", '{"lr": 0.1}']
    train_script(**read(train_script, [*FOLDERS, *words]))
    found = started[0].environment
    assert found["SM_CHANNEL_TRAINING"] == str(tmp_path / "data" / "train")
    assert found["SM_CHANNEL_TEST"] == str(tmp_path / "data" / "test")
    assert found["SM_CHANNELS"] == '["test","training"]'
    assert not {"SM_CHANNEL_TRAIN", "SM_CHANNEL_VALIDATION", "SM_CHANNEL_SOURCE"} & set(found)
    assert found["SM_MODEL_DIR"] == str(tmp_path / "m")
    assert found["SM_OUTPUT_DATA_DIR"] == str(tmp_path / "o")
    assert [found["SM_CHECKPOINT_DIR"]] == [str(folder) for folder in (tmp_path / "c").iterdir()]
    assert found["SM_MODULE_DIR"] == found["PYTHONPATH"] == str(tmp_path)
    assert (found["SM_HOSTS"], found["SM_CURRENT_HOST"]) == ('["127.0.0.1"]', "127.0.0.1")
    assert (found["SM_CURRENT_INSTANCE_TYPE"], found["SM_NETWORK_INTERFACE_NAME"]) == ("local", "lo")
    assert found["SM_HP_LR"] == "0.1"


def test_several_hosts_of_a_shell(started: list[Started], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIVETRAIN_HOSTS", "a, b")
    monkeypatch.setenv("DRIVETRAIN_HOST", "b")
    train_script(**read(train_script, FOLDERS))
    found = started[0].environment
    assert (found["SM_HOSTS"], found["SM_CURRENT_HOST"]) == ('["a","b"]', "b")
    assert found["SM_NETWORK_INTERFACE_NAME"] == "eth0"


def test_platform_facts_come_from_its_files(
    started: list[Started], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "opt" / "ml" / "input" / "config"
    config.mkdir(parents=True)
    resources = {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], "current_instance_type": "ml.g5.xlarge"}
    (config / "resourceconfig.json").write_text(json.dumps(resources))
    described = {"train": {"TrainingInputMode": "FastFile"}, "code": {}, "source": {}}
    (config / "inputdataconfig.json").write_text(json.dumps(described))
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path / "opt" / "ml"))
    monkeypatch.setenv("TRAINING_JOB_NAME", "job-1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    train_script(**read(train_script, [*FOLDERS, "--channels", '{"train": "t"}']))
    found = started[0].environment
    assert found["SM_CURRENT_HOST"] == "algo-2"
    assert json.loads(found["SM_RESOURCE_CONFIG"]) == resources
    assert json.loads(found["SM_INPUT_DATA_CONFIG"]) == {"t": {"TrainingInputMode": "FastFile"}}
    assert found["SM_INPUT_CONFIG_DIR"] == str(config)
    assert (found["SAGEMAKER_JOB_NAME"], found["SAGEMAKER_REGION"]) == ("job-1", "eu-west-1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hyperparameters", "epochs=3"], r"hyperparameters 'epochs=3' is not JSON .*Example: \{\"epochs\": 3\}"),
        (["--hyperparameters", "[1]"], r"hyperparameters '\[1\]' is not a JSON object"),
        (["--hyperparameters", '{"sagemaker_program": "x"}'], "sagemaker_program.*Leave it out"),
        (["--hyperparameters", '{"": 1}'], "the name ''"),
        (["--hyperparameters", '{"a=b": 1}'], "'A=B' cannot become the variable"),
        (["--channels", '{"tset": "eval"}'], "channels names 'tset', which is not given. There are: train"),
        (["--channels", '{"train": "a b"}'], "channels calls 'train' 'a b'. Allowed"),
        (["--channels", '{"train": 3}'], "channels calls 'train' 3"),
        (["--test", "data/test", "--channels", '{"train": "test"}'], "gives two channels one name"),
        (["--script", "trian.py"], r"no script 'trian\.py' in .*\(it holds train\.py\)"),
        (["--source", "train.py"], "--source train.py is no folder"),
        (
            ["--launcher", "torchrum"],
            "'torchrum' is not one of torchrun, mpirun, horovodrun, deepspeed, tf_config, python",
        ),
    ],
)
def test_bad_input(words: list[str], message: str, started: list[Started]) -> None:
    with pytest.raises(InputError, match=message):
        train_script(**read(train_script, [*FOLDERS, *words]))
    assert started == []


@pytest.mark.slow
def test_it_runs_as_a_command(tmp_path: Path) -> None:
    """The script is told by the launcher's own words, and nothing stands between the launcher and the platform."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("1\n")
    (tmp_path / "output").mkdir()
    command = [sys.executable, "-m", "drivetrain.components.train_script", "--script", "report.py"]
    folders = {"train": "data", "source": FIXTURES, "model": "model", "output": "output", "checkpoints": "kept"}
    words = [f"--{name}={path}" for name, path in folders.items()]
    done = subprocess.run(
        [*command, *words, '--hyperparameters={"epochs": 3}'], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "rank 0 loss=0.25"
    assert (tmp_path / "model" / "model.txt").read_text() == "trained on ['a.csv']\n"
    found = json.loads((tmp_path / "output" / "rank0.json").read_text())
    assert found["argv"] == ["report.py", "--epochs", "3"]
    assert found["cwd"] == str(FIXTURES)


def pipeline(**given: Any) -> Pipeline:
    epochs = Parameter.integer("Epochs", default=3)
    fit = step(
        train_script,
        train="s3://bucket/train/",
        script="report.py",
        hyperparameters=join('{"epochs": ', epochs, ', "lr": 0.1}'),
        cluster=Cluster(instance_type="ml.g5.xlarge", count=2, processes=1),
        **given,
    )
    return Pipeline(name="own", parameters=[epochs], steps=[fit])


def test_the_compiled_step() -> None:
    compiled = compile_pipeline(pipeline(), source=FIXTURES)
    (fit,) = compiled.definition["Steps"]
    arguments = fit["Arguments"]
    assert fit["Type"] == "Training"
    assert arguments["HyperParameters"] == {
        "channels": "{}",
        "contract": "toolkit",
        "distribution": "{}",
        "hyperparameters": {
            "Std:Join": {"On": "", "Values": ['{"epochs": ', {"Get": "Parameters.Epochs"}, ', "lr": 0.1}']}
        },
        "launcher": "torchrun",
        "processes": "0",
        "roles": "",
        "script": "report.py",
    }
    start = arguments["AlgorithmSpecification"]
    assert start["ContainerArguments"][2:] == [
        *("--training", "--folders", "model,output,checkpoints"),
        "drivetrain.components.train_script:train_script",
    ]
    assert arguments["CheckpointConfig"]["LocalPath"] == "/opt/ml/trainings"
    assert [channel["ChannelName"] for channel in arguments["InputDataConfig"]] == ["train", "code"]
    assert arguments["ResourceConfig"]["InstanceCount"] == 2
    (archive,) = [asset for asset in compiled.assets if asset.uri.endswith(".tar")]
    content = archive.content
    assert isinstance(content, bytes)
    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        assert "source/report.py" in files.getnames()
    for name in (
        "source/report.py",
        "drivetrain/steps/script_mode.py",
        "drivetrain/training/launch/processes/rank.py",
    ):
        assert name.encode() in archive.content


def test_a_source_folder_is_shipped_completely(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name, text in {"report.py": "", "run.sh": "#!/bin/sh\n", "settings.yaml": "a: 1\n"}.items():
        (tmp_path / "mine" / name).write_text(text)
    compiled = compile_pipeline(pipeline(source=tmp_path / "mine"), base=tmp_path)
    channels = compiled.definition["Steps"][0]["Arguments"]["InputDataConfig"]
    (uri,) = [each["DataSource"]["S3DataSource"]["S3Uri"] for each in channels if each["ChannelName"] == "source"]
    names = {asset.uri.removeprefix(uri) for asset in compiled.assets if asset.uri.startswith(uri)}
    assert names == {"report.py", "run.sh", "settings.yaml"}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("reports.py", r"Step 'train-script': there is no script 'reports\.py' in .*report\.py"),
        ("launch.sh", r"script 'launch\.sh' in .* does not travel: only Python files do\. Give the folder"),
    ],
)
def test_a_script_that_is_not_shipped_is_reported_before_anything_runs(script: str, message: str) -> None:
    fit = step(train_script, train="s3://bucket/train/", script=script)
    with pytest.raises(SpecError, match=message):
        compile_pipeline(Pipeline(name="own", steps=[fit]), source=FIXTURES)
    with_folder = step(train_script, train="s3://bucket/train/", script=script, source=FIXTURES)
    assert compile_pipeline(Pipeline(name="own", steps=[with_folder]), source=FIXTURES).definition["Steps"]


def test_its_name_in_the_compiler() -> None:
    from drivetrain.spec.steps import TRAIN_SCRIPT

    assert train_script.target == TRAIN_SCRIPT


def test_a_script_gets_the_arguments_of_model_trainer(started: list[Started], tmp_path: Path) -> None:
    values = {"z": "3", "a-b": True, "sizes": [1, "a"], "map": {"b": None}, "off": False, "no": None, "text": "x y"}
    words = ["--contract", "model_trainer", "--processes", "2", "--hyperparameters", json.dumps(values)]
    train_script(**read(train_script, [*FOLDERS, *words]))
    (call,) = started
    assert call.command[call.command.index("--script=train.py") + 1 :] == [
        *("--z", "3", "--a-b", "true", "--sizes", '[1, "a"]', "--map", '{"b": null}'),
        *("--off", "false", "--no", "null", "--text", "x y"),
    ]
    found = call.environment
    assert (found["SM_HP_A_B"], found["SM_HP_Z"], found["SM_HP_TEXT"]) == ("true", "3", "x y")
    assert json.loads(found["SM_HPS"]) == {**values, "z": 3}
    assert (found["SM_SOURCE_DIR"], found["SM_ENTRY_SCRIPT"]) == (str(tmp_path), "train.py")
    assert json.loads(found["SM_DISTRIBUTED_CONFIG"]) == {"process_count_per_node": 2}
    assert not {"SM_MODULE_DIR", "SM_USER_ARGS", "SAGEMAKER_JOB_NAME"} & set(found)


@pytest.mark.parametrize(("kind", "warned"), [("bool", True), ("int", False)])
def test_an_always_true_argument_gives_a_warning(
    kind: str, warned: bool, started: list[Started], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = f"import argparse\np = argparse.ArgumentParser()\np.add_argument('-b', '--bool-like', type={kind})\n"
    (tmp_path / "train.py").write_text(script)
    train_script(**read(train_script, FOLDERS))
    assert len(started) == 1
    assert ("warning: train.py, line 3: --bool-like has type=bool" in capsys.readouterr().out) is warned
