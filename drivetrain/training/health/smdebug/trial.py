"""A trial as records that health rules see.

- Gradients, weights and biases are its tensors; outputs of layers, where the script saved them, its layers; the
  collection `losses` its loss. Steps of EVAL are a validation each time that they end.
- smdebug tells nothing of machines and of how a step changed its weights: rules that ask for it are left out.
- Reductions (`smdebug/reductions/...`) and what else a script saved are counted, and no rule asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drivetrain.training.health.record import LAYER_COLUMNS, RANK_COLUMNS, TENSOR_COLUMNS, Floats, Record, Table
from drivetrain.training.health.rule import Watching, load_rules
from drivetrain.training.health.smdebug.files import SavedStep, Trial
from drivetrain.training.health.summary import Summary, summed_up

_GRADIENT = "gradient/"
_WEIGHTS = ("weights", "biases")
_LOSSES = "losses"
_OUTPUT = re.compile(r"_output_[0-9]+$")
_TRAINS, _VALIDATES = ("TRAIN", "GLOBAL"), "EVAL"
# These ask how a step changed the weights, or where its time went.
_NEEDS_MORE = ("learning_rate", "saturated_updates", "communication_share")
_OF_MACHINES_BUT_LOSSES_TOO = "nan_or_inf"


@dataclass(frozen=True)
class Names:
    """The meaning of a trial's tensors for the rules, in the order of the model."""

    tensors: Sequence[str]
    layers: Sequence[str]
    loss: str | None
    others: int
    """Tensors that no rule asks for."""


def summary_of(trial: Trial, rules: str) -> Summary:
    """Apply the rules to a trial, and sum up.

    Args:
        rules: as `health_rules` of a training.

    Raises:
        InputError: rules that cannot be, or a tensor that cannot be read.
    """
    return summed_up(rules_for(trial, load_rules(rules)), records(trial))


def saved(trial: Trial) -> dict[str, Any]:
    """How much a trial holds, for JSON; `not_asked` are tensors that no rule asks for."""
    return {
        "folder": str(trial.folder),
        "workers": trial.workers,
        "steps": len(trial.steps),
        "collections": {name: len(tensors) for name, tensors in sorted(trial.collections.items())},
        "not_asked": names_of(trial).others,
    }


def in_words(trial: Trial) -> str:
    """The same, in a line."""
    found = saved(trial)
    held = ", ".join(f"{name} {count}" for name, count in found["collections"].items())
    more = f"; of other tensors, for which no rule asks: {found['not_asked']}" if found["not_asked"] else ""
    only = f" of the first of {trial.workers} workers" if trial.workers > 1 else ""
    return f"smdebug: {found['steps']} steps{only} ({held or 'no collection has a tensor'}){more}"


def names_of(trial: Trial) -> Names:
    # The forward pass saves weights and outputs in the model's order, the backward pass gradients in the reverse.
    saved = list(dict.fromkeys(name for step in trial.steps for name in step.places))
    gradients = [name.removeprefix(_GRADIENT) for name in saved if name.startswith(_GRADIENT)]
    declared = {name for collection in _WEIGHTS for name in trial.collections.get(collection, ())}
    weights = [name for name in saved if name in declared]
    tensors = tuple(dict.fromkeys([*weights, *reversed(gradients)]))
    losses = trial.collections.get(_LOSSES, frozenset())
    layers = tuple(name for name in saved if _OUTPUT.search(name) and name not in losses and "/" not in name)
    loss = next((name for name in sorted(losses, key=lambda name: (name != "loss", name)) if name in saved), None)
    known = {*weights, *(_GRADIENT + name for name in gradients), *layers, *losses}
    return Names(tensors, layers, loss, sum(name not in known for name in saved))


def rules_for(trial: Trial, rules: Iterable[Watching]) -> list[Watching]:
    """Those that a trial can answer."""
    names = names_of(trial)
    there = {
        "loss": names.loss is not None,
        "tensors": bool(names.tensors),
        "layers": bool(names.layers),
        "validation": names.loss is not None and any(step.mode == _VALIDATES for step in trial.steps),
    }
    return [
        rule
        for rule in rules
        if rule.name == _OF_MACHINES_BUT_LOSSES_TOO or (there.get(rule.watches, False) and rule.name not in _NEEDS_MORE)
    ]


def records(trial: Trial) -> Iterator[Record]:
    """A record of each saved step of the training, and of each validation.

    Raises:
        InputError: a tensor cannot be read.
    """
    names = names_of(trial)
    losses = {"validation_loss": list[float](), "train_loss": list[float]()}  # since the last validation
    reached, matrices = 0, [False] * len(names.tensors)
    for step in trial.steps:
        loss = float(step.tensor(names.loss).mean()) if names.loss is not None and names.loss in step.places else None
        if step.mode == _VALIDATES:
            losses["validation_loss"] += [] if loss is None else [loss]
        elif step.mode in _TRAINS:
            yield from _validation(losses, reached)
            losses["train_loss"] += [] if loss is None else [loss]
            before, reached = reached, step.step + 1
            yield Record(
                step=reached,
                steps=max(reached - before, 0),
                loss=loss,
                ranks=_nothing_of_machines(),
                tensors=_tensors(step, names.tensors, matrices) if names.tensors else None,
                layers=_layers(step, names.layers) if names.layers else None,
                matrices=tuple(matrices),
            )
    yield from _validation(losses, reached)


def _validation(losses: dict[str, list[float]], step: int) -> Iterator[Record]:
    """The record of a validation that has ended; none if the training has no loss to compare."""
    if all(losses.values()):
        yield Record(step=step, validation={name: float(np.mean(each)) for name, each in losses.items()})
        losses["train_loss"].clear()
    losses["validation_loss"].clear()


def _tensors(step: SavedStep, names: Sequence[str], matrices: list[bool]) -> Table:
    """Sums over all elements; of a tensor that the step did not save, 0 elements."""
    columns = {column: np.zeros(len(names)) for column in TENSOR_COLUMNS}
    for row, name in enumerate(names):
        if _GRADIENT + name in step.places:
            gradient = step.tensor(_GRADIENT + name)
            matrices[row] = gradient.ndim > 1
            columns["size"][row], columns["grad_sq"][row] = gradient.size, np.square(gradient).sum()
        if name in step.places:
            weight = step.tensor(name)
            matrices[row] = weight.ndim > 1
            columns["sampled"][row], columns["weight_sum"][row] = weight.size, weight.sum()
            columns["weight_sq"][row] = np.square(weight).sum()
    return Table(names, columns)


def _layers(step: SavedStep, names: Sequence[str]) -> Table:
    columns = {column: np.zeros(len(names)) for column in LAYER_COLUMNS}
    for row, name in enumerate(names):
        if name in step.places:
            output = step.tensor(name)
            columns["size"][row], columns["sq"][row] = output.size, np.square(output).sum()
            columns["zeros"][row] = (output == 0).sum()
    return Table(names, columns)


def _nothing_of_machines() -> Table:
    """One rank without times."""
    unknown: dict[str, Floats] = {column: np.zeros(1) for column in RANK_COLUMNS}
    return Table(("rank 0",), {**unknown, "accelerator": np.full(1, -1.0)})
