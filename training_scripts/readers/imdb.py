"""Reviews in folders: `train/pos/*.txt`, `train/neg/*.txt` and the same below `test`, one review a file.

A. Maas and others, "Learning Word Vectors for Sentiment Analysis", ACL 2011; https://ai.stanford.edu/~amaas/data/sentiment/.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.data import tokens as _words
from drivetrain.data.tokens import FIRST_WORD, PADDING, UNKNOWN, numbers_of, words_of
from drivetrain.training import reader
from drivetrain.training.input_pipeline.content import content_hash
from drivetrain.training.input_pipeline.decoded import kept_arrays, origin
from drivetrain.training.input_pipeline.host_memory import HostArrays, host_folder
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns, Indices

CLASSES = ("neg", "pos")
_TRAIN, _TEST = ("train",), ("test", "val", "validation")
_INNER = "aclImdb"  # the folder in the archive


def build_vocabulary(counts: Mapping[str, int], size: int) -> list[str]:
    """The most frequent words, the alphabet deciding among equals. Word `i` has token `FIRST_WORD + i`."""
    return sorted(counts, key=lambda word: (-counts[word], word))[: max(0, size - FIRST_WORD)]


def load_vocabulary(path: Path) -> list[str]:
    """Raises:
    InputError: no such file, not one word a line, or a word twice.
    """
    words = _text(path).splitlines()
    if not words or not all(word.strip() == word and word for word in words) or len(set(words)) != len(words):
        raise InputError(f"{path} is no vocabulary: one word a line, each once.")
    return words


def recognises(folder: Path) -> bool:
    tops = [folder, *(folder / name for name in (*_TRAIN, *_TEST))]
    tops += [folder / _INNER / name for name in (*_TRAIN, *_TEST)]
    return any(_has_reviews(top) for top in tops)


@dataclass(frozen=True, kw_only=True)
class Options:
    length: Annotated[int, Bounds(1)] = 256
    """Tokens of a review: longer ones lose their end, shorter ones are filled up with 0."""
    vocabulary_size: Annotated[int, Bounds(FIRST_WORD + 1)] = 20_000
    """Different tokens at most: 0 is padding, 1 any other word."""
    vocabulary: str = ""
    """A file with one word a line; empty: the most frequent words of the training folder."""
    split: Literal["train", "test"] = "train"
    """train or test, in a folder that has both."""
    fitted: Mapping[str, Any] | None = None
    """The fitted values of the training data; set for validation and evaluation."""


class Reader(reader.Reader):
    """`tokens`: int64 [rows, length]; `length`: int64 [rows], the tokens that are no padding (at least 1); `label`:
    int64 [rows], 0 for neg and 1 for pos.

    `fitted["vocabulary"]` is the list of words.
    """

    column_names = ("tokens", "length", "label")
    label = "label"
    num_classes = len(CLASSES)
    options: Options

    def __init__(self, folder: Path, options: Options, process: Process) -> None:
        super().__init__(folder, options, process)
        self._top = _top(folder, options.split)
        self._files, self._labels = _reviews(self._top)
        self.statistics = {"label": {"classes": list(CLASSES)}}
        self._ids: dict[str, int] = {}  # words of this process, by first sight
        self._seen: dict[Path, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self._files)

    def open(self, names: Sequence[str]) -> None:
        self.check_columns(names)
        base = self._top.parent if self._top.name in (*_TRAIN, *_TEST) else self._top
        self.content_hash = content_hash(base, self._files, self.process)
        # That of this very folder is made of its content, and kept with it.
        vocabulary = None if self._counts_own_words() else self._vocabulary()
        if self.options.vocabulary:  # it decides what is read, and need not lie with the data
            both = self.content_hash + "\n".join(vocabulary or [])
            self.content_hash = hashlib.sha256(both.encode()).hexdigest()

        def fill(filling: HostArrays) -> dict[str, Any]:
            found = self._vocabulary() if vocabulary is None else vocabulary
            tokens_of = numbers_of(found)
            for row in range(filling.number, len(self), filling.count):
                self._ids_of(self._files[row])
            table = np.array([tokens_of.get(word, UNKNOWN) for word in self._ids] or [UNKNOWN], dtype=np.int32)
            for row in range(filling.number, len(self), filling.count):
                tokens = table[self._ids_of(self._files[row])[: self.options.length]]
                if not len(tokens):
                    tokens = np.array([UNKNOWN], dtype=np.int32)
                filling["tokens"][row, : len(tokens)] = tokens
                filling["tokens"][row, len(tokens) :] = PADDING
                filling["length"][row] = len(tokens)
            return {"vocabulary": found}

        shapes = {"tokens": ((len(self), self.options.length), np.int32), "length": ((len(self),), np.int64)}
        told = {"length": self.options.length, "vocabulary_size": self.options.vocabulary_size, "words": vocabulary}
        made_of = origin(self.content_hash, told, sys.modules[__name__], _words)
        kept = kept_arrays(self.process, shapes, made_of, fill)
        self._tokens, self._length = kept.arrays["tokens"], kept.arrays["length"]
        self.fitted = {"vocabulary": kept.facts["vocabulary"]}
        self._ids.clear()
        self._seen.clear()

    def read(self, indices: Indices | slice, names: Sequence[str]) -> Columns:
        columns = {
            "tokens": lambda: self._tokens[indices].astype(np.int64),
            "length": lambda: self._length[indices],
            "label": lambda: self._labels[indices],
        }
        return {name: columns[name]() for name in names}

    def locate(self, row: int) -> str:
        return str(self._files[row])

    def _ids_of(self, path: Path) -> NDArray[np.int64]:
        """The words of a review as numbers of `_ids`; each file is read once."""
        if path not in self._seen:
            ids = self._ids
            self._seen[path] = np.array([ids.setdefault(word, len(ids)) for word in words_of(_text(path))], np.int64)
        return self._seen[path]

    def _counts_own_words(self) -> bool:
        """True if the vocabulary is that of the files that are read."""
        given = self.options
        is_given = bool(given.vocabulary or (given.fitted and "vocabulary" in given.fitted))
        return not is_given and (given.split != "test" or self._top.name in _TRAIN) and self._top.name not in _TEST

    def _vocabulary(self) -> list[str]:
        given = self.options
        if given.fitted and "vocabulary" in given.fitted:
            return list(given.fitted["vocabulary"])
        if given.vocabulary:
            return load_vocabulary(Path(given.vocabulary))[: given.vocabulary_size - FIRST_WORD]
        training = _training_folder(self._top)
        if training is None:
            if given.split == "test":
                raise InputError(
                    f"{self._top} has no training folder beside it to take the vocabulary from. "
                    "Give its file with the option vocabulary."
                )
            training = self._top
        files, _ = _reviews(training)
        return build_vocabulary(self._counts(files), given.vocabulary_size)

    def _counts(self, files: Sequence[Path]) -> Mapping[str, int]:
        """How often each word occurs; the ranks of a host count a part each."""
        process = self.process
        numbers = [self._ids_of(path) for path in files[process.local_rank :: process.local_world_size]]
        counted = np.bincount(np.concatenate(numbers or [np.zeros(0, np.int64)]), minlength=len(self._ids))
        counts = Counter(dict(zip(self._ids, counted.tolist(), strict=True)))
        if process.local_world_size == 1:
            return counts
        with host_folder(process) as folder:
            (folder / f"{process.local_rank}.json").write_text(json.dumps(counts), encoding="utf-8")
            process.barrier()
            total: Counter[str] = Counter()
            for rank in range(process.local_world_size):
                total.update(json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")))
        return total


def _has_reviews(folder: Path) -> bool:
    return all((folder / name).is_dir() for name in CLASSES) and any((folder / CLASSES[0]).glob("*.txt"))


def _top(folder: Path, split: str) -> Path:
    """The folder that has `neg` and `pos`."""
    if all((folder / name).is_dir() for name in CLASSES):
        return folder
    for base in (folder, folder / _INNER):
        found = [base / name for name in (_TRAIN if split == "train" else _TEST) if (base / name).is_dir()]
        if found:
            return found[0]
    wanted = "train" if split == "train" else "test"
    raise InputError(f"{folder} has no folders {' and '.join(CLASSES)}, and no folder {wanted} with them.")


def _training_folder(top: Path) -> Path | None:
    """The folder of the vocabulary: the folder itself, or the training folder beside one for testing."""
    if top.name not in _TEST:
        return top if top.name in _TRAIN else None
    beside = [top.parent / name for name in _TRAIN]
    return next((folder for folder in beside if _has_reviews(folder)), None)


def _reviews(folder: Path) -> tuple[list[Path], NDArray[np.int64]]:
    files: list[Path] = []
    labels: list[int] = []
    for number, name in enumerate(CLASSES):
        inside = folder / name
        found = sorted(inside.glob("*.txt")) if inside.is_dir() else []
        if not found:
            raise InputError(f"class folder {inside} has no reviews (.txt). Copy the data again.")
        files += found
        labels += [number] * len(found)
    return files, np.array(labels, dtype=np.int64)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start + 1}). Convert it, or copy it again.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}). Copy the data again.") from None
