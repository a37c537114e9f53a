"""Estimates of memory against sums done by hand: 4 layers of 1,000 parameters, 12 bytes a parameter and 4 more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from drivetrain.recommend.facts import Bytes, Facts, Layer
from drivetrain.recommend.memory import estimate_memory, in_flight, least_memory, parts, split
from drivetrain.recommend.sizing import Candidate, Sizing

Make = Callable[..., Sizing]
ONE = {"global_batch": 8, "processes": 1}


def test_one_process_holds_everything(make_plan: Make) -> None:
    memory = estimate_memory(make_plan(**ONE), Candidate("single", {}))
    assert (memory.parameters, memory.gradients, memory.optimizer) == (16_000, 16_000, 32_000)
    assert memory.activations == 8 * 4_000 + 8 * 10  # what layers keep, and the batch itself
    assert memory.working == 2 * 100 * 8  # an output and its gradient
    assert memory.total == 16_000 + 16_000 + 32_000 + 32_080 + 1_600


def test_replicas_divide_the_batch_alone(make_plan: Make) -> None:
    memory = estimate_memory(make_plan(global_batch=64), Candidate("ddp", {"replicate": 8}))
    assert (memory.parameters, memory.gradients, memory.optimizer) == (16_000, 16_000, 32_000)
    assert memory.activations == 8 * 4_010


def test_shards_divide_parameters_and_put_layers_together_for_a_moment(make_plan: Make) -> None:
    memory = estimate_memory(make_plan(global_batch=64), Candidate("fsdp", {"shard": 8}))
    assert (memory.parameters, memory.gradients, memory.optimizer) == (2_000, 2_000, 4_000)
    assert memory.working == 3 * 4_000 + 2 * 100 * 8  # two layers and a gradient
    kept = Candidate("fsdp", {"shard": 8}, 1, {"reshard_after_forward": False})
    assert estimate_memory(make_plan(), kept).working == 16_000 + 1_600  # beside the slices
    offloaded = estimate_memory(make_plan(), Candidate("fsdp", {"shard": 8}, 1, {"cpu_offload": True}))
    assert offloaded.parameters == offloaded.gradients == offloaded.optimizer == 0


def test_shards_gather_in_the_format_that_is_computed_in(make_plan: Make) -> None:
    plan = make_plan(global_batch=64, precision="bf16")
    memory = estimate_memory(plan, Candidate("fsdp", {"shard": 8}))
    assert memory.parameters == 2_000
    assert memory.working == 2 * 2_000 + 4_000 + 2 * 100 * 8  # no other copy of the weights is kept
    kept = Candidate("fsdp", {"shard": 8}, 1, {"reshard_after_forward": False})
    assert estimate_memory(plan, kept).working == 8_000 + 2 * 100 * 8


def test_tensor_parallelism_divides_matrices_alone(make_plan: Make) -> None:
    memory = estimate_memory(make_plan(global_batch=8), Candidate("tp", {"tensor": 8}))
    assert memory.parameters == round(16_000 * (0.9 / 8 + 0.1))
    assert memory.activations == round(8 * 4_000 * (10 + 24 / 8) / 34) + 80
    sequence = Candidate("tp", {"tensor": 8}, 1, {"sequence": True})
    assert estimate_memory(make_plan(global_batch=8), sequence).activations == 4_000 + 80


def test_stages_divide_layers_and_keep_micro_batches(make_plan: Make) -> None:
    plan = make_plan(global_batch=32, processes=4)
    first = parts(plan, Candidate("pp", {"stage": 4}, 16))[0]
    assert (first.parameters, first.activations, first.in_flight) == (0.25, 1_000, 4)
    memory = estimate_memory(plan, Candidate("pp", {"stage": 4}, 16))
    assert memory.parameters == 4_000
    assert memory.activations == 1_000 * 2 * 4 + 32 * 10
    everything = estimate_memory(plan, Candidate("pp", {"stage": 4}, 16, {"schedule": "gpipe"}))
    assert everything.activations == 1_000 * 2 * 16 + 320


def test_micro_batches_that_a_schedule_keeps() -> None:
    assert [in_flight(Candidate("pp", {"stage": 4}, 8), stage) for stage in range(4)] == [4, 3, 2, 1]
    assert in_flight(Candidate("pp", {"stage": 4}, 8, {"schedule": "gpipe"}), 3) == 8
    assert in_flight(Candidate("pp", {"stage": 4}, 8, {"schedule": "zero_bubble"}), 3) == 4


def test_layers_that_keep_nothing_else_are_recomputed(make_plan: Make) -> None:
    memory = estimate_memory(make_plan(activation_checkpointing=True, **ONE), Candidate("single", {}))
    assert memory.activations == 8 * 4 * 100 + 80
    assert memory.working == 8 * (1_000 + 2 * 100)  # the last layer in full, with the gradients of what comes and goes


def test_copies_of_weights_go_with_the_layer_that_made_them(make_plan: Make) -> None:
    kept, again = (
        estimate_memory(
            make_plan(precision="bf16", activation_checkpointing=again, global_batch=1, processes=1),
            Candidate("single", {}),
        ).working
        for again in (False, True)
    )
    assert kept == 8_000 + 2 * 100
    assert again == 2_000 + 500 + 2 * 50


def test_precisions(make_plan: Make) -> None:
    whole, half, double = (
        estimate_memory(make_plan(precision=name, **ONE), Candidate("single", {})) for name in ("fp32", "bf16", "fp64")
    )
    assert half.parameters == whole.parameters and double.parameters == 2 * whole.parameters
    assert half.activations == whole.activations - 8 * 2_000
    assert half.working == whole.working + 8_000  # the loss is in fp32; the copies of the weights
    assert double.total == 2 * whole.total - 80  # the batch's bytes are counted as they come


def test_frozen_parameters_have_no_gradients(make_plan: Make, make_facts: Callable[..., Facts]) -> None:
    facts = make_facts(trainable_parameters=400)
    memory = estimate_memory(make_plan(facts=facts, **ONE), Candidate("single", {}))
    assert (memory.parameters, memory.gradients, memory.optimizer) == (16_000, 1_600, 3_200)
    assert least_memory(facts) == 20_800


def test_accumulation_cuts_what_is_kept(make_plan: Make) -> None:
    memory = estimate_memory(make_plan(accumulation=4, **ONE), Candidate("single", {}))
    assert memory.activations == 2 * 4_010


@pytest.mark.parametrize("stages", [1, 2, 3, 5, 12])
def test_a_chain_is_cut_into_as_many_groups_of_neighbours(
    make_plan: Make, make_facts: Callable[..., Facts], stages: int
) -> None:
    groups = split(make_plan(facts=make_facts(num_layers=12)), stages)
    assert [layer.name for group in groups for layer in group] == [str(i) for i in range(12)]
    assert len(groups) == stages and all(groups)
    assert max(map(len, groups)) == -(-12 // stages)  # equal layers: as even as can be


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("trained", ["1001000110", "0001111000", "1111000000", "0000001111", "0101010101"])
def test_every_stage_has_something_to_train(
    make_plan: Make, make_facts: Callable[..., Facts], trained: str, stages: int
) -> None:
    layers = tuple(
        replace(layer, parameters=layer.parameters * int(has), full=Bytes(activations=1_000 * (1 + 50 * (has == "0"))))
        for layer, has in zip(make_facts(num_layers=10).layers, trained, strict=True)
    )
    facts = make_facts(num_layers=10, layers=layers)
    groups = split(make_plan(facts=facts), stages)
    assert [layer for group in groups for layer in group] == list(layers)
    assert len(groups) == stages and all(any(layer.parameters for layer in group) for group in groups)


def test_the_rest_of_the_activations_is_that_of_the_loss(make_plan: Make, make_facts: Callable[..., Facts]) -> None:
    facts = make_facts(loss=Layer(name="loss", full=Bytes(activations=700), half=Bytes()))
    found = parts(make_plan(facts=facts, processes=4), Candidate("pp", {"stage": 4}, 8))
    assert [part.activations for part in found] == [1_000, 1_000, 1_000, 1_700]


def test_outputs_and_loss_are_divided_where_the_loss_is(make_plan: Make, make_facts: Callable[..., Facts]) -> None:
    """Layers keep 4,000 bytes a sample, the loss 800 and twice its 800 of outputs."""
    loss = Layer(name="loss", full=Bytes(activations=800, outputs=800), half=Bytes())
    whole, parted = (
        estimate_memory(
            make_plan(facts=make_facts(loss=loss, has_loss_parts=has), global_batch=1, processes=4),
            Candidate("cp", {"replicate": 1, "context": 4}),
        )
        for has in (False, True)
    )
    assert (whole.activations, whole.working) == (1_000 + 800 + 10, 2 * 800)
    assert (parted.activations, parted.working) == (1_000 + 200 + 10, 2 * 200)
    tensor = estimate_memory(make_plan(facts=make_facts(loss=loss), global_batch=1), Candidate("tp", {"tensor": 8}))
    assert tensor.activations == round(4_000 * (10 + 24 / 8) / 34 + 800) + 10
