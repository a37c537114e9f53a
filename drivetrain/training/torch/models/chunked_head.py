"""A language model's losses some tokens at a time: the logits of a batch are never there together.

With a vocabulary of 128,000 the logits of 4 texts of 4,096 tokens take 8 GB in fp32, and their gradient as much again.
Here the last layer computes some tokens, keeps of each its loss and its likeliest follower, and computes the logits
anew in the backward pass (T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016). It stays one call of
one layer, so whatever strategy holds that layer's weights has them there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.pretrained_tokenizer import IGNORED

LABELS = "labels"
# Of each token, in the last dimension of what the model gives.
LOSS, LIKELIEST = 0, 1
_CLOSE = 1e-3


def in_chunks(model: nn.Module, tokens: int, owner: str) -> nn.Module:
    """Let a model of transformers, called with a dict of its inputs, give [samples, tokens, 2] instead of logits.

    Args:
        model: as taking_trees made it.
        tokens: so many are computed at a time.
        owner: for messages.

    Raises:
        InputError: the model changes its logits after its last layer, or has none.
    """
    inner: Any = model.get_base_model() if hasattr(model, "get_base_model") else model  # pyright: ignore[reportCallIssue]
    head = inner.get_output_embeddings()
    probe = {"input_ids": torch.tensor([[0, 1, 0, 1]])}
    is_training = model.training
    model.eval()
    with torch.no_grad():
        logits = model(probe)
        if not isinstance(head, nn.Module):
            raise InputError(f"{owner}: loss_chunk={tokens}, and the model has no last layer of its own. Leave it out.")
        head.forward = partial(_computed, head, head.forward, tokens)
        model.forward = partial(_told, model.forward, head)
        found = model({**probe, LABELS: torch.tensor([[1, 0, 1, IGNORED]])})
    model.train(is_training)
    wanted = functional.cross_entropy(logits[0, :3], torch.tensor([1, 0, 1]), reduction="none")
    if found.shape[-1] != 2 or (found[0, :3, LOSS] - wanted).abs().max() > _CLOSE:
        raise InputError(
            f"{owner}: loss_chunk={tokens}, and models of type {getattr(inner.config, 'model_type', '')} change their "
            "logits after the last layer. Leave loss_chunk out."
        )
    return model


def _told(forward: Callable[..., Tensor], head: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """The last layer needs the answers; they stay there, for a backward pass that computes layers anew."""
    head.answers = inputs.get(LABELS)
    return forward({name: each for name, each in inputs.items() if name != LABELS})


def _computed(head: Any, plain: Callable[[Tensor], Tensor], tokens: int, hidden: Tensor) -> Tensor:
    flat = hidden.flatten(0, 1)
    answers = flat.new_full((len(flat),), IGNORED, dtype=torch.long) if head.answers is None else head.answers.flatten()
    piece = partial(_piece, plain)
    if torch.is_grad_enabled():
        piece = partial(checkpoint, piece, use_reentrant=False, preserve_rng_state=False)
    parts = [piece(flat[at : at + tokens], answers[at : at + tokens]) for at in range(0, len(flat), tokens)]
    return torch.cat(parts).view(*hidden.shape[:2], 2)


def _piece(plain: Callable[[Tensor], Tensor], hidden: Tensor, answers: Tensor) -> Tensor:
    logits = plain(hidden)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    losses = functional.cross_entropy(logits, answers, reduction="none", ignore_index=IGNORED)
    return torch.stack([losses, logits.detach().argmax(-1).to(losses.dtype)], dim=-1)
