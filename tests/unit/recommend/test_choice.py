"""The choice: the simplest strategy that fits, with a reason in plain words."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from drivetrain.base.degrees import World
from drivetrain.base.errors import UserError
from drivetrain.catalog.instances import get_instance
from drivetrain.catalog.strategies import Option, StrategyFacts
from drivetrain.recommend import choice as choice_module
from drivetrain.recommend.choice import candidates, check_fits, options_of, recommend, row
from drivetrain.recommend.facts import Bytes, Facts
from drivetrain.recommend.sizing import Candidate, Sizing

Make = Callable[..., Sizing]
Strategies = Mapping[str, StrategyFacts]
# 32 layers of 200 million parameters: 102 GB of parameters, gradients and state.
LARGE = {"num_layers": 32, "scale": 200_000}


def test_one_process_is_single(make_plan: Make, strategies: Strategies) -> None:
    for instance in ("ml.m5.large", "ml.g5.xlarge", "local"):
        made = recommend(make_plan(instance), strategies)
        assert made.choice is not None and made.choice.strategy == "single"
        assert "the model with its training state fits it" in made.reason


def test_several_are_ddp_while_the_model_fits(make_plan: Make, strategies: Strategies) -> None:
    for plan in (make_plan("ml.m5.xlarge", processes=2), make_plan("ml.g5.12xlarge"), make_plan(hosts=4)):
        made = recommend(plan, strategies)
        assert made.choice is not None and made.choice.strategy == "ddp" and made.options == {}
        assert "only gradients travel" in made.reason


def test_a_large_model_is_sharded(make_plan: Make, make_facts: Callable[..., Facts], strategies: Strategies) -> None:
    facts = make_facts(**LARGE)
    made = recommend(make_plan(facts=facts), strategies)
    assert made.choice is not None and made.choice.strategy == "fsdp" and made.options == {}
    assert made.reason.startswith("fsdp (shard 8): the whole model would need 95.4 GiB a GPU")
    rows = {row.strategy: row for row in made.rows}
    assert not rows["ddp"].fits and rows["ddp"].memory is not None
    several_hosts = recommend(make_plan(facts=facts, hosts=4), strategies)
    assert several_hosts.choice is not None and several_hosts.choice.strategy == "hsdp"
    assert several_hosts.options == {}  # shards that fill a host are what it does by itself


def test_if_nothing_fits_a_fitting_machine_is_named(
    make_plan: Make, make_facts: Callable[..., Facts], strategies: Strategies
) -> None:
    facts = make_facts(**LARGE)
    made = recommend(make_plan("ml.g5.xlarge", facts=facts), strategies)
    assert made.choice is None
    assert made.reason.startswith(
        "nothing fits: the least is single with 95.4 GiB a GPU, and ml.g5.xlarge has 19.0 GiB"
    )
    assert "Take larger or more GPUs" in made.reason


@pytest.mark.parametrize(
    ("activations", "half", "precision", "instance", "advice"),
    [
        (60, 60, "fp32", "ml.p4d.24xlarge", "With activation_checkpointing=true fsdp would fit."),
        (60, 20, "bf16", "ml.p4d.24xlarge", None),
        (
            *(60, 20, "fp32", "ml.p4d.24xlarge"),
            "With precision=bf16 fsdp would fit. With activation_checkpointing=true fsdp would fit.",
        ),
        (60, 20, "fp64", "ml.p4d.24xlarge", "With activation_checkpointing=true fsdp would fit."),
        (
            *(60, 20, "fp32", "ml.p3dn.24xlarge"),  # Volta has no bf16
            "With precision=fp16 fsdp would fit. With activation_checkpointing=true fsdp would fit.",
        ),
    ],
)
def test_what_would_make_it_fit(
    activations: int,
    half: int,
    precision: str,
    instance: str,
    advice: str | None,
    make_plan: Make,
    make_facts: Callable[..., Facts],
    strategies: Strategies,
) -> None:
    """32 layers that keep so many MB a sample, for 16 samples a GPU."""
    facts = make_facts(**LARGE)
    full, in_half = (Bytes(activations=each * 10**6, checkpointed=10**6) for each in (activations, half))
    kept = replace(facts, layers=tuple(replace(layer, full=full, half=in_half) for layer in facts.layers))
    made = recommend(
        make_plan(instance, facts=kept, global_batch=128, precision=precision), {"fsdp": strategies["fsdp"]}
    )
    if advice is None:
        assert made.choice is not None
    else:
        assert made.choice is None and made.reason.endswith(advice)


def test_half_precision_and_checkpointing_together(
    make_plan: Make, make_facts: Callable[..., Facts], strategies: Strategies
) -> None:
    full = Bytes(activations=90 * 10**6, checkpointed=80 * 10**6)
    half = Bytes(activations=60 * 10**6, checkpointed=10**6)
    facts = make_facts(**LARGE)
    facts = replace(facts, layers=tuple(replace(layer, full=full, half=half) for layer in facts.layers))
    made = recommend(make_plan(facts=facts, global_batch=128), {"fsdp": strategies["fsdp"]})
    assert made.reason.endswith("With precision=bf16 and activation_checkpointing=true fsdp would fit.")


def test_impossible_candidates_give_a_reason(
    make_plan: Make, make_facts: Callable[..., Facts], strategies: Strategies
) -> None:
    def notes(plan: Sizing) -> dict[str, str]:
        return {row.strategy: row.note for row in recommend(plan, strategies).rows}

    found = notes(make_plan("ml.g5.12xlarge"))
    assert found["tp"] == "PCIe 4 x16 between the ranks of a host: too slow to wait for in every layer"
    assert found["single"] == "for one process; there are 4"
    found = notes(make_plan(facts=make_facts(is_chain=False, has_tensor_plan=False, has_context_plan=False)))
    assert found["pp"] == found["pp_ddp"] == "the recipe's model is no nn.Sequential"
    assert found["tp"] == "the recipe has no tensor_plan()"
    assert found["cp"] == "the recipe has no context_plan()"
    assert notes(make_plan("ml.g5.xlarge"))["ddp"] == "one process: nothing to share"
    assert "cannot be laid out" in notes(make_plan(hosts=2))["tp"]


def test_pipelines_are_laid_out_in_micro_batches_that_divide(make_plan: Make, strategies: Strategies) -> None:
    plan = make_plan("ml.p3.8xlarge", global_batch=24)
    (found,) = candidates(plan, strategies["pp"])
    assert found.degrees == {"stage": 4} and found.micro_batches == 12  # 16 does not divide 24
    assert list(candidates(make_plan("ml.p4d.24xlarge"), strategies["pp"])) == []  # 8 stages of 4 layers
    assert list(candidates(make_plan("ml.p3.8xlarge", global_batch=2), strategies["pp"])) == []


def test_options_say_the_candidate(strategies: Strategies) -> None:
    eight = World(1, 8)
    made = options_of(Candidate("pp_ddp", {"stage": 4, "replicate": 2}, 16), strategies["pp_ddp"], eight)
    assert made == {"stage": 4, "micro_batches": 16}
    made = options_of(Candidate("fsdp_tp", {"shard": 2, "tensor": 4}), strategies["fsdp_tp"], eight)
    assert made == {"tensor": 4}
    without = replace(strategies["ddp"], options={})
    assert options_of(Candidate("ddp", {"replicate": 8}), without, eight) == {}
    two = replace(strategies["tp"], options={"tensor": Option("tensor", "int", 2, False, "")})
    assert options_of(Candidate("tp", {"tensor": 8}), two, eight) == {"tensor": 8}
    assert options_of(Candidate("tp", {"tensor": 2}), two, World(1, 2)) == {}
    three = Candidate("tp_pp_fsdp", {"stage": 2, "shard": 2, "tensor": 2}, 8)
    made = options_of(three, strategies["tp_pp_fsdp"], eight)
    assert made == {"stage": 2, "tensor": 2, "micro_batches": 8}


def test_a_users_strategy_is_tried_last(make_plan: Make, strategies: Strategies) -> None:
    mine = replace(strategies["fsdp"], name="mine")
    assert recommend(make_plan(), {**strategies, "mine": mine}).rows[-1].strategy == "mine"
    only = recommend(make_plan(), {"mine": mine})
    assert only.choice is not None and only.choice.strategy == "mine"


def test_a_model_too_large_for_the_named_strategy_is_refused(
    make_plan: Make,
    make_facts: Callable[..., Facts],
    strategies: dict[str, StrategyFacts],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice_module, "all_strategies", lambda framework: strategies)
    plan = make_plan(facts=make_facts(**LARGE))
    with pytest.raises(UserError, match=r"needs an estimated 95.4 GiB a GPU, and ml.p4d.24xlarge .*'fsdp' would fit"):
        check_fits(plan, strategies["ddp"], Candidate("ddp", {"replicate": 8}))
    assert check_fits(plan, strategies["fsdp"], Candidate("fsdp", {"shard": 8})).fits


def test_an_impossible_plan_is_refused(make_plan: Make) -> None:
    for fields, message in (
        ({"precision": "fp23"}, "Did you mean 'fp32'"),
        ({"global_batch": 0}, "global_batch=0"),
        ({"processes": 9}, "9 processes, but ml.p4d.24xlarge has 8 GPUs"),
        ({"processes": -1}, "processes=-1"),
        ({"hosts": 10**15}, "no more than 1,000,000"),
    ):
        with pytest.raises(UserError, match=message):
            make_plan(**fields)
    assert make_plan(hosts=2).world.described() == "16 processes (2 hosts x 8)"
    assert make_plan("ml.g5.xlarge").usable_memory == round(get_instance("ml.g5.xlarge").gpu_memory * 0.85)


def test_a_million_hosts_take_no_time(make_plan: Make, strategies: Strategies) -> None:
    started = time.process_time()
    made = recommend(make_plan(hosts=1_000_000, global_batch=10**12), strategies)
    assert made.choice is not None
    assert time.process_time() - started < 1


def test_a_sequence_may_be_split_among_all(make_plan: Make, strategies: Strategies) -> None:
    found = [each.degrees for each in candidates(make_plan(), strategies["cp"])]
    assert found == [
        {"replicate": 2, "context": 4},
        {"replicate": 4, "context": 2},
        {"replicate": 1, "context": 8},
    ]


def test_a_stage_needs_a_layer_with_parameters(
    make_plan: Make, make_facts: Callable[..., Facts], strategies: Strategies
) -> None:
    layers = make_facts(num_layers=12).layers
    facts = make_facts(layers=tuple(replace(each, parameters=i % 3 // 2 * 1_000) for i, each in enumerate(layers)))
    assert facts.most_stages == 4
    assert row(make_plan(facts=facts, processes=4), strategies["pp"]).fits
    assert row(make_plan(facts=facts, processes=8), strategies["pp"]).candidate is None
