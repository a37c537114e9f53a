"""Scripts of the SageMaker SDK, of version 2 and 3, become code that means the same, with their names and comments.

make test-in ENV=sdk
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.native.words import TABLES
from drivetrain.targets.sagemaker import recorded
from drivetrain.targets.sagemaker.document.document import read
from drivetrain.targets.sagemaker.recorded import Recorded, record
from drivetrain.targets.sagemaker.written import write_code

pytestmark = pytest.mark.sdk
ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "fixtures" / "sagemaker_sdk"
WORDED = {*TABLES, "Condition", "Fail", "ForEach", "Lambda"}
PYTHONS = {"v2": ROOT / ".venvs/sdk2/bin/python", "v3": ROOT / ".venvs/sdk/bin/python"}
# Script -> (variable, step or parameter, comment) of some of its statements.
SAID = {
    "v3/abalone.py": [
        ("count", "ProcessingInstanceCount", "# How many machines prepare the data"),
        ("step_prep", "Preprocess", "# Split and scale the table"),
        ("step_train", "Train", "# Train on one machine"),
        ("step_register", "Register", "# Register what is good enough"),
        ("step_cond", "CheckMSE", ""),
    ],
    "v3/functions.py": [("count", "CountRows", "# Counts the rows of a site"), ("gate", "Gate", "")],
    "v3/tuning.py": [("step_tuning", "Tune", "# Ten trials, two at a time")],
    "v3/batch.py": [("step_model", "Model", "# The model of last month"), ("data", "BatchData", "")],
    "v2/abalone.py": [
        ("step_process", "AbaloneProcess", "# Features and three sets"),
        ("step_register", "AbaloneRegisterModel-RegisterModel", ""),
        ("step_cond", "AbaloneMSECond", "# Only small errors go on"),
    ],
    "v2/modelstep.py": [("step_register", "Register-RegisterModel", "# A version of it")],
    "v2/mixed.ipynb": [("step_tune", "Tune", "# Four trials"), ("wait", "Wait", "")],
    "v2/project/run_pipeline.py": [
        ("clean", "Clean", "# Away with rows of other days"),
        ("look", "Look", "# Look at what is left"),
    ],
}
FIRST = {
    "v3/functions.py": '"""Ask a function, then people."""',
    "v2/project/run_pipeline.py": '"""Clean the table, then look at it."""',
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: the SDK writes files beside a script."""
    return shutil.copytree(PROGRAMS / "scripts", tmp_path_factory.mktemp("own") / "scripts")


def recording(script: Path, sdk: str, pipeline: str | None = None) -> Recorded:
    python = PYTHONS[sdk]
    if not python.exists():
        pytest.skip(f"no {python}: run `make test-in ENV=sdk`")
    return record(script, python=python, pipeline=pipeline, region="us-west-2")


def run_recorder(sdk: str, script: Path, folder: Path) -> dict[str, Any]:
    """The result of the recorder alone, in this machine's network."""
    if not PYTHONS[sdk].exists():
        pytest.skip(f"no {PYTHONS[sdk]}: run `make test-in ENV=sdk`")
    result = folder / "said.json"
    command = [PYTHONS[sdk], Path(recorded.__file__).with_name("recorder.py"), script, result, recorded.ROLE]
    keys = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": "us-west-2"}
    environment = {"HOME": str(folder), "SAGEMAKER_VALIDATE_ROLE": "false", **keys}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True, timeout=300)
    return json.loads(result.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SAID)
def test_a_script_becomes_code_with_its_names_and_comments(scripts: Path, name: str) -> None:
    made = recording(scripts / name, name[:2], "asking" if name == "v3/functions.py" else None)
    written = write_code(made.definition, made.name, hints=made.hints)
    assert (dict(written.raw), written.is_equal) == ({}, True)
    lines = written.code.splitlines()
    for variable, step, comment in SAID[name]:
        (found,) = (n for n, line in enumerate(lines) if line.startswith(f"    {variable} = "))
        assert f'"{step}"' in "".join(lines[found : found + 12]), "its name stands in the call"
        assert lines[found - 1].strip() == comment or not comment
    assert lines[0] == FIRST.get(name, lines[0])
    if name == "v3/abalone.py":
        assert "Without effect: abalone: upsert(), abalone: start()" in made.notes
        assert any("line 131 (execution.wait())" in note for note in made.notes)
    if name == "v2/mixed.ipynb":
        assert "Left out, for IPython: %pip install -q sagemaker, !ls, %%bash and 1 more" in made.notes


def test_fifty_definitions_of_all_step_types_become_code_that_means_the_same(scripts: Path) -> None:
    """Each in at most a second of CPU time; nine in ten of those whose types have a word without JSON."""
    said = run_recorder("v3", PROGRAMS / "corpus.py", scripts.parent)
    assert (said["problem"], said["failed"], len(said["definitions"])) == ("", {}, 50)
    types, raw, different = set[str](), list[bool](), list[str]()
    for name, text in said["definitions"].items():
        definition, begun = read(text, name), time.process_time()
        written = write_code(definition, name)
        assert time.process_time() - begun <= 1
        different += [] if written.is_equal else [name]
        own = {step.type for step in definition.walk()}
        types |= own
        raw += [bool(written.raw)] if own <= WORDED else []
    assert different == []
    assert len(raw) >= 25 and raw.count(True) <= len(raw) / 10
    others = {
        "QualityCheck",
        "ClarifyCheck",
        "EMR",
        "EMRServerless",
        "Endpoint",
        "EndpointConfig",
        "Lineage",
        "Cleanup",
    }
    assert types == {*WORDED, *others, "InferenceComponent"}


def test_a_script_reaches_nothing_and_sees_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither it nor a program that it starts reaches a server on this machine."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret of this test")
    monkeypatch.setenv("GITHUB_TOKEN", "secret of this test")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        program = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))"
        script = tmp_path / "reach.py"
        script.write_text(
            "import json, os, subprocess, sys\n"
            "json.dump(dict(os.environ), open('environment.json', 'w'))\n"
            "try:\n"
            f"    subprocess.run([sys.executable, '-c', {program!r}], stderr=subprocess.DEVNULL)\n"
            "except OSError:\n"
            "    pass\n"
            f"{program}\n",
            encoding="utf-8",
        )
        with pytest.raises(UserError, match=r"line 7 \(import socket.*: it wants socket\.\w+\(.*network is closed\."):
            recording(script, "v2")
        with pytest.raises(BlockingIOError):
            server.accept()
    seen = json.loads((tmp_path / "environment.json").read_text(encoding="utf-8"))
    assert "secret of this test" not in seen.values() and seen["HOME"] != str(Path.home())


def test_a_script_starts_no_program_where_that_could_reach_the_network(tmp_path: Path) -> None:
    (script := tmp_path / "reach.py").write_text("import os\nos.system('true')\n", encoding="utf-8")
    problem = run_recorder("v2", script, tmp_path)["problem"]
    assert problem.startswith("line 2 (os.system('true')): it wants os.system(") and "network is closed" in problem


@pytest.mark.parametrize(
    ("sdk", "text", "reason"),
    [
        ("v2", "import boto3\nboto3.client('sagemaker').list_models()", "line 2 .*asks AWS for sagemaker ListModels"),
        ("v2", "import sagemaker\ndef f():\n    raise ValueError('no')\nf()", r"line 3 \(raise.*ValueError: no\.$"),
        ("v3", "from sagemaker.workflow.pipeline import Pipeline", "another version of the SDK: give --python"),
        ("v2", "import argparse\nargparse.ArgumentParser().error('no')", "SystemExit: 2. It said: .*error: no"),
    ],
)
def test_a_script_that_fails_is_told_with_its_line(tmp_path: Path, sdk: str, text: str, reason: str) -> None:
    (script := tmp_path / "nightly.py").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=reason):
        recording(script, sdk)


def test_one_of_several_pipelines_is_chosen(scripts: Path) -> None:
    with pytest.raises(UserError, match=r"makes several pipelines\. Choose one: --pipeline waiting \| asking\."):
        recording(scripts / "v3/functions.py", "v3")
