"""Measure a recipe without running it: parameters, activations, optimizer state, operations. Prints JSON.

    python -m drivetrain.training_scripts.profile_recipe --recipe digits_cnn
    python -m drivetrain.training_scripts.profile_recipe --recipe my_recipes.faces --recipe-options '{"width": 64}'
    python -m drivetrain.training_scripts.profile_recipe --recipe digits_cnn --write-speed /opt/ml/checkpoints

Model, batch and optimizer are torch's FakeTensors (shapes and types on the meta device, no memory), so that a model of
any size is measured in seconds on any machine. Only `--write-speed` writes: one file, which is removed again.

A recipe may have `example(batch_size) -> Batch`, for columns whose rows are not single numbers; without it a batch is
made from zeros by its `batch`.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from drivetrain.base.errors import InputError
from drivetrain.base.json_options import parse_options
from drivetrain.training import trees
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.recipe import (
    Batch,
    HasContextPlan,
    HasExample,
    HasLossParts,
    HasTensorPlan,
    Recipe,
    load_recipe,
)
from drivetrain.training.torch import optimizers
from drivetrain.training.torch.footprint import COUNTED, LOSS, Watch, layers_to_cut, units_of

# Two sizes tell what grows with the batch from what does not; batch normalization refuses a batch of one.
SMALL, LARGE = 2, 4
WRITTEN_BYTES = 256 * 1024**2
FULL, HALF = "full", "half"


def _source_hash(recipe: Recipe) -> str:
    """SHA-256 of the recipe's file: of an edited recipe the facts are others."""
    file = sys.modules[type(recipe).__module__].__file__
    assert file is not None  # recipes are found by file name
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def measure(recipe: Recipe, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Measure a recipe's needs, as the facts file of drivetrain.recommend holds them.

    Bytes are those of the formats that the recipe's model has by itself (fp32, as a rule). Of a sample there are two
    sets: `full` in those formats, and `half` as the strategies compute in bf16 and fp16: the model under autocast, its
    outputs and the losses in fp32. Attention is measured with the kernel that torch takes on a CPU, which is flash
    attention where there is no dropout inside of it; `attention` names it.

    Raises:
        InputError: the recipe cannot be measured, with the reason.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        model = recipe.model()
    units = {**units_of(model), LOSS: [LOSS]}
    runs = {
        form: [_run(recipe, name, model, mode, size, half=form == HALF) for size in (SMALL, LARGE)]
        for form in (FULL, HALF)
    }
    small, large = runs[FULL]
    added = LARGE - SMALL

    def per_sample(key: str) -> int:
        return (large[key] - small[key]) // added

    def of_layer(layer: str) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for form, (least, most) in runs.items():
            grown = {
                what: [(most[what][unit] - least[what][unit]) // added for unit in units[layer]] for what in COUNTED
            }
            found[form] = {what: sum(each) for what, each in grown.items()}
            found[form]["outputs"] = grown["outputs"][-1] if units[layer] else 0
            found[form]["recomputed"] = max(grown["recomputed"], default=0)
        return found

    state = _optimizer_state(recipe, model, mode)
    return {
        "recipe": name,
        "recipe_options": options,
        "source_hash": _source_hash(recipe),
        "torch": torch.__version__.partition("+")[0],
        "parameters": _tensors(model.parameters()),
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "matrix_parameters": sum(p.numel() for p in model.parameters() if p.dim() > 1),
        "buffers": _tensors(model.buffers()),
        "optimizer": state,
        "input_bytes_per_sample": per_sample("input_bytes"),
        "sequence_length": large["sequence_length"],
        "flops_per_sample": per_sample("flops"),
        "attention": large["attention"],
        "is_chain": isinstance(model, nn.Sequential),
        "has_tensor_plan": isinstance(recipe, HasTensorPlan),
        "has_context_plan": isinstance(recipe, HasContextPlan),
        "has_loss_parts": isinstance(recipe, HasLossParts),
        "layers": [
            {
                "name": layer,
                "kind": type(module).__name__,
                "parameters": sum(p.numel() for p in module.parameters()),
                "matrix_parameters": sum(p.numel() for p in module.parameters() if p.dim() > 1),
                **of_layer(layer),
            }
            for layer, module in layers_to_cut(model)
        ],
        "loss": of_layer(LOSS),
    }


def _run(recipe: Recipe, name: str, model: nn.Module, mode: FakeTensorMode, size: int, *, half: bool) -> dict[str, Any]:
    """One forward pass over `size` samples, and what it keeps for the backward pass."""
    real = _example(recipe, name, size)
    with mode:
        batch = Batch(*trees.mapped(mode.from_tensor, (real.inputs, real.targets)))
    watch = Watch(recipe, name, model, batch)
    autocast = torch.autocast("cpu", torch.bfloat16) if half else nullcontext()
    with watch, FlopCounterMode(display=False) as counter, mode:
        try:
            with torch.autograd.graph.saved_tensors_hooks(watch.saved, lambda tensor: tensor):
                with autocast:
                    outputs = model.train()(batch.inputs)
                if half:  # as every strategy does it
                    outputs = trees.mapped(lambda t: t.float() if t.is_floating_point() else t, outputs)
                watch.bytes["outputs"][LOSS] += sum(tensor.nbytes for tensor in trees.leaves(outputs))
                losses = recipe.losses(outputs, batch.targets)
        except Exception as error:
            raise InputError(
                f"recipe {name!r} cannot be measured: its model or losses fail on {size} samples of shape "
                f"{_shape_of_one(real.inputs)} without values ({type(error).__name__}: {_first_line(error)}). Give "
                "the recipe a method example(batch_size) -> Batch, and let no shape depend on the values of data."
            ) from error
    if losses.shape != (size,):
        raise InputError(
            f"recipe {name!r}: losses() gives shape {list(losses.shape)} for {size} samples; allowed is one loss a "
            f"sample, [{size}]."
        )
    tensors = trees.leaves((batch.inputs, batch.targets))
    tokens = next((t for t in trees.leaves(batch.inputs) if t.dim() > 1 and not t.is_floating_point()), None)
    return {
        **watch.bytes,
        "flops": counter.get_total_flops(),
        "attention": watch.attention,
        "input_bytes": sum(tensor.nbytes for tensor in tensors),
        "sequence_length": None if tokens is None else tokens.shape[1],
    }


def _shape_of_one(inputs: trees.Tree) -> str:
    return str(list(inputs.shape[1:])) if isinstance(inputs, Tensor) else trees.described(inputs)


def _example(recipe: Recipe, name: str, size: int) -> Batch:
    """A batch whose values do not matter."""
    if isinstance(recipe, HasExample):
        batch: Any = recipe.example(size)
        if not isinstance(batch, Batch):
            raise InputError(f"recipe {name!r}: example() returned a {type(batch).__name__}; it must return a Batch.")
        return batch
    label = "label"
    columns: dict[str, NDArray[Any]] = {
        column: np.zeros(size, dtype=np.float32) for column in recipe.columns if column != label
    }
    columns[label] = np.zeros(size, dtype=np.int64)
    try:
        return recipe.batch(columns, label)
    except Exception as error:
        raise InputError(
            f"recipe {name!r} cannot be measured: batch() does not take rows of single numbers "
            f"({type(error).__name__}: {_first_line(error)}). Give the recipe a method example(batch_size) -> Batch."
        ) from error


def _optimizer_state(recipe: Recipe, model: nn.Module, mode: FakeTensorMode) -> dict[str, Any]:
    """The optimizer's state, measured by one step with gradients of zero."""
    with mode:
        optimizer = optimizers.build(recipe, model, learning_rate=1e-3, weight_decay=0.0)
        trained = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        for parameter in trained:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        for parameter in trained:
            parameter.grad = None
    kept = sum(
        value.nbytes
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, Tensor)
        if value.dim()  # the step counter of each parameter is not worth a place in a sum of megabytes
    )
    elements = sum(parameter.numel() for parameter in trained)
    return {
        "name": " and ".join(type(each).__name__ for each in optimizers.each_of(optimizer)),
        "state_bytes": kept,
        "state_bytes_per_parameter": round(kept / elements, 3) if elements else 0.0,
    }


def _tensors(tensors: Iterator[Tensor]) -> dict[str, Any]:
    """Number of elements, and bytes by type."""
    count, nbytes = 0, Counter[str]()
    for tensor in tensors:
        count += tensor.numel()
        nbytes[str(tensor.dtype).removeprefix("torch.")] += tensor.nbytes
    return {"count": count, "bytes": dict(sorted(nbytes.items()))}


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


def write_speed(folder: Path) -> float:
    """Bytes a second at which a file of 256 MiB reaches this folder's disk, written and synced as checkpoints are.

    Raises:
        InputError: nothing can be written there.
    """
    place, name = FolderPlace(folder), f".drivetrain-write-speed-{secrets.token_hex(4)}"
    buffer = HostBuffer(WRITTEN_BYTES)
    buffer.view(WRITTEN_BYTES)[:] = os.urandom(WRITTEN_BYTES)  # zeros would be compressed away by some file systems
    try:
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            started = time.perf_counter()
            place.write(name, buffer.view(WRITTEN_BYTES))
            return WRITTEN_BYTES / (time.perf_counter() - started)
        finally:
            place.remove([name])
    except OSError as error:
        raise InputError(f"--write-speed {folder}: {error.strerror or error}.") from None


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m drivetrain.training_scripts.profile_recipe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--recipe", required=True, help="a file of recipes/, or a module of your own")
    parser.add_argument("--recipe-options", default="{}", help="the recipe's options, a JSON object")
    parser.add_argument("--write-speed", type=Path, metavar="FOLDER", help="also measure how fast checkpoints are kept")
    given = parser.parse_args()

    def program() -> None:
        options = parse_options(given.recipe_options, "recipe_options")
        facts = measure(load_recipe(given.recipe, options), given.recipe, options)
        if given.write_speed is not None:
            facts["write_bytes_per_second"] = round(write_speed(given.write_speed))
        print(json.dumps(facts, sort_keys=True))

    run_rank(program)


if __name__ == "__main__":
    main()
