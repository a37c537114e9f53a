"""Hashes that mean the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from drivetrain.training.input_pipeline.draws import mix
from drivetrain.training.metric_states.numbers.hashing import hash_column

TEXTS = ["", "a", "row-17", "a text of more than eight bytes", "ü"]
OF_INTS = [16294208416658607535, 10451216379200822465, 16490336266968443936, 47939714376772075]
OF_TEXTS = [0, 5130041182906607543, 11633898490359139702, 2577117627601691890, 2375100448928807805]


def test_mix_is_that_of_splitmix() -> None:
    """The first numbers of the generator with seed 1234567 (https://rosettacode.org/wiki/Pseudo-random_numbers)."""
    step = 0x9E3779B97F4A7C15
    states = np.array([(1234567 + number * step) % 2**64 for number in range(1, 4)], dtype=np.uint64)
    assert mix(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_hashes_are_what_they_have_always_been() -> None:
    """Replicates of today are paired with those of an evaluation of years ago."""
    assert hash_column(np.array([0, 1, -1, 2**62])).tolist() == OF_INTS
    assert hash_column(np.array(TEXTS, dtype=object)).tolist() == OF_TEXTS


def test_a_text_has_one_hash_whatever_its_neighbours() -> None:
    texts = ["", "a", "b", "ab", "a" * 8, "a" * 9, "a" * 16, "row-1", "row-10", "x" * 100, "\udc80"]
    together = hash_column(np.array(texts, dtype=object))
    assert len(set(together.tolist())) == len(texts)
    alone = [int(hash_column(np.array([text], dtype=object))[0]) for text in texts]
    assert together.tolist() == alone
    assert hash_column(np.array(["row-1"])).tolist() == hash_column(np.array(["row-1"], dtype=object)).tolist()


def test_whole_numbers_of_any_width_have_one_hash() -> None:
    wide = hash_column(np.arange(100))
    assert len(set(wide.tolist())) == 100
    assert np.array_equal(hash_column(np.arange(100, dtype=np.uint8)), wide)
    assert np.array_equal(hash_column(np.array([-5], dtype=np.int16)), hash_column(np.array([-5])))


@pytest.mark.parametrize(
    "column", [np.zeros(3), np.zeros((3, 2), np.int64), np.array(["a", None], dtype=object), np.array([b"x"])]
)
def test_other_columns_have_none(column: np.ndarray) -> None:
    with pytest.raises(TypeError, match="values of type"):
        hash_column(column)
