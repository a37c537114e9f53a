"""Any model of transformers from a local folder, fine-tuned whole or by adapters (LoRA of peft).

    python -m drivetrain.training_scripts.train --train reviews --model build/model --recipe huggingface \\
        --weights bert-base --recipe-options '{"head": "sequence_classification", "num_labels": 2}'

The folder is one that `save_pretrained` wrote: config.json, model.safetensors and a tokenizer; it is the input
`weights` or the option `pretrained`. Nothing is fetched, and no code of the folder is run. What is handed on is such a
folder again, which `from_pretrained` loads.

E. Hu and others, "LoRA: Low-Rank Adaptation of Large Language Models", 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.pretrained_tokenizer import IGNORED, load_tokenizer
from drivetrain.training.pretrained_folder import PretrainedFolder
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch
from drivetrain.training.torch.models import transformers_model
from drivetrain.training.torch.models.chunked_head import LABELS, LIKELIEST, LOSS, in_chunks
from drivetrain.training.torch.models.parameter_groups import decay_matrices
from drivetrain.training.weights_file import ARCHIVE

FRAMEWORK = "torch"
NEEDS = ("peft", "transformers")
NEEDS_FOLDER = True  # no model without one: it is not measured with the options' defaults
OWNER = "recipe 'huggingface'"
MOMENTUM = 0.9


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A text a row (reader `tokenized`). The losses of token classification and of language models are means over the
    tokens that count, and weigh as many as these are: the loss of a step and of an evaluation is the mean over all its
    tokens, however they were dealt.

    Dropout draws from the generator of its rank: the masks of a run on two ranks are others than those of a run on one.
    """

    reader: ClassVar[str] = "tokenized"

    pretrained: str = ""
    """The folder of the pretrained model; empty: the training's input `weights`."""
    head: Literal["sequence_classification", "token_classification", "causal_lm"] = "sequence_classification"
    """The task to learn: sequence_classification, token_classification (texts are lists of words) or causal_lm."""
    num_labels: Annotated[int, Bounds(1)] = 2
    """Labels of a classification; they are 0 to num_labels - 1, or as many names."""
    length: Annotated[int, Bounds(1)] = 256
    """Tokens of a row; longer texts lose their end."""
    packed: bool = False
    """Lay texts end to end instead of filling up each row (causal_lm); no token sees another text."""
    second: str = ""
    """The column of a second text, for pairs."""
    prompt: str = ""
    """The column of prompts: text before each text, which is not learnt (causal_lm)."""
    loss_chunk: Annotated[int, Bounds(0)] = 0
    """Tokens with logits in memory at a time (causal_lm): less memory, computed twice; 0: all of a batch at once."""
    lora_rank: Annotated[int, Bounds(0)] = 0
    """The rank of LoRA's adapters: only they and a classifier are learnt and kept; 0 learns everything."""
    lora_alpha: Annotated[float, Bounds(above=0)] = 16.0
    """Adapters are scaled by lora_alpha / lora_rank."""
    lora_dropout: Annotated[float, Bounds(0, below=1)] = 0.0
    """Share of the adapters' inputs that is dropped while training."""
    lora_targets: tuple[str, ...] = ()
    """Names of the layers that get adapters, such as q_proj; none: those that peft knows for the model."""
    adapter: Literal["merged", "apart"] = "merged"
    """How a model with adapters is handed on: merged into the weights, or apart, with the base model beside it."""
    optimizer_kind: Literal["adamw", "sgd"] = "adamw"
    """adamw, or sgd (with a momentum of 0.9)."""

    def __post_init__(self) -> None:
        if self.loss_chunk and self.head != "causal_lm":
            raise ValueError(f"loss_chunk is for head='causal_lm', not {self.head!r}; leave it out")
        if (self.packed or self.prompt) and self.head != "causal_lm":
            raise ValueError(f"packed and prompt are for head='causal_lm', not {self.head!r}; leave them out")
        if self.second and self.head != "sequence_classification":
            raise ValueError(f"second is for head='sequence_classification', not {self.head!r}; leave it out")
        if self.packed and self.prompt:
            raise ValueError("packed=True lays plain texts end to end; leave prompt out, or packed")
        if not self.lora_rank and (self.lora_targets or self.lora_dropout or self.adapter == "apart"):
            raise ValueError("lora_targets, lora_dropout and adapter='apart' are for LoRA: give lora_rank from 1")

    # What the data has.

    @property
    def reader_options(self) -> Mapping[str, Any]:
        return {
            "tokenizer": str(self.folder.folder),
            "length": self.length,
            "second": self.second,
            "prompt": self.prompt,
            "packed": self.packed,
            "words": self.head == "token_classification",
            "ends": self.head == "causal_lm",
        }

    @property
    def columns(self) -> tuple[str, ...]:
        more = {"types": self.second, "start": self.prompt, "positions": self.packed}
        return ("tokens", "length", *(name for name, is_there in more.items() if is_there))

    @property
    def num_classes(self) -> int | None:
        return self.num_labels if self.head == "sequence_classification" else None

    @property
    def task(self) -> str:
        if self.head != "sequence_classification":
            return "tokens"
        return "binary" if self.num_labels == 2 else "multiclass"

    @property
    def num_outputs(self) -> int:
        return self.num_labels if self.head != "causal_lm" else self.folder.vocabulary

    # The folder (drivetrain.training.recipe.HasFolder).

    @cached_property
    def folder(self) -> PretrainedFolder:
        """The folder, looked at.

        Raises:
            InputError: it is missing, or does not fit the options.
        """
        if not self.pretrained:
            raise InputError(
                f"{OWNER} starts from the folder of a pretrained model. Give it as the training's input weights "
                '(--weights), or as recipe_options {"pretrained": "/a/folder"}.'
            )
        folder = PretrainedFolder(Path(self.pretrained), f"{OWNER}")
        folder.check(self.head, self.length, self.lora_targets if self.lora_rank else ())
        return folder

    def files(self) -> Sequence[Path]:
        return self.folder.files

    def started_from(self, folder: Path) -> Recipe:
        if self.pretrained and Path(self.pretrained) != folder:
            raise InputError(
                f"{OWNER}: pretrained={self.pretrained!r} in recipe_options, and the input weights is {folder}. Give "
                "one of them."
            )
        archive = folder / ARCHIVE
        if archive.is_file() and not PretrainedFolder.is_in(folder):  # as a platform hands on a training's model
            folder = transformers_model.unpacked(archive)
        started = replace(self, pretrained=str(folder))
        assert started.folder
        return started

    def in_model_folder(self, folder: Path) -> Recipe:
        if self.lora_rank and self.adapter == "apart":
            return replace(self, pretrained=str(folder / transformers_model.BASE))
        if PretrainedFolder.is_in(folder) or not self.pretrained:
            return replace(self, pretrained=str(folder), lora_rank=0, lora_targets=(), lora_dropout=0.0)
        return self  # the weights of a checkpoint, exported: all else is where it was

    def is_kept(self, name: str) -> bool:
        return not self.lora_rank or transformers_model.is_adapter(name)

    def handed_on(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        if not self.lora_rank or self.adapter == "apart":
            return tensors
        return transformers_model.merged(self._built(), tensors)

    def save_beside(self, folder: Path, tensors: Mapping[str, Tensor]) -> None:
        if self.lora_rank and self.adapter == "apart":
            transformers_model.save_apart(folder, self.folder, self._built(), tensors)
        else:
            transformers_model.save_description(folder, self.folder, self.head, self.num_labels)

    # The model.

    def _built(self, *, empty: bool = False) -> nn.Module:
        """As transformers, or peft, has it; `empty`: without numbers."""
        of = (self.folder, self.head, self.num_labels)
        built, fresh = (transformers_model.empty(*of), []) if empty else transformers_model.load(*of)
        if not self.lora_rank:
            return built
        return transformers_model.with_adapters(
            built,
            self.head,
            fresh=fresh,
            rank=self.lora_rank,
            alpha=self.lora_alpha,
            dropout=self.lora_dropout,
            targets=self.lora_targets,
        )

    def model(self) -> nn.Module:
        made = transformers_model.taking_trees(self._built())
        if self.packed:
            transformers_model.check_packing(made, OWNER, self.folder.model_type)
        return in_chunks(made, self.loss_chunk, OWNER) if self.loss_chunk else made

    def tensor_plan(self) -> dict[str, str]:
        if self.loss_chunk:
            raise InputError(
                f"{OWNER}: loss_chunk={self.loss_chunk} needs the last layer whole, and tensor parallelism splits it. "
                "Leave loss_chunk out; or use strategy 'fsdp'."
            )
        with torch.device("meta"):
            return transformers_model.tensor_plan(self._built(empty=True), OWNER)

    # Batches, losses, metrics.

    def batch(self, columns: Columns, label: str) -> Batch:
        lengths = columns["length"]
        is_unlabelled = "" in columns
        # Padding that all rows share is cut off; but not for predictions, since answers have one size.
        width = columns["tokens"].shape[1] if is_unlabelled else max(1, int(lengths.max(initial=1)))
        tokens = np.ascontiguousarray(columns["tokens"][:, :width]).astype(np.int64, copy=False)
        is_there = np.arange(width) < lengths[:, np.newaxis]
        inputs = {"input_ids": tokens}
        if self.packed:
            inputs["position_ids"] = columns["positions"][:, :width].astype(np.int64)
        else:
            inputs["attention_mask"] = is_there.astype(np.int64)
        if self.second and self.folder.has_types:
            inputs["token_type_ids"] = columns["types"][:, :width].astype(np.int64)
        if self.head == "causal_lm":
            targets = self._following(tokens, is_there, columns)
        elif self.head == "token_classification":
            targets = np.full(tokens.shape, IGNORED) if is_unlabelled else columns[label][:, :width].astype(np.int64)
        else:
            targets = columns[label].astype(np.int64)
        if self.loss_chunk and not is_unlabelled:
            inputs[LABELS] = targets
        return Batch({name: torch.from_numpy(each.copy()) for name, each in inputs.items()}, torch.from_numpy(targets))

    def _following(self, tokens: np.ndarray, is_there: np.ndarray, columns: Columns) -> np.ndarray:
        """For each token the following one, if that is in the same text and not in its prompt."""
        counts = is_there[:, 1:].copy()
        if self.packed:
            counts &= columns["positions"][:, 1 : tokens.shape[1]] > 0
        if self.prompt:
            counts &= np.arange(1, tokens.shape[1]) >= columns["start"][:, np.newaxis]
        targets = np.full(tokens.shape, IGNORED, dtype=np.int64)
        targets[:, :-1] = np.where(counts, tokens[:, 1:], IGNORED)
        return targets

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.head == "sequence_classification":
            return functional.cross_entropy(outputs, targets, reduction="none")
        if self.loss_chunk:  # 0 where a token does not count
            return outputs[..., LOSS].sum(dim=1) / _counted(targets).clamp(min=1)
        flat = functional.cross_entropy(
            outputs.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=IGNORED
        )
        return flat.view_as(targets).sum(dim=1) / _counted(targets).clamp(min=1)

    def loss_weights(self, targets: Tensor) -> Tensor:
        if self.head == "sequence_classification":
            return torch.ones_like(targets, dtype=torch.float64)
        return _counted(targets)

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        found = self._likeliest(outputs)
        if self.head == "sequence_classification":
            return {"accuracy": found == targets}
        return {"exact_match": ((found == targets) | (targets == IGNORED)).all(dim=1)}

    @property
    def higher_is_better(self) -> Mapping[str, bool]:
        return {"accuracy" if self.head == "sequence_classification" else "exact_match": True}

    @property
    def predicted(self) -> Callable[[Tensor], Tensor] | None:
        """The likeliest label of each token, or token that follows."""
        return None if self.head == "sequence_classification" else self._likeliest

    @property
    def texts(self) -> Callable[[Tensor, Tensor], tuple[list[str], list[str]]] | None:
        """The predicted and the right text of the tokens that count (a language model); each token is predicted with
        the right ones before it."""
        return self._texts if self.head == "causal_lm" else None

    def _texts(self, outputs: Tensor, targets: Tensor) -> tuple[list[str], list[str]]:
        counts = (targets != IGNORED).cpu()
        said, right = (
            self._tokenizer.batch_decode(
                [row[kept].tolist() for row, kept in zip(tokens.cpu(), counts, strict=True)], skip_special_tokens=True
            )
            for tokens in (self._likeliest(outputs), targets)
        )
        return said, right

    def _likeliest(self, outputs: Tensor) -> Tensor:
        return outputs[..., LIKELIEST].long() if self.loss_chunk else outputs.argmax(dim=-1)

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self.folder.folder)

    def optimizer(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> torch.optim.Optimizer:
        groups = decay_matrices(model, weight_decay)
        if self.optimizer_kind == "sgd":
            return torch.optim.SGD(groups, lr=learning_rate, momentum=MOMENTUM)
        return torch.optim.AdamW(groups, lr=learning_rate)


def _counted(targets: Tensor) -> Tensor:
    """How many tokens of each sample count, [samples]."""
    return (targets != IGNORED).sum(dim=1)
