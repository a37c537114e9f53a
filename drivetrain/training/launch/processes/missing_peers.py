"""Why a collective failed: who did not come to it before it timed out, or who called another one.

gloo says only that it timed out, of no rank. So every rank that lost its peers says so in the store that torchrun keeps
(which no rank can stop), with the collectives that it has begun, and those of the other ranks of its host, which it
asks (collectives.py). blame.py compares them. A rank of which nothing is known, when the others have waited a little,
is the one that hangs.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.training.launch.processes import blame, collectives
from drivetrain.training.launch.processes.blame import Verdict
from drivetrain.training.launch.processes.collectives import Collective
from drivetrain.training.launch.processes.heartbeat import FOLDER, RANK_HOSTS, read_heartbeats

if TYPE_CHECKING:
    from torch.distributed import Store

# Written by a process that waited in vain: the ranks that it waited for.
ABSENT_FILE = "absent.json"
TIMED_OUT = re.compile(r"[Tt]imed out|timeout|Timeout")
# A rank whose connection was closed cannot know why until the one that closed it has said so.
_TOLD_SECONDS = 2.0
# Ranks do not time out at the same instant: each waits from when it came. One that is stopped will not come at all, and
# the launcher can see that it is: it is asked after a moment. (One of this host that runs Python code answers at once.)
_ARRIVAL_SECONDS, _SUSPECT_SECONDS = 8.0, 0.5
_ANSWER_SECONDS = 1.0
# Two looks of the launcher, and a traceback.
LAUNCHER_SECONDS = 2.0
_PREFIX, _TIMED_OUT = "drivetrain/missing_peers", "timed_out"
# All of a failed collective happens within seconds; an attempt before it lies further back.
_RECENT_SECONDS = 30.0
_STORE_TIMEOUT = timedelta(seconds=5)


def why_lost(error: Exception) -> Verdict | None:
    """After a failed collective: the ranks that came to no end of it, or called another one; None where nobody knows.

    Called on every rank that has lost its peers; waits for the others to do the same, about ten seconds at most. A
    verdict without ranks: all have come, so it is the network, or calls that nothing records.
    """
    from torch.distributed import DistError, TCPStore

    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if world_size == 1 or not address or not port:
        return None
    timed_out = bool(TIMED_OUT.search(str(error)))
    own = collectives.write(error)
    on_host = _on_this_host(rank) if own else {}
    try:
        store = TCPStore(address, int(port), is_master=False, timeout=_STORE_TIMEOUT, wait_for_workers=False)
        said = Said(store, world_size, since=time.time() - _RECENT_SECONDS)
        said.say(str(rank), own)
        for other, begun in on_host.items():
            said.say(_asked(other), begun)
        if timed_out:
            said.say(_TIMED_OUT)
        if (verdict := blame.find_mismatch(said.begun())) is not None:
            return verdict
        if not timed_out and not _within(_TOLD_SECONDS, lambda: said.by(_TIMED_OUT)):
            return _ended_early(said.begun())
        if not _within(_SUSPECT_SECONDS, lambda: not said.unknown()):
            tell_launcher(said.unknown(), sure=False)
            _within(_ARRIVAL_SECONDS, lambda: not said.unknown())
        begun = said.begun()
        nobody = Verdict("mismatch", (), "a collective timed out although no rank hangs")
        return blame.find_mismatch(begun) or blame.find_missing(begun, said.unknown()) or nobody
    except (DistError, RuntimeError):
        # Without torchrun rank 0 keeps the store, and it does not answer.
        if timed_out and rank != 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            return blame.find_missing({**on_host, rank: own} if own else {}, [] if 0 in on_host else [0])
        return None


def _on_this_host(rank: int) -> dict[int, list[Collective]]:
    """What the other processes of this host have begun, of those that answer or have written it at their end."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return {}
    others = [one.local_rank for one in read_heartbeats(Path(folder)) if one.rank != rank and not one.done]
    collectives.ask(Path(folder), others, _ANSWER_SECONDS)
    found = collectives.read(Path(folder), collectives.attempt())
    return {other: begun for other, begun in found.items() if other != rank}


def _ended_early(begun: dict[int, list[Collective]]) -> Verdict | None:
    """A rank that ended in order, with a collective less than the others. (One that was killed has written nothing.)"""
    folder = os.environ.get(FOLDER)
    done = [one.rank for one in read_heartbeats(Path(folder)) if one.done] if folder else []
    verdict = blame.find_missing(begun, [])
    if verdict is None or verdict.ranks[0] not in done:
        return None
    waits = f"{blame.named(verdict.waiting)} wait{'s' if len(verdict.waiting) == 1 else ''}"
    text = f"it ended, but {verdict.text.removeprefix('it ')}, in which {waits}"
    return Verdict("mismatch", verdict.ranks, text)


class Said:
    """What ranks have said in the store lately: it outlives a restart, and hosts count their restarts differently."""

    def __init__(self, store: Store, world_size: int, *, since: float) -> None:
        self._store, self._ranks, self._since = store, range(world_size), since

    def say(self, who: str, begun: Sequence[Collective] = ()) -> None:
        said = {"time": time.time(), "begun": [asdict(one) for one in begun]}
        self._store.set(f"{_PREFIX}/{who}", json.dumps(said))

    def by(self, who: str) -> bool:
        return self._read(who) is not None

    def begun(self) -> dict[int, list[Collective]]:
        """What is known of ranks, by themselves or by others of their host."""
        found = {rank: self._read(str(rank)) or self._read(_asked(rank)) for rank in self._ranks}
        return {rank: begun for rank, begun in found.items() if begun}

    def unknown(self) -> list[int]:
        """The ranks of which nothing has been said."""
        return [rank for rank in self._ranks if not self.by(str(rank)) and not self.by(_asked(rank))]

    def _read(self, who: str) -> list[Collective] | None:
        key = f"{_PREFIX}/{who}"
        if not self._store.check([key]):
            return None
        said = json.loads(self._store.get(key))
        return collectives.from_json(said["begun"]) if said["time"] >= self._since else None


def _asked(rank: int) -> str:
    return f"{rank}/asked"


def tell_launcher(ranks: Sequence[int], reason: str = "", *, sure: bool = True) -> None:
    """Let this host's launcher end those of the ranks that are its own; where it is not sure that they hang, those that
    are stopped."""
    folder = os.environ.get(FOLDER)
    if not folder or not ranks:
        return
    path = Path(folder) / ABSENT_FILE
    temporary = path.with_suffix(f".{os.getpid()}")
    said = {"attempt": collectives.attempt(), "ranks": list(ranks), "sure": sure, "reason": reason}
    temporary.write_text(json.dumps(said), encoding="utf-8")
    temporary.replace(path)


def wait_for_launcher(ranks: Sequence[int]) -> None:
    """Give the launcher time to ask those that hang where they are: our end would have torchrun end them at once."""
    folder = os.environ.get(FOLDER)
    if folder:
        pids = [one.pid for one in read_heartbeats(Path(folder)) if one.rank in ranks]
        _within(LAUNCHER_SECONDS, lambda: bool(pids) and not any(Path(f"/proc/{pid}").exists() for pid in pids))


def host_of(rank: int) -> str:
    """The host of a rank; "" where the order of the hosts is not known."""
    hosts = os.environ.get(RANK_HOSTS, "").split(",")
    return hosts[rank // int(os.environ.get("LOCAL_WORLD_SIZE", 1))] if hosts[0] else ""


def named(ranks: Sequence[int]) -> str:
    """`rank 3 on algo-2, rank 4 on algo-3`."""
    return blame.named(ranks, lambda rank: f" on {host}" if (host := host_of(rank)) else "")


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)  # the store has no event that several keys could raise
    return True
