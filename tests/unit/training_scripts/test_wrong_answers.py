"""A recipe that returns what the contract does not have is told so, by its module and method."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import train

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
OWN = """
from dataclasses import dataclass
import torch
from drivetrain.training.recipe import Batch
from drivetrain.training_scripts.recipes import digits_cnn
@dataclass(frozen=True, kw_only=True)
class Recipe(digits_cnn.Recipe):
    channels: int = 2
    hidden: int = 4
    {method}
"""


@dataclass(frozen=True)
class Wrong:
    method: str
    message: str


WRONG = {
    "no model": Wrong(
        "def model(self): return [super().model()]", r"model\(\) of the recipe returned a list; it must .* nn.Module"
    ),
    "a layer of another width": Wrong(
        "def model(self): m = super().model(); m[6] = torch.nn.Linear(3, self.hidden); return m",
        r"the input does not fit layer 6 \(Linear\) of the recipe's model: mat1 and mat2 shapes cannot be multiplied "
        r"\(4x64 and 3x4\)\. Mend the sizes in model\(\), or what batch\(\) gives\.$",
    ),
    "nothing to learn": Wrong("def model(self): return torch.nn.Flatten()", "model of the recipe has no parameters"),
    "no batch": Wrong(
        "def batch(self, columns, label): b = super().batch(columns, label); return b.inputs, b.targets",
        r"batch\(\) of the recipe returned a tuple; it must return a Batch",
    ),
    "a short batch": Wrong(
        "def batch(self, columns, label): b = super().batch(columns, label); return Batch(b.inputs, b.targets[:-1])",
        r"batch\(\) of the recipe returned 4 inputs and 3 targets for 4 rows",
    ),
    "a mean": Wrong(
        "def losses(self, outputs, targets): return super().losses(outputs, targets).mean()",
        r"losses\(\) of the recipe returned shape \[\]; it must return one number a sample, shape \[4\], "
        r"not a mean: reduction='none'\.$",
    ),
    "a mean for each": Wrong(
        "def losses(self, outputs, targets): l = super().losses(outputs, targets); return l * 0 + l.mean()",
        r"losses\(\) of the recipe mixes samples: the loss of a sample depends on the outputs of another \(sample 1 of",
    ),
    "parts of a mean": Wrong(
        "def losses(self, outputs, targets): return super().losses(outputs, targets) / len(targets)",
        r"losses\(\) of the recipe mixes samples: the loss of sample 4 is .* among 4 samples and .* among 2 of them",
    ),
    "a number": Wrong("def losses(self, outputs, targets): return 0.5", r"losses\(\) of the recipe returned a float"),
    "one metric": Wrong(
        "def metrics(self, outputs, targets): return {'accuracy': torch.zeros(1)}",
        r"metrics\(\) of the recipe returned shape \[1\]; it must return one number a sample",
    ),
    "a mean as a metric": Wrong(
        "def metrics(self, outputs, targets): return {'accuracy': torch.tensor(0.5)}",
        r"must return one number a sample, shape \[4\], not a mean\.$",
    ),
    "no metrics": Wrong(
        "def metrics(self, outputs, targets): return 0.5",
        r"metrics\(\) of the recipe returned a float; it must return a dict of names and tensors",
    ),
    "a metric alone": Wrong(
        "def metrics(self, outputs, targets): return outputs.argmax(dim=1) == targets",
        r"metrics\(\) of the recipe returned shape \[4\]; it must return a dict of names and tensors",
    ),
    "a number as a metric": Wrong(
        "def metrics(self, outputs, targets): return {'accuracy': 0.5}",
        r"metrics\(\) of the recipe returned a float; it must return one number a sample",
    ),
    "a second loss": Wrong(
        "def metrics(self, outputs, targets): return {'loss': torch.zeros(4)}",
        r"metrics\(\) of the recipe returned a dict; it must return names that are text other than 'loss', not 'loss'",
    ),
    "no optimizer": Wrong(
        "def optimizer(self, model, **given): return list(model.parameters())",
        r"optimizer\(\) of the recipe returned a list; it must return a torch.optim.Optimizer",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_answers_are_reported(
    what: str,
    prepared_data: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before the first step."""
    name = "own_" + what.replace(" ", "_")
    method = WRONG[what].method.replace(": ", ":\n        ", 1).replace("; ", "\n        ")
    (tmp_path / f"{name}.py").write_text(OWN.replace("{method}", method))
    monkeypatch.syspath_prepend(tmp_path)
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(4))
    folders = Folders(train=data, validation=data, model=tmp_path / "model")
    with pytest.raises(InputError, match=rf"^{name}: .*{WRONG[what].message}"):
        train(Config(recipe=name, epochs=1, global_batch=4), folders, ALONE)
    assert "step 1" not in capsys.readouterr().out
