"""Every shipped program starts and works in an environment that holds only what the stock image is documented to have.

    make test-in ENV=image

The programs travel as they do to SageMaker: the code channel that compile makes, with its start file, archive and
wheels, run by an interpreter that has neither drivetrain nor a development tool. Its packages stand in
infra/kubeflow/images/requirements.txt.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drivetrain.assets.assets import code_channel
from drivetrain.assets.image import missing
from drivetrain.assets.wheels import find_wheels
from drivetrain.steps.declaration import Component
from drivetrain.targets.sagemaker.images import stock_image

REPOSITORY = Path(__file__).parents[2]
PYTHON = REPOSITORY / ".venvs" / "image" / "bin" / "python"
REQUIREMENTS = REPOSITORY / "infra" / "kubeflow" / "images" / "requirements.txt"
IMAGE = stock_image("us-east-1", gpu=False)
# Brought by venv itself, or wanted by torch on newer Pythons only; no program imports them.
NOT_THE_IMAGE_S = {"pip", "setuptools"}


def shipped() -> list[Component[..., Any]]:
    """The components of drivetrain.components, one a file; a new one is tested without a word here."""
    found: list[Component[..., Any]] = []
    for path in sorted((REPOSITORY / "components").glob("*.py")):
        module = importlib.import_module(f"drivetrain.components.{path.stem}") if path.stem != "__init__" else None
        for value in vars(module).values() if module else ():
            if isinstance(value, Component) and value.function.__module__ == module.__name__:
                found.append(value)
    return found


COMPONENTS = shipped()


@dataclass(frozen=True)
class Channel:
    """A code channel laid out as the platform does it."""

    folder: Path
    sha256: str

    def run(self, target: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Start a program as the container's entry point does, with nothing of this environment but the system's."""
        environment = {"PATH": f"{PYTHON.parent}:/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8"}
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        return subprocess.run(
            [str(PYTHON), str(self.folder / "start.py"), "--code", self.sha256, target, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=temporary,
            env=environment | {"TMPDIR": str(temporary)},
            timeout=300,
            check=False,
        )


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Channel:
    if not PYTHON.exists():
        pytest.skip("no .venvs/image: run `make test-in ENV=image`")
    needs = {need for component in COMPONENTS for need in component.needs}
    wheels = find_wheels(missing(needs, IMAGE), IMAGE, None, REPOSITORY)
    code = code_channel("s3://bucket", wheels=wheels)
    folder = tmp_path_factory.mktemp("code")
    for asset in code.assets:
        content = asset.content if isinstance(asset.content, bytes) else asset.content.read_bytes()
        (folder / asset.uri.rpartition("/")[2]).write_bytes(content)
    return Channel(folder, code.sha256)


def test_requirements_match_the_documented_image() -> None:
    """Runs without the environment, so that a new image line is noticed at once."""
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)$", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE))
    assert pins
    assert {name: IMAGE.packages.get(name) for name in pins} == pins


def test_every_program_is_found() -> None:
    assert {component.name for component in COMPONENTS} >= {"prepare-data", "train", "evaluate", "register-model"}


@pytest.mark.image
def test_the_environment_has_only_packages_of_the_image(channel: Channel) -> None:
    program = "import importlib.metadata, json; print(json.dumps([d.name for d in importlib.metadata.distributions()]))"
    listed = subprocess.run([str(PYTHON), "-I", "-c", program], capture_output=True, text=True, check=True)
    installed = {name.lower().replace("_", "-") for name in json.loads(listed.stdout)} - NOT_THE_IMAGE_S
    assert installed <= set(IMAGE.packages)
    assert "safetensors" not in installed, "the programs must bring it along"
    assert list(channel.folder.glob("safetensors-*.whl"))


@pytest.mark.image
@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_a_program_explains_itself(channel: Channel, component: Component[..., Any]) -> None:
    run = channel.run(component.target, "--help")
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    for flag in [each.flag for each in (*component.inputs.values(), *component.parameters.values())]:
        assert flag in run.stdout


@pytest.mark.image
def test_bad_input_is_one_line(channel: Channel, tmp_path: Path) -> None:
    arguments = [f"--{side}={tmp_path / side}" for side in ("train", "validation", "test")]
    run = channel.run("drivetrain.components.prepare_data:prepare_data", "--raw", "nowhere", *arguments, "--key=id")
    assert run.returncode == 2
    assert run.stderr.splitlines() == ["error: --raw nowhere: no such file or folder."]


@pytest.mark.image
def test_programs_can_read_the_results_of_others(channel: Channel, tmp_path: Path) -> None:
    """Prepare, train, evaluate and register real data, small."""
    with gzip.open(REPOSITORY / "pipelines" / "data" / "digits.csv.gz", "rt", encoding="utf-8") as file:
        rows = file.readlines()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "digits.csv").write_text("".join(rows[:601]), encoding="utf-8")

    def run(target: str, *arguments: str | Path) -> None:
        done = channel.run(f"drivetrain.components.{target}", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    sides = [argument for side in ("train", "validation", "test") for argument in (f"--{side}", tmp_path / side)]
    run("prepare_data:prepare_data", "--raw", tmp_path / "raw", *sides, "--key", "id", "--label", "label")
    manifests = [
        json.loads((tmp_path / side / "manifest.json").read_text()) for side in ("train", "validation", "test")
    ]
    assert sum(manifest["rows"] for manifest in manifests) == 600

    trained = [argument for name in ("model", "output", "checkpoints") for argument in (f"--{name}", tmp_path / name)]
    few = ["--epochs", "2", "--global-batch", "32", "--processes", "1"]
    run("train:train", "--train", tmp_path / "train", "--validation", tmp_path / "validation", *trained, *few)
    assert (tmp_path / "model" / "model.safetensors").stat().st_size > 1000

    metrics = tmp_path / "metrics"
    measured = ["--model", tmp_path / "model", "--data", tmp_path / "test"]
    run("evaluate:evaluate", *measured, "--metrics", metrics, "--report", tmp_path / "report")
    numbers = json.loads((metrics / "metrics.json").read_text())
    assert numbers["num_samples"] == manifests[2]["rows"]
    assert numbers["accuracy"] > 0.3, "ten classes: chance is 0.1"

    registry = f"local:{tmp_path / 'ledger.db'}"
    decision = [
        "--evaluation",
        tmp_path / "report",
        "--decision",
        tmp_path / "decision",
        "--metrics",
        tmp_path / "told",
    ]
    run("compare:compare", *measured, *decision, "--group", "digits", "--registry", registry, "--first", "true")
    assert json.loads((tmp_path / "told" / "metrics.json").read_text())["verdict"] == "register"
    register = ["--model", tmp_path / "model", "--evaluation", metrics, "--group", "digits", "--registry", registry]
    run("register_model:register_model", *register, "--metrics", tmp_path / "registered")
    assert json.loads((tmp_path / "registered" / "metrics.json").read_text()) == {"created": 1, "version": 1}


@pytest.mark.image
def test_nothing_of_this_environment_is_used(channel: Channel) -> None:
    """The interpreter of the tests and that of the image are two, and the second has no drivetrain of its own."""
    run = subprocess.run(
        [str(PYTHON), "-c", "import sys, importlib.util; print(importlib.util.find_spec('drivetrain'), sys.prefix)"],
        capture_output=True,
        text=True,
        cwd=channel.folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
        check=True,
    )
    found, prefix = run.stdout.split(maxsplit=1)
    assert found == "None"
    assert Path(prefix.strip()).resolve() != Path(sys.prefix).resolve()
