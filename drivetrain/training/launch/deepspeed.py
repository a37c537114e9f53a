"""Keep DeepSpeed from side effects at its start."""

from __future__ import annotations

from typing import Any, NoReturn

from drivetrain.base.errors import InputError


def without_kernels() -> None:
    """Let DeepSpeed use none of its optional kernels: to find out which could be compiled starts a compiler for each;
    the first use of one takes minutes, and a process that is killed meanwhile leaves a lock behind that later ones wait
    for."""
    import deepspeed

    deepspeed.ops.__dict__["__compatible_ops__"] = {}


def compile_nothing() -> None:
    """Let the optimizers of DeepSpeed compute with torch, and refuse what else it would compile."""
    without_kernels()
    from deepspeed.ops.op_builder.builder import OpBuilder
    from deepspeed.ops.op_builder.cpu import NotImplementedBuilder

    def load(self: OpBuilder, verbose: bool = True) -> Any:
        from drivetrain.training.torch.deepspeed_kernels import kernels

        if (found := kernels(self.name)) is None:
            raise InputError(
                f"DeepSpeed would compile {self.name} for minutes, and without a GPU nothing is compiled under "
                "launcher=deepspeed. Leave out what needs it in the ds_config (such as offloading to nvme); or start "
                "the script with launcher=python."
            )
        return found

    def refuse(self: NotImplementedBuilder, verbose: bool = True) -> NoReturn:
        raise InputError(
            "DeepSpeed has this optimizer (such as Lamb, or Lion without offload_optimizer) for GPUs only. Without a "
            "GPU take Adam, AdamW or another of torch.optim, or Lion with offload_optimizer in the ds_config."
        )

    OpBuilder.jit_load = load
    NotImplementedBuilder.load = refuse


def refuse_pipeline_module(model: object) -> None:
    """
    Raises:
        InputError: a model for DeepSpeed's pipeline engine, which takes loop and data into its own hands.
    """
    import deepspeed

    if isinstance(model, deepspeed.PipelineModule):
        raise InputError(
            "strategy 'deepspeed': the recipe's model is a PipelineModule, for an engine that has a loop of its own. "
            "Give a plain module with strategy deepspeed_pp, pp, pp_ddp or tp_pp_fsdp; or the script as it is, by "
            "train_script with launcher=deepspeed."
        )
