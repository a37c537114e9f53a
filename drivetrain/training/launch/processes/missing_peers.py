"""Who did not come to a collective that timed out.

gloo says only that it timed out, of no rank. So every rank that lost its peers says so in the store that torchrun keeps
(which no rank can stop), and whoever has not, when the others have waited a little, is the one that hangs.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.training.launch.processes.heartbeat import FOLDER, RANK_HOSTS

if TYPE_CHECKING:
    from torch.distributed import Store

# Written by a process that waited in vain: the ranks that it waited for.
ABSENT_FILE = "absent.json"
TIMED_OUT = re.compile(r"[Tt]imed out|timeout|Timeout")
# A rank whose connection was closed cannot know why until the one that closed it has said so.
_TOLD_SECONDS = 2.0
# Ranks do not time out at the same instant: each waits from when it came. One that is stopped will not come at all, and
# the launcher can see that it is: it is asked after a moment.
_ARRIVAL_SECONDS, _SUSPECT_SECONDS = 8.0, 0.5
# Two looks of the launcher, and a traceback.
LAUNCHER_SECONDS = 2.0
_PREFIX, _TIMED_OUT = "drivetrain/missing_peers", "timed_out"
# All of a failed collective happens within seconds; an attempt before it lies further back.
_RECENT_SECONDS = 30.0
_STORE_TIMEOUT = timedelta(seconds=5)


def missing_peers(error: Exception) -> list[int] | None:
    """After a failed collective: the ranks that came to no end of it; None where nothing timed out.

    Called on every rank that has lost its peers; waits for the others to do the same, about ten seconds at most. An
    empty list: every rank has come, so it is the network, or ranks that call different collectives.
    """
    from torch.distributed import DistError, TCPStore

    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if world_size == 1 or not address or not port:
        return None
    timed_out = bool(TIMED_OUT.search(str(error)))
    try:
        store = TCPStore(address, int(port), is_master=False, timeout=_STORE_TIMEOUT, wait_for_workers=False)
        said = Said(store, since=time.time() - _RECENT_SECONDS)
        said.say(str(rank))
        if timed_out:
            said.say(_TIMED_OUT)
        elif not _within(_TOLD_SECONDS, lambda: said.by(_TIMED_OUT)):
            return None
        if not _within(_SUSPECT_SECONDS, lambda: not said.absent(world_size)):
            tell_launcher(said.absent(world_size), sure=False)
            _within(_ARRIVAL_SECONDS, lambda: not said.absent(world_size))
        return said.absent(world_size)
    except (DistError, RuntimeError):
        # Without torchrun rank 0 keeps the store, and it does not answer.
        return [0] if timed_out and rank != 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" else None


class Said:
    """Who has said something in the store lately: it outlives a restart, and hosts count their restarts differently."""

    def __init__(self, store: Store, *, since: float) -> None:
        self._store, self._since = store, since

    def say(self, who: str) -> None:
        self._store.set(f"{_PREFIX}/{who}", str(time.time()))

    def by(self, who: str) -> bool:
        key = f"{_PREFIX}/{who}"
        return self._store.check([key]) and float(self._store.get(key)) >= self._since

    def absent(self, world_size: int) -> list[int]:
        return [rank for rank in range(world_size) if not self.by(str(rank))]


def tell_launcher(ranks: list[int], *, sure: bool = True) -> None:
    """Let this host's launcher end those of the ranks that are its own; where it is not sure that they hang, those that
    are stopped."""
    folder = os.environ.get(FOLDER)
    if not folder or not ranks:
        return
    path = Path(folder) / ABSENT_FILE
    temporary = path.with_suffix(f".{os.getpid()}")
    said = {"attempt": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")), "ranks": ranks, "sure": sure}
    temporary.write_text(json.dumps(said), encoding="utf-8")
    temporary.replace(path)


def wait_for_launcher() -> None:
    """Give the launcher time to ask the one that hangs where it is: our end would have torchrun end it at once."""
    if os.environ.get(FOLDER):
        time.sleep(LAUNCHER_SECONDS)


def host_of(rank: int) -> str:
    """The host of a rank; "" where the order of the hosts is not known."""
    hosts = os.environ.get(RANK_HOSTS, "").split(",")
    return hosts[rank // int(os.environ.get("LOCAL_WORLD_SIZE", 1))] if hosts[0] else ""


def named(ranks: list[int]) -> str:
    """`rank 3 on algo-2, rank 4 on algo-3`."""
    shown = [f"rank {rank}" + (f" on {host}" if (host := host_of(rank)) else "") for rank in ranks[:8]]
    return ", ".join(shown) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)  # the store has no event that several keys could raise
    return True
