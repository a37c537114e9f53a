"""Facts and strategies made up, so that the numbers in the tests can be worked out by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.catalog.instances import Instance, get_instance
from drivetrain.catalog.strategies import Option, StrategyFacts
from drivetrain.recommend.facts import Bytes, Facts, Layer, new_file
from drivetrain.recommend.sizing import Sizing

DIMENSIONS: dict[str, tuple[str, ...]] = {
    "single": (),
    "dp": (),
    "ddp": ("replicate",),
    "fsdp": ("shard",),
    "hsdp": ("replicate", "shard"),
    "tp": ("tensor",),
    "fsdp_tp": ("shard", "tensor"),
    "pp": ("stage",),
    "pp_ddp": ("stage", "replicate"),
    "tp_pp_fsdp": ("stage", "shard", "tensor"),
    "cp": ("replicate", "context"),
}


# Bytes of a sample, in each layer.
SAMPLE = {"activations": 1_000, "checkpointed": 100, "recomputed": 1_000, "outputs": 100}
SAMPLE |= {"reduced": 600, "gathered": 40, "keys_and_values": 200}


def _option(name: str) -> Option:
    return Option(name=name, annotation="int", default=0, required=False, help="")


@pytest.fixture
def strategies() -> dict[str, StrategyFacts]:
    return {
        name: StrategyFacts(
            name=name,
            dimensions=dimensions,
            min_torch="2.6",
            summary=name,
            options={
                each: _option(each) for each in (*dimensions, *(["micro_batches"] if "stage" in dimensions else []))
            },
        )
        for name, dimensions in DIMENSIONS.items()
    }


@pytest.fixture
def make_facts() -> Callable[..., Facts]:
    """`num_layers` equal layers of 1,000 parameters (900 in matrices) in fp32, AdamW, 4,000 bytes kept a sample."""

    def make(num_layers: int = 4, scale: int = 1, **fields: Any) -> Facts:
        layer = {
            "kind": "Block",
            "parameters": 1_000 * scale,
            "matrix_parameters": 900 * scale,
            "full": Bytes(**SAMPLE),
            "half": Bytes(**{name: value // 2 for name, value in SAMPLE.items()}),
        }
        count = num_layers * 1_000 * scale
        made: dict[str, Any] = {
            "recipe": "made_up",
            "recipe_options": {},
            "num_parameters": count,
            "parameter_bytes": 4 * count,
            "trainable_parameters": count,
            "matrix_parameters": count * 9 // 10,
            "buffer_bytes": 0,
            "optimizer": "AdamW",
            "state_bytes_per_parameter": 8.0,
            "input_bytes_per_sample": 10,
            "sequence_length": 16,
            "flops_per_sample": 2 * count,
            "is_chain": True,
            "has_tensor_plan": True,
            "has_context_plan": True,
            "has_loss_parts": False,
            "attention": "",
            "layers": tuple(Layer(name=str(i), **layer) for i in range(num_layers)),
            "loss": Layer(name="loss", full=Bytes(outputs=100), half=Bytes(outputs=100)),
        }
        return Facts(**{**made, **fields})

    return make


@pytest.fixture
def make_plan(make_facts: Callable[..., Facts]) -> Callable[..., Sizing]:
    def make(instance: str | Instance = "ml.p4d.24xlarge", facts: Facts | None = None, **fields: Any) -> Sizing:
        found = get_instance(instance) if isinstance(instance, str) else instance
        return Sizing(facts=facts or make_facts(), instance=found, **{"global_batch": 64, **fields})

    return make


@pytest.fixture
def write_facts(tmp_path: Path) -> Callable[..., Path]:
    """A recipe `mine` in a folder, with facts: 32 layers, AdamW, 16 bytes a parameter in all."""

    def write(num_parameters: int = 3_200, **fields: Any) -> Path:
        source = b"class Recipe(dict): ...\n"
        (tmp_path / "mine.py").write_bytes(source)
        layer = {"kind": "Block", "parameters": num_parameters // 32, "matrix_parameters": num_parameters // 32}
        layer |= {"full": SAMPLE, "half": {name: value // 2 for name, value in SAMPLE.items()}}
        measured: dict[str, Any] = {
            "recipe": "mine",
            "recipe_options": {},
            "source_hash": hashlib.sha256(source).hexdigest(),
            "torch": "2.13.0",
            "parameters": {"count": num_parameters, "bytes": {"float32": 4 * num_parameters}},
            "trainable_parameters": num_parameters,
            "matrix_parameters": num_parameters,
            "buffers": {"count": 0, "bytes": {}},
            "optimizer": {"name": "AdamW", "state_bytes": 8 * num_parameters, "state_bytes_per_parameter": 8.0},
            "input_bytes_per_sample": 10,
            "sequence_length": None,
            "flops_per_sample": 2 * num_parameters,
            "is_chain": True,
            "has_tensor_plan": False,
            "has_context_plan": False,
            "has_loss_parts": False,
            "attention": "",
            "layers": [{"name": str(number), **layer} for number in range(32)],
            "loss": {form: {**dict.fromkeys(SAMPLE, 0), "outputs": 100} for form in ("full", "half")},
        }
        speed = fields.pop("speed", {})
        file = new_file({**measured, **fields})
        text = json.loads(file.text()) | {"checkpoint_bytes_per_second": speed}
        (tmp_path / "mine.facts.json").write_text(json.dumps(text))
        return tmp_path

    return write
