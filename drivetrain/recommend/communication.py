"""Bytes that a rank sends in a step under a strategy, and the time of it at the links' rates: estimates.

A ring over n ranks takes, at a link's rate, 2(n-1)/n of the bytes for an all-reduce and (n-1)/n for a reduce-scatter or
an all-gather (P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).

    replicate   gradients, one all-reduce
    shard       parameters gathered in the forward and again in the backward pass, gradients reduce-scattered: half as
                much again as replicas (ZeRO, section 7.2.2). In bf16 and fp16 the parameters travel in two bytes, the
                gradients in four. Stages gather once, for all micro-batches
    tensor      by the recipe's tensor_plan(): one all-reduce forward of the outputs of each layer split by rows, one
                backward of the gradient of the input of each layer split by columns, and outputs that are gathered once
                (M. Shoeybi et al., "Megatron-LM", 2019, section 3, has two in each direction for a transformer block;
                three separate layers for query, key and value are six in all)
    context     keys and values of each attention gathered forward (and again where it is computed again), their
                gradients reduce-scattered backward; gradients of parameters all-reduced; outputs gathered where the
                recipe gives its losses for whole sequences only
    stage       outputs forward, their gradients backward, between neighbours; and idle time: the bubble is
                (p-1)/(m+p-1) of the step for p stages and m micro-batches (Y. Huang et al., "GPipe", 2019)

A group of ranks inside a host has the link between the host's processes, one that crosses hosts its part of the host's
network. The times add up what would be waited for if nothing were overlapped with computing.
"""

from __future__ import annotations

from drivetrain.base.degrees import crosses_hosts, groups_of_a_host
from drivetrain.base.records import dataclass
from drivetrain.recommend.memory import activation_share, parts, stages_of_a_rank, stays_whole
from drivetrain.recommend.sizing import Candidate, Sizing


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The traffic of one dimension in a step: bytes of one rank, seconds, and the link that it uses."""

    dimension: str
    operation: str
    bytes: int
    seconds: float
    between_hosts: bool


def estimate_traffic(plan: Sizing, candidate: Candidate) -> list[Traffic]:
    """Estimate what the busiest rank sends in one step, by dimension."""
    found: list[Traffic] = []
    facts, tensor = plan.facts, candidate.degree("tensor")
    stages = parts(plan, candidate)
    largest = max(stages, key=lambda part: part.parameters)
    matrices = facts.matrix_parameters / facts.num_parameters if facts.num_parameters else 0.0
    whole = facts.parameter_bytes * plan.stored * largest.parameters * (matrices / tensor + (1 - matrices))
    gradients = whole * facts.trainable_share
    samples = candidate.samples(plan)
    context = candidate.degree("context")
    layers = [plan.of_sample(layer) for layer in facts.layers]

    def add(dimension: str, operation: str, nbytes: float) -> None:
        across = crosses_hosts(candidate.degrees, dimension, plan.world)
        rate = plan.instance.link_rate
        if across:
            rate = plan.instance.network_rate / groups_of_a_host(candidate.degrees, dimension, plan.world)
        found.append(
            Traffic(
                dimension=dimension,
                operation=operation,
                bytes=round(nbytes),
                seconds=nbytes / rate,
                between_hosts=across,
            )
        )

    for dimension, degree in candidate.degrees.items():
        if degree == 1:
            continue
        once = (degree - 1) / degree
        if dimension == "replicate":
            add(dimension, "all-reduce of gradients", 2 * once * gradients / candidate.degree("shard"))
        elif dimension == "shard":
            gathers = 1 if stays_whole(candidate) else 2
            gathered = whole * plan.computed / plan.stored  # cast before they travel; gradients are summed as stored
            sent = once * (gathers * gathered + gradients)
            add(dimension, "all-gather of parameters, reduce-scatter of gradients", sent)
        elif dimension == "tensor":
            exchanged = sum(2 * layer.reduced + layer.gathered for layer in layers) / len(stages)
            add(dimension, "all-reduce of activations", once * exchanged * samples / context)
        elif dimension == "context":
            times = 3 if plan.activation_checkpointing else 2
            keys_and_values = times * sum(layer.keys_and_values for layer in layers)
            outputs = layers[-1].outputs if layers and not facts.has_loss_parts else 0
            add(
                dimension,
                "keys, values and outputs gathered, all-reduce of gradients",
                once * (samples * (keys_and_values + outputs) + 2 * gradients),
            )
        elif dimension == "stage":
            boundary = max(part.boundary for part in stages[:-1]) * activation_share(candidate)
            add(dimension, "activations and their gradients between stages", 2 * boundary * samples)
    return found


def bubble(candidate: Candidate) -> float:
    """The share of a step that a stage waits for the others; v stages a rank make it shorter (SC 2021, section 2.2.2):
    (p-1)/(v m + p-1)."""
    stages = candidate.degree("stage")
    return (stages - 1) / (stages_of_a_rank(candidate) * candidate.micro_batches + stages - 1)
