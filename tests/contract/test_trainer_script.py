"""A script with transformers' Trainer, of the kind that runs in SageMaker's script mode, runs unchanged."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from drivetrain import Cluster, Pipeline, step
from drivetrain.components.train_script import train_script
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures import tiny_transformers as tiny

SCRIPTS = Path(__file__).parents[1] / "fixtures" / "own_scripts"


@pytest.mark.slow
def test_two_processes_fine_tune_a_loadable_model(tmp_path: Path) -> None:
    import transformers

    start = tiny.model(tmp_path / "bert", "bert")
    data = tiny.texts(tmp_path / "texts", 24)
    fit = step(
        train_script,
        name="fit",
        train=data,
        test=start,
        script="text_trainer.py",
        channels='{"test": "model"}',
        hyperparameters='{"epochs": 2, "train_batch_size": 4}',
        cluster=Cluster(instance_type="ml.m5.large", processes=2),
    )
    compiled = compile_pipeline(Pipeline(name="own", steps=[fit]), source=SCRIPTS, base=tmp_path)
    home = Home(tmp_path / "home")
    summary = Runner(home).start(compiled.text, {}, Options(pipeline="own"), assets=compiled.assets)
    log = "".join(path.read_text() for path in sorted((home.run(summary.execution) / "fit").rglob("*.log")))
    assert summary.status == "Succeeded", f"{summary.reason}\n{log[-3000:]}"
    # 24 rows, 4 a process and step: 3 steps an epoch on 2 processes.
    assert re.findall(r"processes=(\d+) steps=(\d+) accuracy=\d", log) == [("2", "6")]
    (archive,) = home.objects.rglob("model.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "model", filter="data")
    loaded, about = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "model", output_loading_info=True
    )
    assert loaded.config.num_labels == 2 and not about["missing_keys"]
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "model")("ban")["input_ids"]
