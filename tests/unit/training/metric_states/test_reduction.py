"""Messages of ranks that failed, in the vector that all add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.training.metric_states.reduction import header_size, leave_message, raise_messages


def told(world_size: int, messages: dict[int, str]) -> str:
    total = np.zeros(header_size(world_size), dtype=np.int64)
    for rank, message in messages.items():
        header = np.zeros_like(total)
        leave_message(header, rank, world_size, message)
        total += header
    with pytest.raises(InputError) as raised:
        raise_messages(total, world_size)
    return str(raised.value)


def test_none() -> None:
    raise_messages(np.zeros(header_size(3), dtype=np.int64), 3)


def test_one_rank_alone_says_it_as_it_is() -> None:
    assert told(1, {0: "bad: ü"}) == "bad: ü"


def test_the_rank_is_named() -> None:
    assert told(3, {1: "bad data"}) == "rank 1 of 3: bad data"


def test_all_fail_alike() -> None:
    assert told(2, {0: "bad recipe", 1: "bad recipe"}) == "bad recipe"


def test_the_first_of_many() -> None:
    message = told(9, {rank: f"bad {rank}" for rank in range(2, 8)})
    assert message == "rank 2 of 9: bad 2\nrank 3 of 9: bad 3\nrank 4 of 9: bad 4\n(6 ranks failed.)"


def test_very_many_ranks_take_little_room() -> None:
    assert 8 * header_size(4096) == 1 << 20
    assert told(4096, {4095: "a" * 300}) == f"rank 4095 of 4096: {'a' * 253}…"
    assert 8 * header_size(2) == 2048
    assert 8 * header_size(32_768) == 1 << 20
    assert told(32_768, {7: "a" * 300}).endswith("a…")


@given(st.text(st.characters(), max_size=400))
def test_a_message_is_cut_between_characters(text: str) -> None:
    """(In 256 bytes, where there are 4,096 ranks.)"""
    message = told(4096, {1: text}).removeprefix("rank 1 of 4096: ")
    wanted = text.replace("\0", " ").strip().encode(errors="replace").decode() or "no reason was given"
    if len(wanted.encode()) <= 256:
        assert message == wanted
    else:
        assert message.endswith("…")
        assert wanted.startswith(message[:-1])
        assert 256 - 4 < len(message.encode()) <= 256
