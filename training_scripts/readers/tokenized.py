"""Texts as tokens of a pretrained model: columns of JSON Lines (*.jsonl), Parquet (*.parquet) or a text a line (*.txt).

    {"text": "Worth every minute.", "label": "pos"}                        sequence classification
    {"text": ["Ada", "went", "home"], "label": ["NAME", "O", "O"]}         token classification (words)
    {"prompt": "Translate: cat", "text": "Katze"}                          a language model; the prompt is not learnt

The tokenizer is that of a folder of transformers', named by the option `tokenizer`; the recipe `huggingface` names its
model's. Rows are filled up to one length, or with `packed` laid end to end, cut into rows without a gap: a token then
sees its own text only, whose places `positions` counts.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.training import reader
from drivetrain.training.input_pipeline import pretrained_tokenizer, text_columns
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.decoded import kept_arrays, origin
from drivetrain.training.input_pipeline.host_memory import HostArrays
from drivetrain.training.input_pipeline.pretrained_tokenizer import Encoded, encode, load_tokenizer, padding_of
from drivetrain.training.input_pipeline.text_columns import TextColumns
from drivetrain.training.pretrained_folder import TOKENIZER_FILES
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices

_TOGETHER = 256  # texts that the tokenizer gets at once
_LABEL = "label"


def recognises(folder: Path) -> bool:
    return any(folder.glob("*.jsonl"))


@dataclass(frozen=True, kw_only=True)
class Options:
    tokenizer: str = ""
    """The folder whose tokenizer is used: one that save_pretrained wrote."""
    length: Annotated[int, Bounds(1)] = 256
    """Tokens of a row: longer texts lose their end, shorter ones are filled up (or packed)."""
    text: str = "text"
    """The column of the texts; of lists of words with `words`."""
    second: str = ""
    """The column of a second text that goes with the first, for pairs."""
    prompt: str = ""
    """The column of what stands before each text and is not learnt."""
    label: str = ""
    """The column of the labels: whole numbers from 0, or names; empty: `label`, where there is one."""
    words: bool = False
    """Texts are lists of words, each with a label of its own."""
    packed: bool = False
    """Lay the texts end to end instead of filling up each."""
    ends: bool = False
    """Put the end-of-text token behind each text that was not cut."""
    split: str = "train"
    """train or test: the folder of that name, in a folder that has both."""
    fitted: Mapping[str, Any] | None = None
    """The fitted values of the training data; set for validation and evaluation."""
    unlabelled: bool = False
    """Rows are to be predicted: no label is read."""

    def __post_init__(self) -> None:
        if self.packed and (self.words or self.second or self.prompt):
            raise ValueError("packed=True lays plain texts end to end; leave words, second and prompt out")
        if self.words and (self.second or self.prompt):
            raise ValueError("words=True is for single texts; leave second and prompt out")


class Reader(reader.Reader):
    """`tokens`: int64 [rows, options.length], filled up with the padding token; `length`: int64 [rows], the tokens that
    are no padding (at least 1); `types` (with `second`): int64 [rows, length]; `start` (with `prompt`): int64 [rows],
    the first token that is learnt; `positions` (packed): int64 [rows, length]; `label`: int64 [rows], or with `words`
    [rows, length]: that of each word's first token, -100 elsewhere.

    `fitted["labels"]` is the list of label names, where labels are texts.
    """

    options: Options

    def __init__(self, folder: Path, options: Options, process: Process) -> None:
        super().__init__(folder, options, process)
        self._source = TextColumns(folder, options.split)
        wanted = options.label or (_LABEL if _LABEL in self._source.names else "")
        self._label = "" if options.unlabelled or options.packed else wanted
        given = (options.text, options.second, options.prompt, self._label)
        for name in filter(None, given):
            self._source.check(name)
        made = ("tokens", "length")
        for column, is_there in (
            ("types", options.second),
            ("start", options.prompt),
            ("positions", options.packed),
            (_LABEL, self._label),
        ):
            made += (column,) if is_there else ()
        others = () if options.packed else tuple(n for n in self._source.names if n not in given and n not in made)
        self.column_names = (*made, *others)
        self._made = made
        self.label = _LABEL if self._label else None
        if not options.tokenizer:
            raise InputError(
                "reader 'tokenized' needs its option tokenizer: the folder of a pretrained model. (The recipe "
                "'huggingface' names its own.)"
            )
        self._tokenizer_folder = Path(options.tokenizer)

    def __len__(self) -> int:
        return len(self._lengths) if self.options.packed else len(self._source)

    def open(self, names: Sequence[str]) -> None:
        self.check_columns(names)
        self._tokenizer = load_tokenizer(self._tokenizer_folder)
        self._ids: dict[int, Encoded] = {}
        files = [self._tokenizer_folder / name for name in TOKENIZER_FILES]
        tokenizer = content_hash(self._tokenizer_folder, [path for path in files if path.is_file()], self.process)
        texts = content_hash(self._source.top, self._source.files, self.process)
        self.content_hash = hashlib.sha256(f"{texts}\n{tokenizer}".encode()).hexdigest()
        labels = self._label_names()
        self.fitted = {} if labels is None else {"labels": labels}
        if labels is not None:
            self.statistics = {_LABEL: {"classes": labels}}
        told = {name: value for name, value in vars(self.options).items() if name not in ("tokenizer", "fitted")}
        made_of = origin(
            self.content_hash, told | self.fitted, sys.modules[__name__], pretrained_tokenizer, text_columns
        )
        (self._open_packed if self.options.packed else self._open_rows)(made_of)
        self._ids.clear()

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        def column(name: str) -> NDArray[Any]:
            if name not in self._made:
                return self._source.column(name)[indices]
            found = self._arrays[name][indices]
            return found.astype(np.int64) if found.dtype != np.int64 else found.copy()

        return {name: column(name) for name in names}

    def locate(self, row: int) -> str:
        if not self.options.packed:
            return self._source.locate(row)
        first = int(np.searchsorted(self._ends, row * self.options.length, side="right"))
        return f"{self._source.locate(min(first, len(self._source) - 1))} (row {row + 1} of the packed ones)"

    # One text a row.

    def _open_rows(self, made_of: Mapping[str, Any]) -> None:
        length, count = self.options.length, len(self._source)
        shapes: dict[str, Any] = {
            name: ((count, length), np.int32) for name in ("tokens", "types") if name in self._made
        }
        shapes |= {name: ((count,), np.int32) for name in ("length", "start") if name in self._made}
        if self._label:
            shapes[_LABEL] = ((count, length), np.int32) if self.options.words else ((count,), np.int64)

        def fill(filling: HostArrays) -> None:
            padding, numbers = padding_of(self._tokenizer), self._label_numbers()
            rows = range(filling.number, count, filling.count)
            self._encode(rows)
            for row in rows:
                made = self._ids[row]
                size = len(made.tokens)
                filling["tokens"][row] = padding
                filling["tokens"][row, :size] = made.tokens
                filling["length"][row] = size
                if "types" in shapes:
                    filling["types"][row] = 0
                    filling["types"][row, :size] = made.types
                if "start" in shapes:
                    filling["start"][row] = made.start
                if self._label:
                    filling[_LABEL][row] = numbers(row, made)

        self._arrays = kept_arrays(self.process, shapes, {**made_of, "arrays": "rows"}, fill).arrays

    # Texts end to end.

    def _open_packed(self, made_of: Mapping[str, Any]) -> None:
        length, count = self.options.length, len(self._source)

        def measure(filling: HostArrays) -> None:
            rows = range(filling.number, count, filling.count)
            self._encode(rows)
            for row in rows:
                filling["sizes"][row] = len(self._ids[row].tokens)

        found = kept_arrays(self.process, {"sizes": ((count,), np.int64)}, {**made_of, "arrays": "sizes"}, measure)
        self._ends = np.cumsum(found.arrays["sizes"])
        total = int(self._ends[-1])
        num_rows = -(-total // length)

        def fill(filling: HostArrays) -> None:
            # Every process that fills writes what its texts are; what lies between is padding, written by the first.
            tokens, positions = (filling[name].reshape(-1) for name in ("tokens", "positions"))
            if filling.number == 0:
                tokens[total:], positions[total:] = padding_of(self._tokenizer), 0
            rows = range(filling.number, count, filling.count)
            self._encode(rows)
            for row in rows:
                stop = int(self._ends[row])
                start = stop - len(self._ids[row].tokens)
                places = np.arange(start, stop)
                tokens[start:stop] = self._ids[row].tokens
                # Counted anew where a row begins: what stands before is not seen.
                positions[start:stop] = places - np.maximum(start, places // length * length)

        shapes: dict[str, Any] = dict.fromkeys(("tokens", "positions"), ((num_rows, length), np.int32))
        self._arrays = dict(kept_arrays(self.process, shapes, {**made_of, "arrays": "packed"}, fill).arrays)
        self._lengths = np.minimum(length, total - length * np.arange(num_rows, dtype=np.int64))
        self._arrays["length"] = self._lengths

    def _encode(self, rows: range) -> None:
        """Rows that were not encoded yet."""
        options, missing = self.options, [row for row in rows if row not in self._ids]
        for first in range(0, len(missing), _TOGETHER):
            some = missing[first : first + _TOGETHER]

            def texts(name: str, some: list[int] = some) -> list[Any] | None:
                return self._source.texts(name, some, words=options.words) if name else None

            found = encode(
                self._tokenizer,
                texts(options.text) or [],
                length=0 if options.packed else options.length,
                seconds=texts(options.second),
                prompts=texts(options.prompt),
                words=options.words,
                ends=options.ends or options.packed,
            )
            self._ids |= dict(zip(some, found, strict=True))

    # Labels.

    def _label_names(self) -> list[str] | None:
        """The names of the labels in order, or None where they are numbers.

        Raises:
            InputError: labels of several kinds.
        """
        if self.options.fitted and "labels" in self.options.fitted:
            return list(self.options.fitted["labels"])
        if not self._label:
            return None
        found = self._source.distinct(self._label, nested=self.options.words)
        if not found or all(isinstance(each, int) and not isinstance(each, bool) for each in found):
            return None
        if not all(isinstance(each, str) for each in found):
            wrong = next(each for each in found if not isinstance(each, str))
            raise InputError(f"{self.folder}: label {wrong!r:.60}. Allowed are whole numbers from 0, or names (texts).")
        return sorted(found)

    def _label_numbers(self) -> Callable[[int, Encoded], Any]:
        """Row and its tokens -> its label, or those of its tokens."""
        if not self._label:
            return lambda row, made: 0
        values, names = self._source.column(self._label), self.fitted.get("labels")
        known = None if names is None else {name: number for number, name in enumerate(names)}

        def number(row: int, value: Any) -> int:
            if known is None:
                return int(value)
            if value not in known:
                raise InputError(
                    f"{self.locate(row)}: label {value!r:.60} did not occur in the training data. Known: "
                    f"{', '.join(list(known)[:20])}."
                )
            return known[value]

        def of_words(row: int, made: Encoded) -> NDArray[np.int32]:
            labels, before = np.full(self.options.length, pretrained_tokenizer.IGNORED, dtype=np.int32), None
            for place, word in enumerate(made.words[: len(made.tokens)]):
                if word is not None and word != before:
                    if word >= len(values[row]):
                        raise InputError(f"{self.locate(row)}: {len(values[row])} labels for more words.")
                    labels[place] = number(row, values[row][word])
                before = word
            return labels

        return of_words if self.options.words else lambda row, made: number(row, values[row])
