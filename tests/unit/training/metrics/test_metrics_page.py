"""docs/metrics.md tells of every metric what it is for and its options, and its example works."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.metric import Samples, UndefinedError, load_metrics
from drivetrain.training.metric_states.rows import HasRows, Share
from drivetrain.training.task import Task
from tests.unit.training.metrics.sampling import metric, values

TEXT = (Path(__file__).parents[4] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([^|]*)\| .+ \|$", re.MULTILINE)


def test_the_tables_have_every_metric_and_its_options() -> None:
    rows = {name: (kinds.strip().split(", "), options) for name, kinds, options in ROW.findall(TEXT)}
    assert sorted(rows) == plugins.names("metrics")
    for name, (kinds, options) in rows.items():
        own = metric(name)
        assert sorted(kinds) == sorted(own.kinds), name
        told = dict(re.findall(r"`(\w+)` ([^,\s]+)", options))
        assert told == {field.name: str(field.default).lower() for field in dataclasses.fields(own)}, name


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The list of metrics that the page names, with the example's file in place."""
    (code,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(code.splitlines()) <= 48  # one screen
    (tmp_path / "my_metrics").mkdir()
    (tmp_path / "my_metrics" / "within.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    (text,) = re.findall(r'`--scoring "(.*my_metrics.*)"`', TEXT)
    return text


def test_its_example_is_a_metric(example: str) -> None:
    task = Task("regression", 1)
    samples = Samples(targets=np.array([[1.0], [2.0], [3.0]]), predicted=np.array([[1.5], [2.0], [2.0]]))
    found = load_metrics(example, task)
    assert list(found) == ["mae", "within"]
    assert {name: values(own, task, samples) for name, own in found.items()} == {
        "mae": {"": 0.5},
        "within": {"": 2 / 3},
    }
    own = found["within"]
    assert isinstance(own, HasRows) and isinstance(form := own.rows(task)[""], Share)
    assert form.right[0].column.numbers(samples).tolist() == [True, True, False]
    with pytest.raises(InputError, match="tolerance=-1; allowed is a number from 0"):
        load_metrics("my_metrics.within(tolerance=-1)", task)
    with pytest.raises(UndefinedError):
        values(found["within"], task, Samples(targets=np.empty((0, 1)), predicted=np.empty((0, 1))))


def test_its_command_names_metrics_that_there_are(example: str) -> None:
    (text,) = re.findall(r'^ +--scoring "(.*)"$', TEXT, re.MULTILINE)
    assert list(load_metrics(text, Task("multiclass", 10))) == ["accuracy", "top_k", "f1", "auroc"]
    assert list(load_metrics("top_k(k=1), top_k(k=5)", Task("multiclass", 10))) == ["top_k_k_1", "top_k_k_5"]
