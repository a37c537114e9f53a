"""Texts as tokens by the tokenizer of a pretrained model: as the reader `tokenized` gives them, and as a request's do.

transformers is imported when a tokenizer is loaded, and not before.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.pretrained_folder import refuse_without_tokenizer

IGNORED = -100
"""The label of a token that is not to count."""


class Encoded(NamedTuple):
    """A text as tokens."""

    tokens: list[int]
    types: list[int]
    """0 for the first text, 1 for the second one."""
    start: int
    """The first token that counts: those before are the prompt's."""
    words: list[int | None]
    """The number of each token's word; None for special tokens. Empty if the text was not given as words."""


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder; nothing is fetched, and no code of the folder is run.

    Raises:
        InputError: there is no tokenizer, or transformers is not installed.
    """
    refuse_without_tokenizer(folder, "reader 'tokenized', option tokenizer")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise InputError(
            "tokenizers of pretrained models need transformers, which is not installed: pip install "
            "'drivetrain[huggingface]'."
        ) from None
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a damaged file makes the library say
        raise InputError(f"the tokenizer in {folder} cannot be loaded ({str(error).strip()[:200]}).") from None


def padding_of(tokenizer: Any) -> int:
    """The token that fills up: the tokenizer's, or else its end of text (what is filled is masked)."""
    for token in (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id):
        if token is not None:
            return int(token)
    return 0


def encode(
    tokenizer: Any,
    texts: Sequence[Any],
    *,
    length: int,
    seconds: Sequence[str] | None = None,
    prompts: Sequence[str] | None = None,
    words: bool = False,
    ends: bool = False,
) -> list[Encoded]:
    """Texts as tokens, longer ones cut; each has one token at least.

    Args:
        texts: one a row; lists of words where `words` is set.
        length: the most tokens of a row; 0 for any number.
        seconds: a second text a row, compared with the first (pairs).
        prompts: what stands before each text and is not learnt.
        ends: whether the end-of-text token follows a text that was not cut.
    """
    if not texts:
        return []
    cut: dict[str, Any] = {"truncation": True, "max_length": length} if length else {"truncation": False}
    given = tokenizer(
        list(texts), None if seconds is None else list(seconds), is_split_into_words=words, verbose=False, **cut
    )
    starts = [0] * len(texts)
    rows: list[list[int]] = [list(row) for row in given["input_ids"]]
    if prompts is not None:
        before = [list(row) for row in tokenizer(list(prompts), verbose=False, **cut)["input_ids"]]
        plain = tokenizer(list(texts), add_special_tokens=False, verbose=False, **cut)["input_ids"]
        rows = [[*first, *second] for first, second in zip(before, plain, strict=True)]
        rows = [row[:length] if length else row for row in rows]
        starts = [len(first) for first in before]
    end = tokenizer.eos_token_id if ends else None
    types = given.get("token_type_ids")
    made: list[Encoded] = []
    for number, row in enumerate(rows):
        if end is not None and (not row or row[-1] != end) and (not length or len(row) < length):
            row.append(int(end))
        row = row or [padding_of(tokenizer)]
        kinds = list(types[number])[: len(row)] if types else []
        parts = list(given.word_ids(number)) if words else []
        made.append(Encoded(row, kinds + [0] * (len(row) - len(kinds)), min(starts[number], len(row)), parts))
    return made


def padded(rows: Sequence[Sequence[int]], length: int, filling: int) -> NDArray[np.int64]:
    """Rows of one length, shape [rows, length]."""
    made = np.full((len(rows), length), filling, dtype=np.int64)
    for number, row in enumerate(rows):
        made[number, : len(row)] = row
    return made
