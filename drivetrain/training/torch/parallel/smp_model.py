"""A model of transformers that SageMaker's model parallel library (SMP v2) has put one of its own in the place of.

    model = torch.sagemaker.transform(model, load_state_dict_from_rank0=True)

It is documented what `transform` takes, and that a full checkpoint has transformers' names again
(https://docs.aws.amazon.com/sagemaker/latest/dg/model-parallel-core-features-v2-checkpoints.html). It is not documented
which parameters a rank has a part of, whether outputs are whole, and which positions of a sequence a rank works on. So
`Probe` compares outputs, gradient and weights with those of the model before it, and refuses a library that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.base.errors import InputError
from drivetrain.training import trees
from drivetrain.training.group.gloo import group_timeout
from drivetrain.training.input_pipeline.pretrained_tokenizer import IGNORED
from drivetrain.training.layout import Layout
from drivetrain.training.recipe import HasLossWeights, Recipe

# Types of transformers' models, as in the documentation of each feature.
SPLIT_BY_TENSOR = ("gpt_neox", "llama", "mistral", "mixtral")
SPLIT_BY_CONTEXT = ("gpt_neox", "llama", "mistral")
INPUTS = ("input_ids", "attention_mask")
# Transformer Engine's mark of a parameter that a rank has a part of; SMP makes its models of its layers.
IS_PART = "tensor_model_parallel"


def refuse_model(model: nn.Module, recipe: Recipe, degrees: Mapping[str, int]) -> None:
    """
    Raises:
        InputError: a model, or a recipe, that SMP cannot split into these degrees.
    """
    config: Any = getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    for name, types, instead in (
        ("tensor", SPLIT_BY_TENSOR, "fsdp_tp or tp"),
        ("context", SPLIT_BY_CONTEXT, "cp, or fsdp with activation_checkpointing"),
    ):
        degree = degrees[name]
        if degree == 1:
            continue
        asked = f"strategy 'smp': {name} {degree}"
        if kind not in types or not type(model).__name__.endswith("ForCausalLM"):
            raise InputError(
                f"{asked}, and the recipe's model is a {type(model).__name__}. SMP splits causal language models of "
                f"transformers of the types {', '.join(types)}, whole (without LoRA). Use one by recipe 'huggingface' "
                f'with {{"head": "causal_lm"}}; or strategy {instead}.'
            )
        if getattr(recipe, "packed", False) or getattr(recipe, "loss_chunk", 0):
            raise InputError(
                f"{asked}, with packed or loss_chunk of the recipe, which SMP's models do not know. Leave them out; or "
                "use strategy fsdp."
            )
        if not isinstance(recipe, HasLossWeights):
            raise InputError(
                f"{asked}, and the recipe has no loss_weights(): the losses of parts of a text cannot be added up. "
                "Use recipe 'huggingface'; or strategy fsdp."
            )
    heads = {name: getattr(config, name, None) for name in ("num_attention_heads", "num_key_value_heads")}
    for name, count in heads.items():
        if count is not None and count % degrees["tensor"]:
            raise InputError(
                f"strategy 'smp': tensor {degrees['tensor']} does not divide the model's {name}={count}. Choose a "
                "degree that divides it; or use strategy hsdp."
            )


def transformed(library: Any, model: nn.Module) -> nn.Module:
    """SMP's model in the place of `model`, with its weights on the ranks that share rank 0's matrices; FSDP's
    `sync_module_states` brings them to the others. It is called with a dict of inputs, and gives the logits."""
    made: nn.Module = library.transform(model, load_state_dict_from_rank0=True)
    made.forward = partial(_logits, made.forward)
    return made


def _logits(forward: Callable[..., Any], inputs: Mapping[str, Tensor]) -> Tensor:
    return forward(**inputs)["logits"]


class Sequences:
    """Each rank's part of every text: all of it, or with several ranks two of twice as many chunks (rank r of n
    has chunks r and 2n-1-r, as in the batches of AWS's sagemaker-hyperpod-training-adapter-for-nemo).

    Texts end with what is filled up, so that no token sees it: SMP's models take no mask.
    """

    def __init__(self, layout: Layout) -> None:
        self.size, self.rank = layout.degrees["context"], layout.coordinates["context"]
        self.group: dist.ProcessGroup | None = None
        if self.size > 1:
            for ranks in layout.groups("context"):
                made = dist.new_group(ranks, timeout=group_timeout())
                if layout.process.rank in ranks:
                    assert isinstance(made, dist.ProcessGroup)
                    self.group = made

    def part(self, inputs: trees.Tree) -> dict[str, Tensor]:
        """This rank's positions of the tokens.

        Raises:
            InputError: inputs that SMP's models do not take.
        """
        if not isinstance(inputs, dict) or not set(inputs) <= set(INPUTS):
            raise InputError(
                f"strategy 'smp' with tensor or context takes the inputs {', '.join(INPUTS)}, and the recipe gives "
                f"{trees.described(inputs):.200}. Use recipe 'huggingface'; or strategy fsdp."
            )
        return {"input_ids": self._own(inputs["input_ids"], 0)}

    def part_of_targets(self, targets: Tensor) -> Tensor:
        return self._own(targets, IGNORED)

    def whole(self, outputs: Tensor, length: int) -> Tensor:
        """Outputs of all positions, [samples, length, ...]; without their gradients."""
        if self.size == 1:
            return outputs
        parts = [torch.empty_like(outputs, memory_format=torch.contiguous_format) for _ in range(self.size)]
        dist.all_gather(parts, outputs.detach().contiguous(), group=self.group)
        heads, tails = zip(*(part.chunk(2, dim=1) for part in parts), strict=True)
        return torch.cat([*heads, *reversed(tails)], dim=1)[:, :length]

    def _own(self, given: Tensor, filled_with: int) -> Tensor:
        """This rank's positions of [samples, positions], after as many have been filled up as all ranks share."""
        if self.size == 1:
            return given
        missing = -given.shape[1] % (2 * self.size)
        chunks = functional.pad(given, (0, missing), value=filled_with).chunk(2 * self.size, dim=1)
        return torch.cat((chunks[self.rank], chunks[-1 - self.rank]), dim=1)


class Probe:
    """Two short texts, what the model gave for them before it was transformed, and its weights.

    Args:
        call: the model; takes a dict of inputs, gives logits [2, positions, vocabulary].
    """

    def __init__(self, model: nn.Module, layout: Layout, call: Callable[[Any], Tensor]) -> None:
        config: Any = model.config
        length = 4 * layout.degrees["context"]
        device = layout.process.device
        self.tokens = (torch.arange(2 * length, device=device) * 7 % config.vocab_size).view(2, length)
        self.targets = (self.tokens * 3 + 1) % config.vocab_size
        self.weights = {name: each.detach().cpu().clone() for name, each in model.state_dict().items()}
        self.logits, self.norm = self._pass(model, call)

    def _pass(self, model: nn.Module, call: Callable[[Any], Tensor]) -> tuple[Tensor, float]:
        is_training = model.training
        model.eval()
        logits = call({"input_ids": self.tokens})
        self.loss(logits, self.targets).backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
        model.zero_grad(set_to_none=True)
        model.train(is_training)
        return logits.detach(), norm

    @staticmethod
    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum")

    def compare(self, logits: Tensor, norm: float, weights: Mapping[str, Tensor], tolerance: float) -> None:
        """Every rank must call it.

        Args:
            logits: of the transformed model, whole.
            norm: of its gradient of `loss`.
            weights: its full checkpoint, on rank 0; others have none.
            tolerance: of outputs and norm, relative to the greatest.

        Raises:
            InputError: something differs, on all ranks.
        """
        found = {
            "outputs": logits.shape == self.logits.shape
            and float((logits - self.logits).abs().max()) <= tolerance * float(self.logits.abs().max()),
            "gradient": abs(norm - self.norm) <= tolerance * self.norm,
            "full checkpoint": dist.get_rank() != 0
            or all(name in weights and torch.equal(weights[name].cpu(), each) for name, each in self.weights.items()),
        }
        wrong = torch.tensor([not same for same in found.values()], dtype=torch.int32, device=logits.device)
        dist.all_reduce(wrong, op=dist.ReduceOp.MAX)
        if names := [name for name, is_wrong in zip(found, wrong.tolist(), strict=True) if is_wrong]:
            raise InputError(
                f"strategy 'smp': the model that torch.sagemaker.transform made differs from the recipe's in "
                f"{', '.join(names)} (norm of a gradient {norm:.6g}, before {self.norm:.6g}), so what it would learn "
                "cannot be vouched for. Use strategy fsdp_tp or cp; or a script of your own by train_script."
            )
