"""The readers of docs/data.md do what the page says, and the page names what there is."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.training import plugins
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.loader import Loader
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch

PAGE = (Path(__file__).parents[4] / "docs" / "data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@dataclass(frozen=True)
class Plain:
    columns: tuple[str, ...]
    num_classes: int | None = 2

    def batch(self, columns: Columns, label: str) -> Batch:
        inputs = torch.from_numpy(np.ascontiguousarray(columns[self.columns[0]]))
        return Batch(inputs, torch.from_numpy(columns[label]))


def opened(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: Any, **given: Any) -> Dataset:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "reader_of_docs.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    alone = Process(0, 1, 0, 1, torch.device("cpu"))
    return Dataset(tmp_path / "data", recipe, alone, reader="reader_of_docs", **given)


def test_mapped_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    values = np.arange(5 * 4, dtype=np.float32).reshape(5, 4)
    values[:, 3] = [0, 1, 1, 0, 1]
    values[:2].tofile(tmp_path / "data" / "a.f32")
    values[2:].tofile(tmp_path / "data" / "b.f32")
    data = opened(BLOCKS[0], tmp_path, monkeypatch, Plain(("values",)), reader_options={"length": 3})
    batch = data.batch(np.array([4, 0, 2]))
    assert batch.inputs.tolist() == values[[4, 0, 2], :3].tolist() and batch.targets.tolist() == [1, 0, 1]
    assert data.reader.locate(2).endswith("b.f32, row 1")


def test_a_source_that_is_iterated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    rows, row = {}, 0
    for shard in range(12):
        lines = [json.dumps({"x": float(row + number), "label": number % 2}) for number in range(5 + shard % 3)]
        rows[f"{shard:02d}.jsonl.gz"] = len(lines)
        row += len(lines)
        (tmp_path / "data" / f"{shard:02d}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    (tmp_path / "data" / "rows.json").write_text(json.dumps(rows))
    data = opened(BLOCKS[1], tmp_path, monkeypatch, Plain(("x",)), shuffle_window=12)
    iterated: list[int] = []
    reader: Any = data.reader
    real = reader.iterate
    reader.iterate = lambda number: iterated.append(number) or real(number)
    reader.open(("x", "label"))
    with Loader(data, data.order(global_batch=4, seed=1), end=row) as steps:
        seen = [value for step in steps for value in step.batch.inputs.tolist()]
    assert sorted(seen) == list(range(row)) and seen != sorted(seen)
    assert len(iterated) <= 12 + 2  # each about once


def test_the_table_names_every_reader_and_option() -> None:
    table = PAGE.partition("\n## ")[0]
    named = dict(re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", table, re.MULTILINE))
    assert sorted(named) == plugins.names("readers")
    for name, text in named.items():
        options = plugins.load("readers", name, kind="reader").Options
        expected = {field.name for field in fields(options)} - {"fitted"}
        words = set(re.findall(r"`(\w+)`", text))
        assert words == expected, name
        for option, default in re.findall(r"`(\w+)` (\w+)", text):
            assert str(getattr(options(), option)) == default, (name, option)
