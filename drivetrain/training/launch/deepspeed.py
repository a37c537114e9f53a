"""What DeepSpeed must not do as it starts."""

from __future__ import annotations

from typing import Any

from drivetrain.base.errors import InputError


def without_kernels() -> None:
    """Let DeepSpeed use none of its optional kernels: to find out which could be compiled starts a compiler for each;
    the first use of one takes minutes, and a process that is killed meanwhile leaves a lock behind that later ones wait
    for."""
    import deepspeed

    deepspeed.ops.__dict__["__compatible_ops__"] = {}


def with_torch_adam() -> None:
    """Let the Adam of a ds_config be torch's, whose numbers are the same, where DeepSpeed would compile its own."""
    from deepspeed import DeepSpeedEngine

    given = DeepSpeedEngine.optimizer_params

    def params(self: DeepSpeedEngine) -> Any:
        params = {name: value for name, value in (given(self) or {}).items() if name != "set_grad_none"}
        # torch's always corrects its bias, and knows no option for it.
        if str(self.optimizer_name()).lower() not in ("adam", "adamw") or not params.pop("bias_correction", True):
            return given(self)
        return {**params, "torch_adam": True}

    DeepSpeedEngine.optimizer_params = params


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
