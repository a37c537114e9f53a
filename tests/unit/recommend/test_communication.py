"""Bytes and times against sums done by hand: 4 layers of 1,000 parameters of 4 bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from drivetrain.recommend.communication import bubble, estimate_traffic
from drivetrain.recommend.facts import Facts
from drivetrain.recommend.sizing import Candidate, Sizing

Make = Callable[..., Sizing]


def test_one_process_sends_nothing(make_plan: Make) -> None:
    assert estimate_traffic(make_plan(processes=1), Candidate("single", {})) == []


def test_a_ring_of_replicas_inside_a_host(make_plan: Make) -> None:
    (sent,) = estimate_traffic(make_plan(), Candidate("ddp", {"replicate": 8}))
    assert sent.bytes == 2 * 16_000 * 7 // 8
    assert sent.seconds == pytest.approx(sent.bytes / 300e9)
    assert not sent.between_hosts


def test_a_ring_across_hosts_has_the_network(make_plan: Make) -> None:
    (sent,) = estimate_traffic(make_plan(hosts=2), Candidate("ddp", {"replicate": 16}))
    assert sent.bytes == 2 * 16_000 * 15 // 16
    assert sent.seconds == pytest.approx(sent.bytes / 50e9)  # 400 Gbit/s
    assert sent.between_hosts


def test_shards_send_half_as_much_again(make_plan: Make) -> None:
    (replicas,) = estimate_traffic(make_plan(), Candidate("ddp", {"replicate": 8}))
    (shards,) = estimate_traffic(make_plan(), Candidate("fsdp", {"shard": 8}))
    assert shards.bytes == replicas.bytes * 3 // 2
    (kept,) = estimate_traffic(make_plan(), Candidate("fsdp", {"shard": 8}, 1, {"reshard_after_forward": False}))
    assert kept.bytes == replicas.bytes


def test_half_precision_is_cast_before_it_travels(make_plan: Make, make_facts: Callable[..., Facts]) -> None:
    """6.7 billion parameters on 16 ranks: 13.4 GB gathered twice, and 26.8 GB of gradients in fp32."""
    facts = make_facts(num_layers=32, scale=209_375)
    plan = make_plan(facts=facts, hosts=2, precision="bf16")
    (sent,) = estimate_traffic(plan, Candidate("fsdp", {"shard": 16}))
    assert sent.bytes == 15 * (2 * 13_400_000_000 + 26_800_000_000) // 16
    (kept,) = estimate_traffic(plan, Candidate("fsdp", {"shard": 16}, 1, {"reshard_after_forward": False}))
    assert kept.bytes == 15 * (13_400_000_000 + 26_800_000_000) // 16


def test_stages_gather_once_for_all_micro_batches(make_plan: Make) -> None:
    candidate = Candidate("tp_pp_fsdp", {"stage": 2, "shard": 2, "tensor": 2}, 8)
    sent = {each.dimension: each for each in estimate_traffic(make_plan(), candidate)}
    assert sent["shard"].bytes == 2 * 8_000 * (0.9 / 2 + 0.1) / 2  # of a stage's two layers, half of it travels


def test_hybrid_shards_share_the_network(make_plan: Make) -> None:
    across, inside = estimate_traffic(make_plan(hosts=2), Candidate("hsdp", {"replicate": 2, "shard": 8}))
    assert (across.dimension, inside.dimension) == ("replicate", "shard")
    assert across.bytes == 2 * 16_000 // 8 // 2
    assert across.seconds == pytest.approx(across.bytes / (50e9 / 8))
    assert not inside.between_hosts


def test_tensor_ranks_send_what_the_plan_exchanges(make_plan: Make) -> None:
    (sent,) = estimate_traffic(make_plan(global_batch=8), Candidate("tp", {"tensor": 4}))
    assert sent.bytes == 3 / 4 * 4 * 8 * (2 * 600 + 40)
    (half,) = estimate_traffic(make_plan(global_batch=8, precision="bf16"), Candidate("tp", {"tensor": 4}))
    assert half.bytes == sent.bytes // 2


def test_stages_send_what_leaves_them_both_ways(make_plan: Make) -> None:
    (sent,) = estimate_traffic(make_plan(global_batch=8, processes=4), Candidate("pp", {"stage": 4}, 8))
    assert sent.bytes == 2 * 100 * 8


def test_context_ranks_gather_keys_and_values(make_plan: Make) -> None:
    plan = make_plan(global_batch=8, processes=4)
    (sent,) = estimate_traffic(plan, Candidate("cp", {"context": 4}))
    assert sent.bytes == 3 / 4 * (8 * (2 * 4 * 200 + 100) + 2 * 16_000)
    plan = replace(plan, facts=replace(plan.facts, has_loss_parts=True), activation_checkpointing=True)
    (sent,) = estimate_traffic(plan, Candidate("cp", {"context": 4}))
    assert sent.bytes == 3 / 4 * (8 * 3 * 4 * 200 + 2 * 16_000)


def test_frozen_parameters_do_not_travel_in_gradients(make_plan: Make, make_facts: Callable[..., Facts]) -> None:
    (sent,) = estimate_traffic(make_plan(facts=make_facts(trainable_parameters=0)), Candidate("ddp", {"replicate": 8}))
    assert sent.bytes == 0


def test_the_bubble_shrinks_with_micro_batches_and_stages_a_rank() -> None:
    assert bubble(Candidate("single", {})) == 0
    assert bubble(Candidate("pp", {"stage": 4}, 12)) == pytest.approx(3 / 15)
    assert bubble(Candidate("pp", {"stage": 4}, 12, {"schedule": "interleaved"})) == pytest.approx(3 / 27)
