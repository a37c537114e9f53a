"""Bytes between ranks: they arrive, whatever their size, also from a rank that ends right after; none is waited for in
vain."""

from __future__ import annotations

import gc
import os
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.checkpointing.tensors import exchange as exchange_module
from drivetrain.training.checkpointing.tensors.exchange import Exchange
from drivetrain.training.launch.processes.failure import is_lost_peer
from drivetrain.training.process import Process

LONG = b"\0\xff\n" * 1_000_000
# Of messages: small memory is given to the next that asks, much is mapped anew.
SIZES = (1, 100, 5000, len(LONG))


def talk(process: Process) -> list[Any]:
    exchange = Exchange(process)
    own = [b"", b"one\n", LONG][process.rank]
    main = process.rank == 0
    return [
        exchange.gather(own),
        exchange.gather_json({"rank": process.rank}),
        exchange.to_main(own),
        exchange.from_main(LONG if main else None),
        exchange.from_main(b"" if main else None),
        exchange.deal([b"a", b"", b"c"] if main else None),
    ]


def test_what_is_given_arrives_at_whom_it_is_for(forked: Any) -> None:
    parts = [b"", b"one\n", LONG]
    for rank, answer in enumerate(forked(3, talk)):
        everyone = [{"rank": each} for each in range(3)]
        assert answer == [parts, everyone, parts if rank == 0 else None, LONG, b"", [b"a", b"", b"c"][rank]]


def test_one_process_talks_to_itself() -> None:
    import torch

    exchange = Exchange(Process(0, 1, 0, 1, torch.device("cpu")))
    assert exchange.gather(b"a") == exchange.to_main(b"a") == [b"a"]
    assert exchange.from_main(b"b") == exchange.deal([b"b"]) == b"b"


def end_at_once(process: Process) -> list[int]:
    return Exchange(process).gather_json(process.rank)  # the last word of a rank that leaves


def test_the_last_word_arrives(forked: Any) -> None:
    # (A rank in `may_die` does not wait for the others at its end.)
    assert forked(3, end_at_once, may_die=(0, 1, 2)) == [[0, 1, 2]] * 3


def send_to_a_late_receiver(process: Process, gone_on: Path) -> list[bytes]:
    """Rank 0 begins to receive when rank 1 has gone on, and has used what memory it has given back."""
    exchange = Exchange(process)
    exchange.gather(b"")
    if process.rank == 0:
        while not gone_on.exists():
            time.sleep(0.01)
        reports = [exchange.to_main(b"") for _ in SIZES]
        exchange.from_main(b"")
        return [given[1] for given in reports if given]
    for size in SIZES:
        exchange.to_main(LONG[:size])
    gc.collect()
    used = [bytearray(b"x" * size) for size in SIZES for _ in range(20)]
    gone_on.touch()
    exchange.from_main(None)
    return [bytes(used[0])]


def test_what_was_sent_is_kept_until_it_is_taken(forked: Any, tmp_path: Path) -> None:
    """A message is not waited for: what its sender does next is nothing to it."""
    received, _ = forked(2, send_to_a_late_receiver, tmp_path / "gone_on")
    assert received == [LONG[:size] for size in SIZES]


def lose(process: Process, lost: int, operation: str) -> bool:
    exchange = Exchange(process)
    exchange.gather(b"")
    if process.rank == lost:
        os._exit(1)
    main = process.rank == 0
    with pytest.raises(RuntimeError) as failure:
        for _ in range(3):
            if operation == "gather":
                exchange.gather(b"x")
            elif operation == "from_main":
                exchange.from_main(b"x" if main else None)
            else:
                exchange.to_main(b"x")
                exchange.deal([b"x"] * 3 if main else None)
    return is_lost_peer(failure.value)


@pytest.mark.parametrize("operation", ["gather", "from_main", "deal"])
@pytest.mark.parametrize("lost", [0, 2])
def test_a_lost_rank_is_found_by_all(lost: int, operation: str, forked: Any) -> None:
    answers = forked(3, lose, lost, operation, may_die=(lost,))
    assert [answers[rank] for rank in range(3) if rank != lost] == [True, True]


def wait_for_a_slow_one(process: Process) -> tuple[int, bool]:
    """Rank 1 is at work until the others have heard of it ten times."""
    heard, released = 0, threading.Event()

    class Counting(Exchange):
        def gather(self, data: bytes) -> list[bytes]:
            nonlocal heard
            heard += 1
            if heard == 10:
                released.set()
            return super().gather(data)

    exchange_module._PACE_S = 0.01
    exchange = Counting(process)
    came = exchange.meanwhile(lambda: released.wait(30) if process.rank == 1 else True)
    with pytest.raises(OSError, match="of rank 2") if process.rank == 2 else nullcontext():
        exchange.meanwhile(fail if process.rank == 2 else list)
    return exchange.gather_json(process.rank)[process.rank], came


def fail() -> list[int]:
    raise OSError("of rank 2")


def test_a_slow_disk_is_told_from_a_rank_that_stands_still(forked: Any) -> None:
    """(With a short collective_timeout a training was lost when one rank's disk was slower by that.)"""
    assert forked(3, wait_for_a_slow_one) == [(0, True), (1, True), (2, True)]
