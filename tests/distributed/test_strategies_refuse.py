"""What a strategy cannot do is refused before anything is built, on every rank, with what to use instead."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.training.process import Process
from tests.distributed.strategy_runs import ALL, Run
from tests.distributed.strategy_training import Setting, build, fit


def refused(process: Process, run: Run, setting: Setting) -> None:
    build(process, run, setting)


@pytest.mark.parametrize(
    ("run", "setting", "message"),
    [
        (Run("single", 2), Setting(), "strategy 'single' is for one process, but 2 were started.*Use strategy 'ddp'"),
        (Run("dp", 2), Setting(), "strategy 'dp' is one process for all GPUs of a host, but 2.*Use strategy 'ddp'"),
        (Run("dp", 1), Setting(), "this machine has none.*Use strategy 'single'"),
        (
            Run("ddp", 2),
            Setting(common={"sync_batchnorm": True}),
            "sync_batchnorm=True needs GPUs: torch's SyncBatchNorm has no CPU kernels.*GroupNorm",
        ),
        (
            Run("fsdp", 2),
            Setting(optimizer="rprop", common={"fused": True}),
            "fused=True, but Rprop of the recipe has no fused kernel.*AdamW, Adam or SGD",
        ),
        *(
            (
                Run(name, 2),
                Setting(optimizer="momentum", common={"fused": True}),
                f"the fused kernel of SGD does not take slices of parameters, as strategy '{name}'.*Leave fused off",
            )
            for name in ("fsdp", "tp")
        ),
        (
            Run("hsdp", 4, {"shard": 3}),
            Setting(),
            "shard 3 needs a multiple of 3 processes, but there are 4 processes. Change strategy_options",
        ),
        (
            Run("hsdp", 2, {"shard": 2, "replicate": 2}),
            Setting(),
            "replicate 2 x shard 2 needs 4 processes, but there are 2",
        ),
        (Run("fsdp", 1, {"prefetch": -1}), Setting(), "prefetch=-1; allowed are whole numbers from 0"),
        (Run("ddp", 1, {"bucket_mb": 0}), Setting(), "bucket_mb=0; allowed are numbers from 0.000001"),
        (
            Run("ddp", 1, {"bucket_mb": 1e300}),
            Setting(),
            "bucket_mb=1e\\+300; allowed are numbers from 0.000001 to 1000000",
        ),
        (Run("pp", 1, {"split": [1]}), Setting(), r"split=\[1\]; allowed is a list of texts"),
        (
            Run("ddp", 1, {"communication_hook": "fp8"}),
            Setting(),
            "communication_hook='fp8'; allowed are none, fp16, bf16",
        ),
        (
            Run("ddp", 1, {"static_graph": True, "find_unused_parameters": True}),
            Setting(),
            "static_graph and find_unused_parameters contradict each other",
        ),
        (Run("ddp", 1, {"bucket_size": 1}), Setting(), "strategy 'ddp' has no option 'bucket_size'. Did you mean"),
        (Run("fsdp", 1, {"cpu_offload": 1}), Setting(), "strategy 'fsdp': cpu_offload=1; allowed is true or false"),
    ],
    ids=lambda value: value.id if isinstance(value, Run) else "",
)
def test_unsupported_models_are_refused(run: Run, setting: Setting, message: str, forked: Any) -> None:
    with pytest.raises(AssertionError, match=rf"(?s)errors\.InputError: [^\n]*{message}"):
        forked(run.world_size, refused, run, setting)


@pytest.mark.slow_cases("adafactor")
@pytest.mark.parametrize("optimizer", ["adafactor", "rprop"])
def test_optimizers_that_cannot_step_on_slices(optimizer: str, forked: Any) -> None:
    message = f"{optimizer} of the recipe cannot step on slices of parameters, as strategy 'fsdp'.*'ddp'"
    with pytest.raises(AssertionError, match=rf"(?si)errors\.InputError: [^\n]*{message}"):
        forked(2, fit, Run("fsdp", 2), Setting(optimizer=optimizer, steps=1))
    assert forked(2, fit, Run("ddp", 2), Setting(optimizer=optimizer, steps=1))[0].losses[0] > 0


def test_every_strategy_is_in_the_suite_or_refused_here() -> None:
    from drivetrain.training import plugins

    # test_deepspeed.py, test_horovod.py, test_sagemaker_libraries.py
    elsewhere = {"single", "dp", "deepspeed", "deepspeed_pp", "horovod", "smddp", "smddp_fsdp", "smp"}
    assert {run.strategy for run in ALL} == set(plugins.of_framework("strategies", "torch")) - elsewhere
