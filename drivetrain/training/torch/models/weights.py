"""Start from a file of weights: safetensors, or a state dict of torch.

The file is of the same model, but for its head: the last layer that has parameters, which fits the number of classes.
Where it does not fit, it stays as the recipe's model drew it. All other layers must be in the file.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, load_file
from torch import Tensor, nn

from drivetrain.base.errors import InputError, and_more
from drivetrain.training.errors import unknown_name
from drivetrain.training.torch.gathering import unwrapped
from drivetrain.training.torch.layers import layers_of
from drivetrain.training.weights_file import find_weights, unpacked

# Under which key training programs keep the model's state dict in a larger file.
_INNER = ("state_dict", "model_state_dict", "model")
# A buffer that older files lack; without momentum of its own a batch normalization does not use it.
_OPTIONAL = ".num_batches_tracked"
_ZIP, _PICKLE, _GZIP = b"PK\x03\x04", b"\x80", b"\x1f\x8b"
_SHOWN = 5


def load_weights(model: nn.Module, path: Path) -> list[str]:
    """Put the weights of a file into a bare model, on the CPU, before it is distributed.

    Returns:
        Lines for people: what was taken, what was left fresh, what of the file was not used.

    Raises:
        InputError: no such file, no weights in it, or weights of another model.
    """
    path = find_weights(path)
    tensors, prefix = unwrapped(read_weights(path), model.state_dict())
    head = head_of(model)
    held = model.state_dict()  # shares memory with the model
    unfit = {name: _unfit(name, held[name], tensors) for name in held}
    if any(reason for name, reason in unfit.items() if name in head):
        unfit |= {name: unfit[name] or "the rest of its layer does not fit" for name in head}
    taken = [name for name in held if name in tensors and not unfit[name]]
    fresh = [name for name in held if unfit[name]]
    strange = [name for name in fresh if name not in head]
    if not taken or strange:
        raise _refusal(path, held, tensors, unfit, (strange or fresh)[0])
    with torch.no_grad():
        for name in taken:
            held[name].copy_(tensors[name])

    lines = [f"start from {path}: took {len(taken)} of {len(held)} tensors"]
    if prefix:
        lines[0] += f", without the prefix {prefix!r} of their names"
    if fresh:
        reasons = "; ".join(f"{name}: {unfit[name]}" for name in fresh[:_SHOWN])
        lines.append(f"left fresh: {and_more(fresh, _SHOWN)} ({reasons})")
    unused = [name for name in tensors if name not in held]
    if unused:
        lines.append(f"not used of the file: {and_more(unused, _SHOWN)}")
    return lines


def head_of(model: nn.Module) -> set[str]:
    """Names of the parameters and buffers of the last layer that has parameters."""
    layers = [(name, layer) for name, layer in layers_of(model) if any(True for _ in layer.parameters())]
    if not layers:
        return set()
    name, layer = layers[-1]
    return {f"{name}.{inner}" for inner in layer.state_dict()}


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, or of the model folder of an earlier training or its archive, by name, on the CPU.

    A state dict of torch is read by torch's own restricted reader, which makes tensors and plain containers and calls
    nothing else that a file may name.

    Raises:
        InputError: no such file, or no weights in it.
    """
    path = find_weights(path)
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
    except OSError as error:
        raise InputError(f"weights {str(path)!r}: {error.strerror}. Give a file that can be read.") from None
    archived = unpacked(path) if start.startswith(_GZIP) else None
    try:
        if archived is not None:
            value: Any = load(archived)
        elif start.startswith((_ZIP, _PICKLE)):
            value = torch.load(path, map_location="cpu", weights_only=True)
        else:
            value = load_file(path)
    except Exception as error:  # a damaged file makes its reader fail in whatever way
        reason = f"{type(error).__name__}: {error}".splitlines()[0].partition(". ")[0]
        if isinstance(error, pickle.UnpicklingError):  # whose own text says how to run what is in the file
            reason = "it is damaged, or holds objects that are no tensors, which are not made"
        raise InputError(
            f"weights {str(path)!r} cannot be read as weights ({reason[:200]}). Allowed are safetensors, and state "
            "dicts saved by torch.save that hold tensors only."
        ) from None
    return _state_dict(path, value)


def _state_dict(path: Path, value: Any) -> dict[str, Tensor]:
    """The state dict, also one inside the larger file of a training program."""
    if isinstance(value, Mapping):
        inner = next((value[key] for key in _INNER if isinstance(value.get(key), Mapping)), value)
        tensors = {name: tensor for name, tensor in inner.items() if isinstance(tensor, Tensor)}
        if tensors and all(isinstance(name, str) for name in tensors):
            return tensors
    raise InputError(
        f"weights {str(path)!r} holds no state dict (names and tensors), nor one under {', '.join(_INNER)}. "
        "Save model.state_dict()."
    )


def _unfit(name: str, held: Tensor, tensors: Mapping[str, Tensor]) -> str:
    """Why the model's tensor cannot be taken from the file; empty where it can, or need not."""
    if name not in tensors:
        return "" if name.endswith(_OPTIONAL) else "not in the file"
    if tensors[name].shape != held.shape:
        return f"{list(tensors[name].shape)} in the file, {list(held.shape)} in the model"
    return ""


def _refusal(
    path: Path, held: Mapping[str, Tensor], tensors: Mapping[str, Tensor], unfit: Mapping[str, str], name: str
) -> InputError:
    if not held.keys() & tensors.keys():
        return unknown_name(
            f"tensor in {path}", name, tensors, advice="The file is of another model: none of its names is the model's."
        )
    wrong = [each for each in held if unfit[each]]
    return InputError(
        f"weights {str(path)!r} is of another model: {name} is {unfit[name]}; {len(wrong)} of {len(held)} tensors "
        "do not fit. Only the last layer may differ. Give the weights of this model, or the recipe's options that they "
        "were made with."
    )
