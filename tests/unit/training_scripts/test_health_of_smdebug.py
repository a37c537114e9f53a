"""What `show` and `replay` say of a trial: what a script with a hook of smdebug's own has saved.

The trial in tests/fixtures/smdebug was saved by smdebug 1.0.34, from the script beside it. (tests/debugger runs the
script in an environment that has smdebug.)
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.health.rule import load_rules
from drivetrain.training.health.smdebug.files import read_trial
from drivetrain.training.health.smdebug.trial import records, rules_for
from drivetrain.training_scripts import health

SAVED = Path(__file__).parents[2] / "fixtures/smdebug"
# The length of the gradient in the steps that were saved, as torch computed it while the script ran.
LENGTHS = {1: 0.30947473645210266, 3: 0.2892005741596222, 5: 0.27565470337867737}

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    folder = tmp_path / "output/tensors"
    with tarfile.open(SAVED / "trial.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def run(*words: Any) -> tuple[int, str, str]:
        code = health.run([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def gradient_lengths(folder: Path) -> dict[int, float]:
    return {
        record.step: float(np.sqrt(record.tensors["grad_sq"].sum()))
        for record in records(read_trial(folder))
        if record.tensors is not None
    }


def test_what_a_hook_saved_is_shown_of_the_folder_above_it(trial: Path, said: Said) -> None:
    code, out, _ = said("show", trial.parent)
    assert code == 0
    assert out.startswith("saved by smdebug: 5 steps (biases 2, gradients 4, losses 1, outputs 1, weights 2)\n")
    assert "not healthy: 1 of 9 rules failed the training; 4 records, 4 of them with tensors, and 1 validation\n" in out
    assert "  stop  nan_or_inf at step 7: the loss is not finite" in out
    told = json.loads(said("show", trial, "--json")[1])
    assert told["smdebug"]["steps"] == 5 and told["findings"][0]["rule"] == "nan_or_inf"


def test_rules_are_applied_to_it_anew(trial: Path, said: Said) -> None:
    rules = {"nan_or_inf": "off", "vanishing_gradients": {"ratio": 0.998, "records": 2, "action": "fail"}}
    told = json.loads(said("replay", trial, "--json", "--rules", json.dumps(rules))[1])
    assert [one["rule"] for one in told["findings"]] == ["vanishing_gradients"]
    assert told["findings"][0]["about"] == "Sequential_0.weight" and not told["healthy"]


def test_records_hold_what_torch_computed(trial: Path) -> None:
    found = gradient_lengths(trial)
    assert {step: found[step] for step in LENGTHS} == pytest.approx(LENGTHS, rel=1e-5)
    assert np.isnan(found[7])
    first, *_ = records(read_trial(trial))
    assert first.tensors is not None and first.layers is not None
    assert list(first.tensors.names) == [f"Sequential_{n}.{kind}" for n in (0, 2) for kind in ("weight", "bias")]
    assert list(first.matrices) == [True, False, True, False]
    assert first.tensors["size"].tolist() == first.tensors["sampled"].tolist() == [32, 4, 12, 3]
    assert list(first.layers.names) == ["1_output_0"] and first.layers["size"].tolist() == [32 * 4]
    assert 0 < first.layers["zeros"][0] < 32 * 4


def test_a_validation_has_the_losses_of_both(trial: Path) -> None:
    validation = next(record.validation for record in records(read_trial(trial)) if record.validation is not None)
    losses = [record.loss for record in records(read_trial(trial)) if record.loss is not None]
    assert validation["train_loss"] == pytest.approx(np.mean(losses[:2]))
    assert validation["validation_loss"] == pytest.approx(losses[2]), "the next step trains on the same batch"


def test_rules_that_a_trial_cannot_answer_are_left_out(trial: Path) -> None:
    names = {rule.name for rule in rules_for(read_trial(trial), load_rules("{}"))}
    assert {"overfitting", "dead_activations", "vanishing_gradients"} < names
    assert not names & {"slow_input", "memory_growth", "class_imbalance", "saturated_updates", "learning_rate"}


def _cut(trial: Path) -> None:
    events = trial / "events/000000000002/000000000002_worker_0.tfevents"
    events.write_bytes(events.read_bytes()[:-10])


def _elsewhere(trial: Path) -> None:
    index = trial / "index/000000000/000000000002_worker_0.json"
    index.write_text(index.read_text().replace("events/000000000002/", "../../"))


def _no_json(trial: Path) -> None:
    (trial / "index/000000000/000000000002_worker_0.json").write_text("{}")


def _no_number(trial: Path) -> None:
    index = trial / "index/000000000/000000000002_worker_0.json"
    index.write_text(index.read_text().replace('"mode_step": 2', '"mode_step": "two"'))


def _no_names(trial: Path) -> None:
    (trial / "collections/000000000/worker_0_collections.json").write_text('{"collections": {"losses": []}}')


def _two(trial: Path) -> None:
    other = trial.parent / "other/collections/000000000"
    other.mkdir(parents=True)
    (other / "worker_0_collections.json").write_text('{"collections": {}}')


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_cut, "cannot be read at byte"),
        (_elsewhere, "names bytes outside the trial's own files"),
        (_no_json, "is no file of smdebug: it has no meta and tensor_payload"),
        (_no_number, "is no index of smdebug"),
        (_no_names, "names no collections of smdebug"),
        (_two, "holds 2 trials of smdebug. Give one"),
    ],
)
def test_a_broken_trial_is_refused(spoil: Callable[[Path], None], says: str, trial: Path, said: Said) -> None:
    spoil(trial)
    code, out, err = said("show", trial.parent)
    assert (code, out) == (health.BAD_INPUT, "")
    assert err.startswith("error: ") and says in err and err.count("\n") == 1


def test_a_folder_without_a_trial_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no trial of smdebug"):
        read_trial(tmp_path)
