"""What every group of processes keeps, whichever library moves the bytes: they arrive, whatever their size, also from a
rank that ends right after; sums are exact and alike; a rank that does not come, or is killed, is named, and nobody
waits for it in vain."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.base.ports import held_port
from drivetrain.training.group import ALONE, Group, LostRanksError, tcp
from drivetrain.training.launch.processes.failure import is_lost_peer
from drivetrain.training.process import Process

KINDS = ("gloo", "tcp")
LONG = b"\0\xff\n" * 1_000_000
# Of messages: small memory is given to the next that asks, much is mapped anew.
SIZES = (1, 100, 5000, len(LONG))


@pytest.fixture(params=KINDS)
def grouped(request: pytest.FixtureRequest, forked: Any) -> Any:
    """`grouped(size, function, *arguments)`: what `function(group, *arguments)` returns on each rank."""

    def run(size: int, function: Any, *arguments: Any, timeout: float = 30.0, may_die: Any = ()) -> list[Any]:
        with held_port() as port:
            where = (request.param, port.getsockname()[1], timeout)
            return forked(
                size, call, where, function, arguments, timeout=40, collective_timeout=timeout, may_die=may_die
            )

    return run


def call(process: Process, where: tuple[str, int, float], function: Any, arguments: Any) -> Any:
    kind, port, timeout = where
    if kind == "gloo":
        return function(process.group.twin(), *arguments)
    return function(tcp.join(process.rank, process.world_size, "127.0.0.1", port, timeout), *arguments)


def talk(group: Group) -> list[Any]:
    own = [b"", b"one\n", LONG][group.rank]
    main = group.rank == 0
    return [
        group.gather(own),
        group.gather_json({"rank": group.rank}),
        group.to_main(own),
        group.from_main(LONG if main else None),
        group.from_main(b"" if main else None),
        group.deal([b"a", b"", b"c"] if main else None),
        group.broadcast(own if group.rank == 2 else None, source=2),
        [group.receive(2), group.receive(1)] if main else group.send(own),
        group.barrier(),
    ]


def test_messages_reach_their_receivers(grouped: Any) -> None:
    parts = [b"", b"one\n", LONG]
    for rank, answer in enumerate(grouped(3, talk)):
        everyone = [{"rank": each} for each in range(3)]
        on_main = [parts, [LONG, b"one\n"]] if rank == 0 else [None, None]
        dealt = [b"a", b"", b"c"][rank]
        assert answer == [parts, everyone, on_main[0], LONG, b"", dealt, LONG, on_main[1], None]


def reduce(group: Group) -> list[Any]:
    """Arrays of 8 MB among them, and a twin whose messages are in between."""
    rank = group.rank
    twin = group.twin()
    whole = np.full(1_000_000, 2**53 + 1 + rank, dtype=np.int64)
    group.sum(whole)
    floats = np.array([0.1 * (rank + 1), -rank])
    finish = group.start_max(floats)
    between = twin.gather(bytes([rank]))
    finish()
    scalar = np.array(1.5)
    group.sum(scalar)
    rows = np.arange(6, dtype=np.int64).reshape(3, 2) + 10 * rank
    dealt = group.all_to_all(rows, to=[1, 2, 0], of=[[1] * 3, [2] * 3, [0] * 3][rank])
    return [
        (int(whole.min()), int(whole.max())),
        floats.tolist(),
        b"".join(between),
        float(scalar),
        group.all_gather(np.array([[rank, 2.5]])).tolist(),
        dealt.tolist(),
    ]


def test_sums_are_equal_on_all_ranks(grouped: Any) -> None:
    total = 3 * (2**53 + 1) + 3
    dealt = [
        [[0, 1], [10, 11], [20, 21]],
        [[2, 3], [4, 5], [12, 13], [14, 15], [22, 23], [24, 25]],
        [],
    ]
    for rank, answer in enumerate(grouped(3, reduce)):
        gathered = [[[0.0, 2.5]], [[1.0, 2.5]], [[2.0, 2.5]]]
        assert answer == [(total, total), [0.1 * 3, 0.0], b"\0\1\2", 4.5, gathered, dealt[rank]]


def test_one_process_talks_to_itself() -> None:
    assert ALONE.gather(b"a") == ALONE.to_main(b"a") == [b"a"]
    assert ALONE.from_main(b"b") == ALONE.deal([b"b"]) == ALONE.broadcast(b"b") == b"b"
    values = np.array([1, 2])
    ALONE.sum(values)
    ALONE.start_max(values)()
    ALONE.barrier()
    assert values.tolist() == [1, 2]
    assert ALONE.all_gather(values).tolist() == [[1, 2]]
    assert ALONE.all_to_all(values, [2], [2]).tolist() == [1, 2]
    assert ALONE.meanwhile(lambda: 3) == 3


def end_at_once(group: Group) -> list[int]:
    return group.gather_json(group.rank)  # the last word of a rank that leaves


def test_the_last_message_arrives(grouped: Any) -> None:
    # (A rank in `may_die` does not wait for the others at its end.)
    assert grouped(3, end_at_once, may_die=(0, 1, 2)) == [[0, 1, 2]] * 3


def stay_away(group: Group, absent: int, done: Path) -> tuple[list[int], bool, bool]:
    """The ranks that this one misses, whether they timed out, and whether the launcher takes it for a consequence."""
    group.barrier()
    if group.rank == absent:
        while not done.exists():
            time.sleep(0.01)
        return [], False, False
    try:
        group.barrier()
    except LostRanksError as error:
        if group.rank == 1:
            done.touch()
        return error.ranks, error.timed_out, is_lost_peer(error)
    raise AssertionError("the other rank has not come and nothing was raised")


@pytest.mark.slow_cases("gloo-0", "tcp-2")
@pytest.mark.parametrize("absent", [0, 2])
def test_a_missing_rank_is_named(absent: int, grouped: Any, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    answers = grouped(3, stay_away, absent, tmp_path / "done", timeout=0.5, may_die=(0, 1, 2))
    # Rank 0 knows; over gloo the others know no more than that rank 0 does not answer.
    assert answers[1 if absent == 0 else 0] == ([absent], True, True)
    if request.node.callspec.params["grouped"] == "tcp":
        assert answers[1] == ([absent], True, True)


def lose(group: Group, lost: int, operation: str) -> tuple[bool, float]:
    group.gather(b"")
    if group.rank == lost:
        os.kill(os.getpid(), signal.SIGKILL)
    main, begun = group.rank == 0, time.monotonic()
    with pytest.raises(RuntimeError) as failure:
        for _ in range(3):
            if operation == "gather":
                group.gather(b"x")
            elif operation == "from_main":
                group.from_main(b"x" if main else None)
            elif operation == "sum":
                group.sum(np.ones(1000))
            else:
                group.to_main(b"x")
                group.deal([b"x"] * 3 if main else None)
    return is_lost_peer(failure.value), time.monotonic() - begun


@pytest.mark.slow_cases(but=["gloo-0-gather", "tcp-0-gather", "tcp-2-sum"])
@pytest.mark.parametrize("operation", ["gather", "from_main", "deal", "sum"])
@pytest.mark.parametrize("lost", [0, 2])
def test_a_killed_rank_is_found_by_all_at_once(lost: int, operation: str, grouped: Any) -> None:
    answers = grouped(3, lose, lost, operation, may_die=(lost,))
    for rank in {0, 1, 2} - {lost}:
        is_consequence, seconds = answers[rank]
        assert is_consequence
        assert seconds < 10  # the time-out is 30


def send_to_a_late_receiver(group: Group, gone_on: Path) -> list[bytes]:
    """Rank 0 begins to receive when rank 1 has gone on, and has used what memory it has given back."""
    group.gather(b"")
    if group.rank == 0:
        while not gone_on.exists():
            time.sleep(0.01)
        reports = [group.to_main(b"") for _ in SIZES]
        group.from_main(b"")
        return [given[1] for given in reports if given]
    for size in SIZES:
        group.to_main(LONG[:size])
    used = [bytearray(b"x" * size) for size in SIZES for _ in range(20)]
    gone_on.touch()
    group.from_main(None)
    return [bytes(used[0])]


def test_messages_over_gloo_are_kept_until_received(forked: Any, tmp_path: Path) -> None:
    """A message is not waited for: what its sender does next is nothing to it."""
    received, _ = forked(2, call, ("gloo", 0, 30.0), send_to_a_late_receiver, (tmp_path / "gone_on",))
    assert received == [LONG[:size] for size in SIZES]


def wait_for_a_slow_one(group: Group) -> tuple[int, bool]:
    """Rank 1 is at work until the others have heard of it ten times."""
    heard, released = 0, threading.Event()
    real = group.gather

    def counting(data: bytes) -> list[bytes]:
        nonlocal heard
        heard += 1
        if heard == 10:
            released.set()
        return real(data)

    import drivetrain.training.group as module

    module._PACE_S = 0.01
    group.gather = counting  # type: ignore[method-assign]
    came = group.meanwhile(lambda: released.wait(30) if group.rank == 1 else True)
    with pytest.raises(OSError, match="of rank 2") if group.rank == 2 else nullcontext():
        group.meanwhile(fail if group.rank == 2 else list)
    return group.gather_json(group.rank)[group.rank], came


def fail() -> list[int]:
    raise OSError("of rank 2")


def test_a_slow_disk_is_distinguished_from_a_stalled_rank(grouped: Any) -> None:
    """(With a short collective_timeout a training was lost when one rank's disk was slower by that.)"""
    assert grouped(3, wait_for_a_slow_one) == [(0, True), (1, True), (2, True)]


def test_ranks_that_do_not_meet_are_named() -> None:
    with held_port() as port:
        begun = time.monotonic()
        with pytest.raises(LostRanksError, match=r"rank 0: timed out after 0.2 s waiting for ranks 1, 2"):
            tcp.join(0, 3, "127.0.0.1", port.getsockname()[1], 0.2)
        with pytest.raises(LostRanksError, match=r"rank 2: timed out .* waiting for rank 0"):
            tcp.join(2, 3, "127.0.0.1", port.getsockname()[1], 0.2)
        assert time.monotonic() - begun < 10
