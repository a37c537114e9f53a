"""Load a model folder of torch. Needs torch and nothing else, so that it travels with the model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.model_folder import WEIGHTS_FILE, no_description, read_description, read_weights
from drivetrain.training.recipe import HasFolder, Recipe, load_recipe
from drivetrain.training.torch.precision import precision_of


def load_model(folder: Path) -> tuple[Recipe, nn.Module, dict[str, Any]]:
    """The recipe, the model with its weights on the CPU, and the description.

    Raises:
        InputError: not a model folder, or its weights are damaged or of another model.
    """
    description = read_description(folder)
    try:
        recipe = load_recipe(description["recipe"], description["recipe_options"])
        if isinstance(recipe, HasFolder):
            recipe = recipe.in_model_folder(folder)
        precision = precision_of(description["precision"]).parameters
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise no_description(folder, error) from None
    weights = read_weights(folder, description)
    try:
        model = recipe.model().to(precision)
        is_kept = recipe.is_kept if isinstance(recipe, HasFolder) else None
        found = model.load_state_dict(parse_tensors(weights), strict=is_kept is None)
        if is_kept and (wrong := [*filter(is_kept, found.missing_keys), *found.unexpected_keys]):
            raise ValueError(f"{wrong[0]} is missing, or is not the model's; {len(wrong)} such tensors")
    except (ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        lines = [line.strip() for line in str(error).splitlines()]
        reason = lines[1] if len(lines) > 1 else str(error)  # torch heads its list of mismatches with a line of its own
        raise InputError(f"{folder / WEIGHTS_FILE} does not fit recipe {description['recipe']!r}: {reason}") from None
    return recipe, model, description


DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "I64": torch.int64,
    "U64": torch.uint64,
    "F64": torch.float64,
}
_LENGTH_BYTES = 8


def parse_tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file, each with memory of its own; by torch alone, which is all that serving has.

    The format (https://huggingface.co/docs/safetensors): 8 bytes for the length of a JSON object (little endian), the
    object, name -> {"dtype", "shape", "data_offsets"}, and the values of all tensors, one after the other, no gaps.

    Raises:
        ValueError: it is no whole safetensors file.
    """
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if len(data) < start:
        raise ValueError(f"the file ends after {len(data)} bytes, in its header")
    try:
        header: Any = json.loads(data[_LENGTH_BYTES:start].decode("utf-8"))
        header.pop("__metadata__", None)
        entries = sorted(
            (entry["data_offsets"], name, entry["dtype"], entry["shape"]) for name, entry in header.items()
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"its header cannot be read ({error!r:.200})") from None
    tensors: dict[str, Tensor] = {}
    expected = 0
    for offsets, name, tag, shape in entries:
        if tag not in DTYPES:
            raise ValueError(f"tensor {name!r} has an unknown type {tag!r}")
        size = math.prod(shape) * DTYPES[tag].itemsize
        if not all(isinstance(each, int) and each >= 0 for each in shape) or offsets != [expected, expected + size]:
            raise ValueError(f"tensor {name!r} has a place or a shape that cannot be")
        expected += size
        if start + expected > len(data):
            raise ValueError(f"the file ends in tensor {name!r}")
        values = bytearray(data[start + offsets[0] : start + offsets[1]])
        flat = torch.frombuffer(values, dtype=DTYPES[tag]) if size else torch.empty(0, dtype=DTYPES[tag])
        tensors[name] = flat.reshape(shape)
    if start + expected != len(data):
        raise ValueError("it holds more bytes than its tensors have")
    return tensors
