"""The measured facts of a recipe, and the file that keeps them: `<recipe>.facts.json`.

Written by `drivetrain recommend --write` (drivetrain.training_scripts.profile_recipe does the measuring, in a process
of its own), read here without torch. One file holds one recipe as its source was, with a measurement for each set of
options.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass

FORMAT = 2
ATTENTIONS = ("", "flash", "math")
SUFFIX = ".facts.json"
ABOUT = (
    "Measured by `drivetrain recommend --write`. Bytes are those of the model's own number format; of layers and the "
    "loss they are a sample's, `half` those under bf16 and fp16."
)


class FactsError(UserError):
    """Facts that are missing, stale or no facts at all; the message names the command that mends it."""


@dataclass(frozen=True, kw_only=True)
class Bytes:
    """The bytes that a layer or the loss takes for one sample."""

    activations: int = 0
    """The bytes that the backward pass needs of it."""
    checkpointed: int = 0
    """The same with activation checkpointing: the inputs of layers with parameters, and all that others need."""
    recomputed: int = 0
    """The bytes that it then holds in full while it is computed again; of a chain of layers the largest."""
    outputs: int = 0
    """The bytes of its outputs; for the loss, of its inputs."""
    reduced: int = 0
    """The bytes that tensor parallelism sums over the ranks, forward and backward."""
    gathered: int = 0
    """The bytes that tensor parallelism gathers on every rank."""
    keys_and_values: int = 0
    """The bytes of its attention's keys and values."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer, or the loss."""

    name: str
    kind: str = ""
    parameters: int = 0
    matrix_parameters: int = 0
    full: Bytes
    """In the model's own number format."""
    half: Bytes
    """In bf16 or fp16 (autocast)."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One measurement. Bytes are those of the format that the recipe's model has by itself."""

    recipe: str
    recipe_options: Mapping[str, Any]
    num_parameters: int
    parameter_bytes: int
    trainable_parameters: int
    matrix_parameters: int
    """Elements of parameters with two dimensions or more: what tensor parallelism splits."""
    buffer_bytes: int
    optimizer: str
    state_bytes_per_parameter: float
    """The optimizer's state of each trainable parameter [bytes]."""
    input_bytes_per_sample: int
    sequence_length: int | None
    flops_per_sample: int
    """Operations of a forward pass of one sample."""
    attention: str
    """How scaled_dot_product_attention was computed: `flash` (which keeps no matrix of positions x positions), `math`
    (which does), or empty without attention."""
    is_chain: bool
    has_tensor_plan: bool
    has_context_plan: bool
    has_loss_parts: bool
    """True if losses are summed up from parts of a sequence; if not, ranks that share it gather its outputs."""
    layers: tuple[Layer, ...]
    loss: Layer
    checkpoint_bytes_per_second: Mapping[str, float] = field(default_factory=dict[str, float])
    """Instance type -> how fast a file reaches its checkpoints folder, where that was measured."""

    @property
    def bytes_per_parameter(self) -> float:
        return self.parameter_bytes / self.num_parameters if self.num_parameters else 0.0

    @property
    def trainable_share(self) -> float:
        return self.trainable_parameters / self.num_parameters if self.num_parameters else 0.0

    @property
    def most_stages(self) -> int:
        """Into how many stages a pipeline can cut the model: each needs something to train."""
        return sum(layer.parameters > 0 for layer in self.layers)

    @property
    def gradient_bytes(self) -> float:
        return self.trainable_parameters * self.bytes_per_parameter

    @property
    def state_bytes(self) -> float:
        return self.trainable_parameters * self.state_bytes_per_parameter

    @property
    def checkpoint_bytes(self) -> float:
        """Parameters, buffers and optimizer state."""
        return self.parameter_bytes + self.buffer_bytes + self.state_bytes


@dataclass(frozen=True, kw_only=True)
class FactsFile:
    """All measurements of one recipe."""

    recipe: str
    source_hash: str
    torch: str
    checkpoint_bytes_per_second: Mapping[str, float]
    measurements: tuple[Mapping[str, Any], ...]

    def find(self, options: Mapping[str, Any]) -> Facts | None:
        """The measurement with these options."""
        found = next((each for each in self.measurements if each["recipe_options"] == options), None)
        return None if found is None else _facts(self.recipe, found, self.checkpoint_bytes_per_second)

    def with_measurement(self, measured: Mapping[str, Any], instance: str | None = None) -> FactsFile:
        """The file with one more measurement; those of another source are dropped."""
        same = self.source_hash == measured["source_hash"]
        options = measured["recipe_options"]
        kept = [each for each in self.measurements if each["recipe_options"] != options] if same else []
        own = {name: value for name, value in measured.items() if name not in _OF_THE_FILE}
        speeds = dict(self.checkpoint_bytes_per_second)
        if instance and "write_bytes_per_second" in measured:
            speeds[instance] = measured["write_bytes_per_second"]
        return FactsFile(
            recipe=measured["recipe"],
            source_hash=measured["source_hash"],
            torch=measured["torch"],
            checkpoint_bytes_per_second=speeds,
            measurements=tuple(sorted([*kept, own], key=lambda each: json.dumps(each["recipe_options"]))),
        )

    def text(self) -> str:
        """The file's content: the same measurements give the same bytes."""
        content = {
            "format": FORMAT,
            "about": ABOUT,
            "recipe": self.recipe,
            "source_hash": self.source_hash,
            "torch": self.torch,
            "checkpoint_bytes_per_second": dict(sorted(self.checkpoint_bytes_per_second.items())),
            "measurements": json.loads(json.dumps(self.measurements, sort_keys=True)),
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


_OF_THE_FILE = ("recipe", "source_hash", "torch", "write_bytes_per_second")


def new_file(measured: Mapping[str, Any], instance: str | None = None) -> FactsFile:
    """A file with one measurement, as the measuring program prints it."""
    empty = FactsFile(
        recipe=measured["recipe"], source_hash="", torch="", checkpoint_bytes_per_second={}, measurements=()
    )
    return empty.with_measurement(measured, instance)


def read_file(path: Path) -> FactsFile:
    """
    Raises:
        FactsError: no facts, or of a format that this version does not read.
    """
    again = "Write it again: drivetrain recommend --recipe NAME --write."
    try:
        content: Any = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise FactsError(f"{path} has format {content['format']!r}; this version reads {FORMAT}. {again}")
        found = FactsFile(
            recipe=str(content["recipe"]),
            source_hash=str(content["source_hash"]),
            torch=str(content["torch"]),
            checkpoint_bytes_per_second={str(k): float(v) for k, v in content["checkpoint_bytes_per_second"].items()},
            measurements=tuple(content["measurements"]),
        )
        for each in found.measurements:
            _facts(found.recipe, each, {})
    except FactsError:
        raise
    except OSError as error:
        raise FactsError(f"{path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FactsError(f"{path} holds no facts of a recipe ({type(error).__name__}: {error}). {again}") from None
    return found


def _facts(recipe: str, measured: Mapping[str, Any], speeds: Mapping[str, float]) -> Facts:
    def number(*path: str | int) -> int:
        value: Any = measured
        for part in path:
            value = value[part]
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{'.'.join(map(str, path))} is {value!r}; allowed are whole numbers from 0")
        return value

    def total(name: str) -> int:
        return sum(number(name, "bytes", kind) for kind in measured[name]["bytes"])

    def sizes(*path: str | int) -> Bytes:
        return Bytes(**{each.name: number(*path, each.name) for each in fields(Bytes)})

    def layer(place: int) -> Layer:
        given: Mapping[str, Any] = measured["layers"][place]
        return Layer(
            name=str(given["name"]),
            kind=str(given["kind"]),
            parameters=number("layers", place, "parameters"),
            matrix_parameters=number("layers", place, "matrix_parameters"),
            full=sizes("layers", place, "full"),
            half=sizes("layers", place, "half"),
        )

    sequence_length: Any = measured["sequence_length"]
    if measured["attention"] not in ATTENTIONS:
        raise ValueError(f"attention is {measured['attention']!r}; allowed are {', '.join(map(repr, ATTENTIONS))}")
    state = float(measured["optimizer"]["state_bytes_per_parameter"])
    if not 0 <= state < math.inf:
        raise ValueError(f"optimizer.state_bytes_per_parameter is {state}; allowed are numbers from 0")
    return Facts(
        recipe=recipe,
        recipe_options=dict(measured["recipe_options"]),
        num_parameters=number("parameters", "count"),
        parameter_bytes=total("parameters"),
        trainable_parameters=number("trainable_parameters"),
        matrix_parameters=number("matrix_parameters"),
        buffer_bytes=total("buffers"),
        optimizer=str(measured["optimizer"]["name"]),
        state_bytes_per_parameter=state,
        input_bytes_per_sample=number("input_bytes_per_sample"),
        sequence_length=None if sequence_length is None else int(sequence_length),
        flops_per_sample=number("flops_per_sample"),
        attention=str(measured["attention"]),
        is_chain=bool(measured["is_chain"]),
        has_tensor_plan=bool(measured["has_tensor_plan"]),
        has_context_plan=bool(measured["has_context_plan"]),
        has_loss_parts=bool(measured["has_loss_parts"]),
        layers=tuple(layer(place) for place in range(len(measured["layers"]))),
        loss=Layer(name="loss", full=sizes("loss", "full"), half=sizes("loss", "half")),
        checkpoint_bytes_per_second=speeds,
    )
