"""Checkpoints of other tools: what they are, and what to do with them. None of their files is opened: most are pickles,
and reading a pickle runs the code in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

_AS_WEIGHTS = (
    "To start a training from it, give it as the input `weights` (only tensors of it are made, by torch's restricted "
    "reader)."
)
_CONVERT = (
    "Where it was made: python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER weights.pt, and give "
    "weights.pt as the input `weights`."
)

# The weights' files of Hugging Face's transformers; of more than one file each where the model is large.
_TRANSFORMERS = ("model.safetensors", "pytorch_model.bin")


def described(names: Iterable[str]) -> str | None:
    """If another tool made the files of a place: a sentence that names it, the reason, and what to do."""
    paths = [PurePosixPath(name) for name in names]
    files = {path.name for path in paths}
    endings = {path.suffix for path in paths}
    if ".metadata" in files or ".distcp" in endings:
        return (
            "a checkpoint of torch.distributed.checkpoint, whose .metadata is a pickle, and no pickle is read here. "
            f"{_CONVERT}"
        )
    if "zero_to_fp32.py" in files or any(name.endswith("_model_states.pt") for name in files):
        return (
            "a checkpoint of DeepSpeed, which is made of pickles, and no pickle is read here. Where it was made, run "
            "its zero_to_fp32.py, and give the result as the input `weights`."
        )
    if ".ckpt" in endings:
        return f"a checkpoint of Lightning (.ckpt), which is a pickle, and no pickle is read here. {_AS_WEIGHTS}"
    if "trainer_state.json" in files:
        return (
            "a checkpoint of Hugging Face's Trainer, whose state is made of pickles, and no pickle is read here. "
            f"{_advice(files)}"
        )
    if {"model.json", "model.safetensors"} <= files or "model.tar.gz" in files:
        return "a model that a training handed on, and no checkpoint. Evaluate it, or give it as the input `weights`."
    if "config.json" in files and files.intersection(_TRANSFORMERS):
        return f"a model of Hugging Face's transformers, and no checkpoint. {_advice(files)}"
    if endings & {".pt", ".pth", ".bin"}:
        return f"files of torch.save, which are pickles, and no pickle is read here. {_AS_WEIGHTS}"
    if endings & {".keras", ".h5"} or ("checkpoint" in files and ".index" in endings):
        return "a checkpoint of Keras or TensorFlow that was not committed through the store."
    return None


def _advice(files: Collection[str]) -> str:
    """Advice on weights that transformers wrote, by the files that are there."""
    for name in _TRANSFORMERS:
        if name in files:
            return f"Give its {name} as the input `weights`."
    return "Put its weights into one file where it was made, and give that as the input `weights`."
