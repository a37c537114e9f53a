"""Two hosts with two processes each train what one process trains: through two launchers, and through the local runner.

Rank order, names, ports and interfaces are what is tried here; what a strategy computes is proven elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drivetrain import Cluster, Pipeline, step
from drivetrain.components.train import train
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures import sagemaker_libraries

pytestmark = pytest.mark.slow

NIGHTLY = pytest.mark.nightly
SETTINGS = {
    "recipe": "digits_cnn",
    "recipe_options": '{"channels": 4, "hidden": 16}',
    "epochs": 2,
    "global_batch": 16,
    "precision": "fp64",
}


def words(**settings: Any) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


def losses(history: Any) -> list[float]:
    return [epoch[name] for epoch in history for name in ("train_loss", "validation_loss")]


@pytest.fixture(scope="module")
def one_process(prepared_data: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of each epoch, of one process without a launcher, on the data of `digits`."""
    base = tmp_path_factory.mktemp("one")
    data = prepared_data.write_prepared(base / "data", prepared_data.digit_columns(50))
    folders = {"train": data, "validation": data, "model": base / "model", "output": base / "output"}
    subprocess.run(
        [sys.executable, "-m", "drivetrain.training_scripts.train", *words(**folders, strategy="single", **SETTINGS)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return losses(json.loads((base / "output" / "history.json").read_text()))


@pytest.mark.shows("several hosts")
@pytest.mark.parametrize(
    "strategy", [*(pytest.param(name, marks=NIGHTLY) for name in ("ddp", "fsdp", "smddp_fsdp", "smp")), "pp", "smddp"]
)
def test_two_launchers(
    strategy: str,
    one_process: list[float],
    two_hosts: Any,
    digits: Path,
    tmp_path: Path,
) -> None:
    if strategy.startswith("sm"):  # stand-ins, where the hosts look for modules
        shutil.copytree(sagemaker_libraries.FOLDER, tmp_path, dirs_exist_ok=True)
    folders = {"train": digits, "validation": digits, "model": tmp_path / "model", "output": tmp_path / "output"}
    processes = two_hosts(
        *("drivetrain.training_scripts.train", *words(**folders, strategy=strategy, **SETTINGS)),
        processes=2,
    )
    for process in processes:
        _, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
    found = losses(json.loads((tmp_path / "output" / "history.json").read_text()))
    assert found == pytest.approx(one_process, abs=1e-10)


@pytest.mark.shows("several hosts")
@pytest.mark.parametrize("strategy", ["ddp", *(pytest.param(name, marks=NIGHTLY) for name in ("fsdp", "pp"))])
def test_the_local_runner(
    strategy: str, one_process: list[float], digits: Path, tmp_path: Path, new_interpreters: None
) -> None:
    fit = step(
        train,
        name="fit",
        train=digits,
        validation=digits,
        strategy=strategy,
        cluster=Cluster(instance_type="ml.m5.large", count=2, processes=2),
        **SETTINGS,
    )
    compiled = compile_pipeline(Pipeline(name="two", steps=[fit]), source=None, base=tmp_path)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="two"), assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    (archive,) = home.objects.rglob("output.tar.gz")
    with tarfile.open(archive) as opened:
        (member,) = (name for name in opened.getnames() if name.endswith("history.json"))
        file = opened.extractfile(member)
        assert file is not None
        found = losses(json.loads(file.read()))
    assert found == pytest.approx(one_process, abs=1e-10)
