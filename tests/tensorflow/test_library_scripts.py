"""A script over SageMaker's data parallel library for TensorFlow runs unchanged, here over a stand-in of it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.contract.test_sagemaker_library_scripts import DATA, run_script, write_data
from tests.tensorflow.trainings import PYTHON

pytestmark = pytest.mark.tensorflow


def test_smddp_of_tensorflow_equals_one_process(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("no .venvs/tensorflow: run `make test-in ENV=tensorflow`")
    draw = np.random.default_rng(1)
    start = [draw.normal(size=shape) for shape in ((8, 16), (16,), (16, 3), (3,))]
    found, losses = {}, {}
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        folder.mkdir()
        write_data(folder / "data")
        (folder / "start").mkdir()
        np.savez(folder / "start" / "start.npz", *start)
        words = (f"--processes={processes}", f"--test={folder / 'start'}")
        printed = run_script(folder, "smddp_tensorflow.py", DATA, *words, python=str(PYTHON))
        ((count, losses[processes]),) = re.findall(r"processes=(\d+) loss=([\d.]+)", printed)
        assert count == str(processes)
        found[processes] = list(np.load(folder / "model" / "model.npz").values())
    assert abs(float(losses[1]) - float(losses[2])) < 1e-11
    assert any(np.abs(one - before).max() > 1e-3 for one, before in zip(found[1], start, strict=True))
    for one, two in zip(found[1], found[2], strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=1e-12)
