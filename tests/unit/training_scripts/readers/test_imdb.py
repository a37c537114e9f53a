from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.choice import load_reader, recognised
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader
from drivetrain.training_scripts.readers.imdb import build_vocabulary, load_vocabulary, words_of

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


def write(folder: Path, **reviews: str) -> Path:
    """`neg_1="dull"`: one review a name."""
    for name, text in reviews.items():
        label, number = name.split("_")
        (folder / label).mkdir(parents=True, exist_ok=True)
        (folder / label / f"{number}_7.txt").write_text(text, encoding="utf-8")
    return folder


def opened(folder: Path, **options: Any) -> Reader:
    reader = load_reader("imdb", folder, {"length": 6} | options, ALONE)
    reader.open(["tokens", "length", "label"])
    return reader


def tokens(reader: Reader) -> list[list[int]]:
    return reader.read(slice(0, len(reader)), ["tokens"])["tokens"].tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's GREAT, isn't it?", ["it's", "great", "isn't", "it"]),
        ("one<br /><br />two", ["one", "two"]),
        ("10/10 -- 'quoted' under_score", ["10", "10", "quoted", "under", "score"]),
        ("na\u00efve nai\u0308ve", ["na\u00efve", "na\u00efve"]),
        ("don\u2019t", ["don't"]),
        ("...", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_the_most_frequent_words_first_and_the_alphabet_among_equals() -> None:
    assert build_vocabulary({"b": 2, "a": 2, "c": 5, "d": 1}, size=5) == ["c", "a", "b"]


def test_reviews_are_cut_and_filled_up(tmp_path: Path) -> None:
    write(tmp_path, neg_1="a a a b", neg_2="...", pos_1="a b c d e f g h")
    reader = opened(tmp_path, vocabulary_size=5)
    assert reader.fitted == {"vocabulary": ["a", "b", "c"]}
    assert tokens(reader) == [[2, 2, 2, 3, 0, 0], [1, 0, 0, 0, 0, 0], [2, 3, 4, 1, 1, 1]]
    assert reader.read(slice(0, 3), ["length"])["length"].tolist() == [4, 1, 6]


def test_other_data_is_read_with_the_words_of_the_training_data(tmp_path: Path) -> None:
    write(tmp_path / "aclImdb" / "train", neg_1="bad bad film", pos_1="good film film")
    write(tmp_path / "aclImdb" / "test", neg_1="terrible film", pos_1="good")
    assert recognised(tmp_path) == "imdb"
    train = opened(tmp_path)
    expected = [[1, 2, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0]]  # film, bad, good
    assert tokens(opened(tmp_path, split="test")) == expected
    assert tokens(opened(tmp_path / "aclImdb" / "test")) == expected
    elsewhere = (tmp_path / "aclImdb" / "test").rename(tmp_path / "elsewhere")
    assert tokens(opened(elsewhere, split="test", fitted=train.fitted)) == expected
    with pytest.raises(InputError, match=r"no training folder beside it .* option vocabulary"):
        opened(elsewhere, split="test")


def test_a_vocabulary_from_a_file(tmp_path: Path) -> None:
    write(tmp_path / "data", neg_1="bad film", pos_1="good film")
    (tmp_path / "words.txt").write_text("good\nfilm\nbad\n")
    assert load_vocabulary(tmp_path / "words.txt") == ["good", "film", "bad"]
    with_file = opened(tmp_path / "data", vocabulary=str(tmp_path / "words.txt"))
    assert tokens(with_file) == [[4, 3, 0, 0, 0, 0], [2, 3, 0, 0, 0, 0]]
    assert with_file.content_hash != opened(tmp_path / "data").content_hash
    shorter = opened(tmp_path / "data", vocabulary=str(tmp_path / "words.txt"), vocabulary_size=3)
    assert tokens(shorter) == [[1, 1, 0, 0, 0, 0], [2, 1, 0, 0, 0, 0]]


@pytest.mark.parametrize("text", ["", "a\n\nb\n", "a\nb\na\n", " a\n"])
def test_a_file_that_is_no_vocabulary(tmp_path: Path, text: str) -> None:
    (tmp_path / "words.txt").write_text(text)
    with pytest.raises(InputError, match=r"words\.txt is no vocabulary: one word a line, each once"):
        load_vocabulary(tmp_path / "words.txt")


def test_a_vocabulary_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path / "data", neg_1="bad", pos_1="good")
    with pytest.raises(InputError, match=r"words\.txt cannot be read \(No such file"):
        opened(tmp_path / "data", vocabulary=str(tmp_path / "words.txt"))


def test_a_class_without_reviews(tmp_path: Path) -> None:
    write(tmp_path, neg_1="bad")
    (tmp_path / "pos").mkdir()
    with pytest.raises(InputError, match=r"class folder .*pos has no reviews \(\.txt\)"):
        opened(tmp_path)


def test_a_review_that_is_no_text(tmp_path: Path) -> None:
    write(tmp_path, neg_1="bad", pos_1="good")
    (tmp_path / "pos" / "2_9.txt").write_bytes(b"abc \xff")
    with pytest.raises(InputError, match=r"pos/2_9\.txt is not UTF-8 text \(byte 5\)"):
        opened(tmp_path)


def test_another_layout(tmp_path: Path) -> None:
    write(tmp_path / "train", neg_1="bad", pos_1="good")
    with pytest.raises(InputError, match=r"has no folders neg and pos, and no folder test with them"):
        opened(tmp_path, split="test")


def test_tokens_are_whole_numbers_of_torch(tmp_path: Path) -> None:
    reader = opened(write(tmp_path, neg_1="bad", pos_1="good"))
    found = reader.read(np.array([1]), ["tokens", "length", "label"])
    assert {array.dtype.name for array in found.values()} == {"int64"}
