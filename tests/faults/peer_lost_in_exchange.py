"""A rank that dies while checkpoints' messages go to and fro, at the very moment at which the others sleep.

The others wake up with a connection that is gone and that gloo has not heard of yet: what they send then it keeps, and
neither writes nor gives up. Whoever waited for that waited until the time-out.
"""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections import Counter
from datetime import timedelta
from pathlib import Path

from drivetrain.training.launch.processes.parent import follows_parent
from tests.faults.harness.families import Found, Trial

FAULT = "a rank SIGKILLed in the exchange of a save while the others are frozen: all notice within 5 s"
TRIALS, QUICK, AT_ONCE = 500, 6, 2
PRELOAD = ("drivetrain.training.group.gloo", "drivetrain.training.launch.processes.failure")

_NOTICED_WITHIN_S = 5.0
_LATEST_S = 0.01


def trial(given: Trial, shared: None) -> Found:
    size = given.draw.choice((2, 2, 3))
    victim = given.draw.randrange(size)
    reading, writing = os.pipe()
    pids = [_fork(rank, size, given.folder, writing) for rank in range(size)]
    os.close(writing)
    others = {rank: pid for rank, pid in enumerate(pids) if rank != victim}
    for _ in range(size):
        os.read(reading, 1)
    time.sleep(given.draw.uniform(0, _LATEST_S))
    for pid in others.values():
        os.kill(pid, signal.SIGSTOP)
    os.kill(pids[victim], signal.SIGKILL)
    os.waitpid(pids[victim], 0)
    for pid in others.values():
        os.kill(pid, signal.SIGCONT)
    codes = {rank: _code(pid) for rank, pid in others.items()}
    os.close(reading)
    said = [f"rank {rank} of {size} lived {_NOTICED_WITHIN_S} s" for rank, code in codes.items() if code is None]
    said += [f"rank {rank} ended with {code}: {_log(given.folder, rank)}" for rank, code in codes.items() if code]
    return Found(said, Counter([f"{size} ranks, {'rank 0' if victim == 0 else 'another'} killed"]))


def _code(pid: int) -> int | None:
    """The exit code of a process that ends in time; None of one that is killed as it does not."""
    watched = os.pidfd_open(pid)
    ended = bool(select.select([watched], [], [], _NOTICED_WITHIN_S)[0])
    os.close(watched)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if ended else None


def _log(folder: Path, rank: int) -> str:
    return (folder / f"log-{rank}.txt").read_text()


def _fork(rank: int, size: int, folder: Path, begun: int) -> int:
    follow = follows_parent(signal.SIGKILL)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            follow()
            code = _talk(rank, size, folder, begun)
        except BaseException:
            (folder / f"log-{rank}.txt").write_text(traceback.format_exc())
        os._exit(code)
    return pid


def _talk(rank: int, size: int, folder: Path, begun: int) -> int:
    """Say what a save says, again and again, until a rank is lost."""
    import torch.distributed as dist

    from drivetrain.training.group.gloo import GlooGroup
    from drivetrain.training.launch.processes.failure import is_lost_peer

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.FileStore(str(folder / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
    exchange = GlooGroup(rank, size, 60.0).twin()
    exchange.gather(b"")
    os.write(begun, b".")
    try:
        while True:
            reports = exchange.to_main(b"a report" * 10)
            exchange.from_main(None if reports is None else b"an outcome")
            exchange.gather_json(["a folder", ""])
    except RuntimeError as error:
        if is_lost_peer(error):
            return 0
        raise
