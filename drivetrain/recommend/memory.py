"""Memory of one GPU (or process) under a strategy: an estimate, from measured facts and published formulas.

    parameters, gradients, optimizer state    divided by what the strategy divides them by (S. Rajbhandari et al.,
        "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, section 3)
    activations    measured a sample, times the samples that are in flight: under tensor parallelism
        (10 + 24/t) / 34 of them, and 1/t with the sequence-parallel part (V. Korthikanti et al., "Reducing Activation
        Recomputation in Large Transformer Models", MLSys 2023, equations 2 and 4); in a pipeline those of the rank's
        stage, for as many micro-batches as the schedule keeps (D. Narayanan et al., "Efficient Large-Scale Language
        Model Training on GPU Clusters Using Megatron-LM", SC 2021, section 2.2)
    working    what lives for a moment: layers gathered by sharding (in the format that is computed in: fully_shard
        casts slices before they travel, and keeps no other copy), else half-precision copies of the weights; and what
        the fullest moment of the backward pass holds beyond the activations. Such moments are the loss, with two
        gradients of the model's outputs, and each layer, with the gradients of its input and output, beside what it and
        the layers before it keep

Outputs and losses are in the format of the parameters (fp32 under bf16 and fp16). They are whole on every tensor rank,
and on every context rank where the recipe has no loss_parts().
Attention is what was measured: flash attention keeps no matrix of positions x positions.

It fits when the sum is at most 85 % of the memory: the rest is for the CUDA context, NCCL's buffers, workspaces of
kernels, and fragmentation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from drivetrain.base.records import dataclass
from drivetrain.catalog.strategies import DEFAULT_SCHEDULE, SINGLE_STAGE
from drivetrain.recommend.facts import Facts, Layer
from drivetrain.recommend.sizing import Candidate, Sizing


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes of one rank, of the fullest where they differ."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    buffers: int
    working: int

    @property
    def total(self) -> int:
        return self.parameters + self.gradients + self.optimizer + self.activations + self.buffers + self.working


@dataclass(frozen=True)
class Part:
    """The contents of one rank's stage before sharding: shares of the whole model, or bytes a sample."""

    parameters: float
    activations: float
    """Kept until the backward pass."""
    moment: float
    """Held beyond `activations` at the fullest moment of the backward pass."""
    largest_layer: float
    boundary: float
    """Bytes a sample that leave the stage."""
    in_flight: int
    """Micro-batches whose activations are kept at a time."""


def estimate_memory(plan: Sizing, candidate: Candidate) -> Memory:
    """The memory of the rank that needs most."""
    estimates = [_of_part(plan, candidate, part) for part in parts(plan, candidate)]
    return max(estimates, key=lambda memory: memory.total)


def _of_part(plan: Sizing, candidate: Candidate, part: Part) -> Memory:
    facts, tensor, shard = plan.facts, candidate.degree("tensor"), candidate.degree("shard")
    matrices = facts.matrix_parameters / facts.num_parameters if facts.num_parameters else 0.0
    held = part.parameters * (matrices / tensor + (1 - matrices))
    whole = facts.parameter_bytes * plan.stored * held
    trained = facts.trainable_share
    if shard > 1:
        # Two layers are unsharded at once, the current and the prefetched one, in the format of the computation; and
        # one layer's gradient, in the format in which gradients are summed.
        layer = facts.parameter_bytes * part.largest_layer / tensor
        casts = layer * (2 * plan.computed + trained * plan.stored)
        if stays_whole(candidate):
            casts = max(casts, facts.parameter_bytes * plan.computed * held)
    else:
        casts = whole * plan.computed if plan.computed < plan.stored else 0.0
        if plan.activation_checkpointing:  # copies go with the layer that made them
            casts *= part.largest_layer / part.parameters if part.parameters else 0.0
    samples = candidate.micro_batch(plan)
    here = 0.0 if candidate.options.get("cpu_offload") else 1.0  # else in the host's memory
    return Memory(
        parameters=round(here * whole / shard),
        gradients=round(here * whole * trained / shard),
        optimizer=round(here * facts.state_bytes * plan.stored * held / shard),
        activations=round(part.activations * samples * part.in_flight)
        + facts.input_bytes_per_sample * candidate.samples(plan),
        buffers=round(facts.buffer_bytes * plan.stored * part.parameters),
        working=round(casts + part.moment * samples),
    )


def stays_whole(candidate: Candidate) -> bool:
    """Return True if gathered layers are kept until the step's end, as pipeline stages keep them."""
    return candidate.options.get("reshard_after_forward") is False or candidate.degree("stage") > 1


def activation_share(candidate: Candidate) -> float:
    """The share of the activations of a sample that tensor and context parallelism leave to one rank's layers."""
    tensor = candidate.degree("tensor")
    share = 1 / tensor if candidate.options.get("sequence") else (10 + 24 / tensor) / 34
    return (share if tensor > 1 else 1) / candidate.degree("context")


def parts(plan: Sizing, candidate: Candidate) -> list[Part]:
    """One for each stage of the pipeline; a single one without a pipeline."""
    facts, stages = plan.facts, candidate.degree("stage")
    if stages == 1:
        return [_part(plan, candidate, facts.layers, 1.0, 1, has_loss=True)]
    found: list[Part] = []
    for place, group in enumerate(split(plan, stages)):
        share = sum(layer.parameters for layer in group) / max(1, facts.num_parameters)
        # What the loss keeps is kept by the stage that computes it.
        last = place == stages - 1
        found.append(_part(plan, candidate, group, share, in_flight(candidate, place), has_loss=last))
    return found


def _part(
    plan: Sizing, candidate: Candidate, layers: Sequence[Layer], parameters: float, in_flight: int, *, has_loss: bool
) -> Part:
    facts, share = plan.facts, activation_share(candidate)
    again = plan.activation_checkpointing
    kept = moment = before = boundary = 0.0
    for layer in layers:
        sizes = plan.of_sample(layer)
        kept += share * (sizes.checkpointed if again else sizes.activations)
        # (T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016: one layer at a time is there in full.)
        computed_again = sizes.recomputed if again else 0
        moment = max(moment, kept + share * (computed_again + sizes.outputs + before))
        before = boundary = sizes.outputs
    if has_loss:
        loss = plan.of_sample(facts.loss)
        of_loss = 1 / candidate.degree("context") if facts.has_loss_parts else 1
        kept += of_loss * loss.activations
        moment = max(moment, kept + 2 * of_loss * loss.outputs)
    largest = max((layer.parameters for layer in layers), default=facts.num_parameters)
    return Part(
        parameters=parameters,
        activations=kept,
        moment=max(0.0, moment - kept),
        largest_layer=largest / facts.num_parameters if facts.num_parameters else 0.0,
        boundary=boundary,
        in_flight=in_flight,
    )


def in_flight(candidate: Candidate, stage: int) -> int:
    """How many micro-batches' activations a stage keeps at its fullest: GPipe all of them, 1F1B as many as there are
    stages from here on, the schedules with several stages a rank as many as there are ranks."""
    schedule, stages = _schedule(candidate), candidate.degree("stage")
    if schedule == "gpipe":
        return candidate.micro_batches
    return min(candidate.micro_batches, stages - stage if schedule == "1f1b" else stages)


def stages_of_a_rank(candidate: Candidate) -> int:
    """Into how many stages a rank's part is cut."""
    return int(candidate.options.get("virtual") or (1 if _schedule(candidate) in SINGLE_STAGE else 2))


def _schedule(candidate: Candidate) -> str:
    return str(candidate.options.get("schedule", DEFAULT_SCHEDULE))


def split(plan: Sizing, stages: int) -> list[tuple[Layer, ...]]:
    """The chain cut into `stages` groups of neighbours, each with parameters, so that the most memory of one is least.

    There are at least as many layers with parameters (see Facts.most_stages).
    """
    facts = plan.facts
    each = facts.bytes_per_parameter * (1 + facts.trainable_share) + facts.state_bytes_per_parameter
    samples = max(1, plan.global_batch // stages)
    weights = [layer.parameters * each + plan.of_sample(layer).activations * samples for layer in facts.layers]
    low, high = max(weights, default=0.0), sum(weights)
    while high - low > 1:  # the least largest sum, by bisection
        middle = (low + high) / 2
        low, high = (low, middle) if _groups(weights, middle) <= stages else (middle, high)
    found: list[tuple[Layer, ...]] = []
    group: list[Layer] = []
    total = 0.0
    left = facts.most_stages
    for layer, weight in zip(facts.layers, weights, strict=True):
        open_stages = stages - len(found)  # this one among them
        full, needed = total + weight > high and left >= open_stages - 1, layer.parameters and left < open_stages
        if any(each.parameters for each in group) and (full or needed) and open_stages > 1:
            found.append(tuple(group))
            group, total = [], 0.0
        group.append(layer)
        total += weight
        left -= layer.parameters > 0
    return [*found, tuple(group)]


def _groups(weights: Sequence[float], most: float) -> int:
    count, total = 1, 0.0
    for weight in weights:
        if total + weight > most:
            count, total = count + 1, 0.0
        total += weight
    return count


def least_memory(facts: Facts) -> int:
    """Bytes of parameters, gradients and state together: what all GPUs must hold, however they share it."""
    return math.ceil(facts.parameter_bytes + facts.gradient_bytes + facts.state_bytes)
