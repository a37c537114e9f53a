"""What `recommend` says that a rank sends, against what it does send in a step of the language model."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from drivetrain.catalog.instances import get_instance
from drivetrain.recommend.communication import estimate_traffic
from drivetrain.recommend.facts import new_file
from drivetrain.recommend.sizing import Candidate, Sizing
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.strategy import load_strategy
from drivetrain.training_scripts.profile_recipe import measure
from drivetrain.training_scripts.recipes import decoder_lm
from tests.fixtures.told import told

# The head is as wide as a block, as it is where the vocabulary is large.
MODEL = decoder_lm.Recipe(layers=2, width=16, heads=4, length=8, vocabulary=260)
SAMPLES = 4


class Sent(TorchDispatchMode):
    """Bytes that one of `size` ranks sends, by operation, around a ring."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.bytes = size, Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        functional, c10d, once = torch.ops._c10d_functional, torch.ops.c10d, (self.size - 1) / self.size
        if func is functional.all_reduce.default:
            self.bytes["all-reduce"] += 2 * once * args[0].nbytes
        elif func is c10d.allreduce_.default:
            self.bytes["all-reduce"] += 2 * once * sum(each.nbytes for each in args[0])
        elif func is functional.all_gather_into_tensor.default:
            self.bytes["all-gather"] += (self.size - 1) * args[0].nbytes
        elif func is c10d.allgather_.default:
            self.bytes["all-gather"] += (self.size - 1) * args[1][0].nbytes
        elif func is c10d.reduce_scatter_.default:
            self.bytes["reduce-scatter"] += (self.size - 1) * args[0][0].nbytes
        return func(*args, **(kwargs or {}))


def sent(process: Process, name: str, precision: str) -> float:
    kind, built = load_strategy(name, {})
    strategy = kind(MODEL, MODEL.model(), process, told(learning_rate=1e-3, precision=precision), built)
    given = MODEL.example(SAMPLES)
    batch = Batch(given.inputs, given.targets)
    strategy.train_step(batch, num_samples=SAMPLES, num_global_samples=SAMPLES)  # which looks at losses and their parts
    with Sent(process.world_size) as counted:
        strategy.train_step(batch, num_samples=SAMPLES, num_global_samples=SAMPLES)
    return sum(counted.bytes.values())


@pytest.mark.slow_cases(but=["tp-tensor-bf16"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("name", "dimension"), [("tp", "tensor"), ("cp", "context")])
def test_bytes_sent_are_those_estimated(name: str, dimension: str, precision: str, pooled: Any) -> None:
    facts = new_file(measure(MODEL, "decoder_lm", {})).find({})
    assert facts is not None
    instance = get_instance("ml.p4d.24xlarge")
    plan = Sizing(facts=facts, instance=instance, processes=2, global_batch=SAMPLES, precision=precision)
    (estimated,) = estimate_traffic(plan, Candidate(name, {dimension: 2}))
    for found in pooled(2, sent, name, precision):
        assert found == pytest.approx(estimated.bytes, rel=0.01)  # beside weights and sums of losses
