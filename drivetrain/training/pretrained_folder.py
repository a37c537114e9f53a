"""Read a folder of transformers' without importing the library: the model's configuration, the names of its
weights, whether there is a tokenizer.

    config.json                                   what the model is
    model.safetensors (or its parts and an index) the weights
    tokenizer.json, tokenizer_config.json, ...    how texts become tokens

Compiling a pipeline asks here, and the training itself before anything is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name

CONFIG = "config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
# One of them makes a tokenizer: the fast form, or what it is made of.
VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
TOKENIZER_FILES = (
    *VOCABULARIES,
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt", "chat_template.jinja"),
)
_POSITIONS = ("max_position_embeddings", "n_positions", "max_sequence_length")
# Their positions begin behind that of the padding token.
_OFFSET_TYPES = ("roberta", "xlm-roberta", "camembert", "roberta-prelayernorm", "xlm-roberta-xl", "data2vec-text")
_HEADER_BYTES = 100 << 20
_SHOWN = 8


def refuse_without_tokenizer(folder: Path, owner: str) -> None:
    """
    Raises:
        InputError: no tokenizer lies there.
    """
    if not any((folder / name).is_file() for name in VOCABULARIES):
        raise InputError(
            f"{owner}: {folder} has no tokenizer ({', '.join(VOCABULARIES[:3])}, ...). Write the model's tokenizer "
            "there with save_pretrained."
        )


class PretrainedFolder:
    """A folder that was looked at.

    Raises:
        InputError: no folder, no configuration, no weights.
    """

    def __init__(self, folder: Path, owner: str) -> None:
        """`owner`: who needs it and by which field, for messages."""
        self.folder, self.owner = folder, owner
        if not folder.is_dir():
            raise InputError(f"{owner}: {folder} is no folder. Give one that save_pretrained wrote.")
        path = folder / CONFIG
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            self.model_type = str(config["model_type"])
        except FileNotFoundError:
            raise InputError(
                f"{owner}: {folder} has no {CONFIG}. Give a folder that save_pretrained of transformers wrote, or what "
                "a training with adapter='merged' made (adapter='apart' leaves adapters beside the model in base/)."
            ) from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{owner}: {path} does not describe a model ({error!r:.100}).") from None
        self.config: Mapping[str, Any] = config
        if not any((folder / name).is_file() for name in (WEIGHTS, INDEX)):
            raise InputError(
                f"{owner}: {folder} has no {WEIGHTS}. Weights in other formats are not read: load the model with "
                "from_pretrained and write it with save_pretrained."
            )

    @property
    def files(self) -> list[Path]:
        """All that decides the model and its tokens."""
        names = {CONFIG, WEIGHTS, INDEX, *TOKENIZER_FILES}
        parts = {path.name for path in self.folder.glob("model-*-of-*.safetensors")}
        return [self.folder / name for name in sorted(names | parts) if (self.folder / name).is_file()]

    @property
    def positions(self) -> int | None:
        """How many tokens a sequence may have; None for any number."""
        found = next((self.config[name] for name in _POSITIONS if isinstance(self.config.get(name), int)), None)
        if found is not None and self.model_type in _OFFSET_TYPES:
            return found - 1 - int(self.config.get("pad_token_id") or 0)
        return found

    @staticmethod
    def is_in(folder: Path) -> bool:
        return (folder / CONFIG).is_file()

    @property
    def vocabulary(self) -> int:
        """How many different tokens there are."""
        text = self.config.get("text_config")
        return int(self.config.get("vocab_size") or (text or {}).get("vocab_size") or 0)

    @property
    def has_types(self) -> bool:
        """True if the model tells the second text of a pair from the first by its tokens' types."""
        return int(self.config.get("type_vocab_size") or 0) > 1

    def check(self, head: str, length: int, targets: Sequence[str]) -> None:
        """All that can be known of a recipe's options without loading the model.

        Raises:
            InputError: see the functions below.
        """
        refuse_without_tokenizer(self.folder, self.owner)
        self.check_head(head)
        self.check_length(length)
        if targets:
            self.check_targets(targets)

    def check_length(self, length: int) -> None:
        """
        Raises:
            InputError: more tokens than the model has positions for.
        """
        if self.positions is not None and length > self.positions:
            raise InputError(
                f"{self.owner}: length={length}, and the model ({self.model_type}) has {self.positions} positions. "
                f"Give a length up to {self.positions}, or another model."
            )

    def check_head(self, head: str) -> None:
        """
        Raises:
            InputError: a model that reads a text before it writes another has no causal language model.
        """
        if head == "causal_lm" and self.config.get("is_encoder_decoder"):
            raise InputError(
                f"{self.owner}: head='causal_lm', and {self.model_type} is a model of encoder and decoder. Allowed "
                "here: sequence_classification; or give a model of a decoder alone."
            )

    def check_targets(self, targets: Sequence[str]) -> None:
        """
        Raises:
            InputError: a layer that LoRA is to adapt, and that the model does not have.
        """
        layers = self.layers()
        for target in targets:
            if not any(name == target or name.endswith(f".{target}") for name in layers):
                last = sorted({name.rpartition(".")[2] for name in layers})
                raise unknown_name(
                    f"layer of {self.model_type} for lora_targets",
                    target,
                    last,
                    advice=f"({self.owner}: {self.folder})",
                )

    def layers(self) -> list[str]:
        """Names of the layers with a matrix: what LoRA can adapt, and normalizations left out.

        Raises:
            InputError: a damaged file.
        """
        named = self._tensors()
        return sorted({name.removesuffix(".weight") for name, rank in named.items() if rank != 1 and ".weight" in name})

    def _tensors(self) -> dict[str, int]:
        """Name -> how many dimensions (0 where only the index was read)."""
        index = self.folder / INDEX
        try:
            if index.is_file():
                return dict.fromkeys(json.loads(index.read_text(encoding="utf-8"))["weight_map"], 0)
            with (self.folder / WEIGHTS).open("rb") as stream:
                size = int.from_bytes(stream.read(8), "little")
                if size > _HEADER_BYTES:
                    raise ValueError("its header is too long")
                header = json.loads(stream.read(size))
            return {name: len(each["shape"]) for name, each in header.items() if name != "__metadata__"}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{self.owner}: the weights in {self.folder} are damaged ({error!r:.100}).") from None
