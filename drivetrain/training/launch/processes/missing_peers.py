"""Why a collective failed: who did not come to it before it timed out, or who called another one.

gloo says only that it timed out, and names no rank. So a rank that lost its peers asks the others of its host what they
have begun (collectives.py). If there are other hosts it writes that, and what it knows, to the store that torchrun
keeps (which no rank can stop). blame.py compares. After a short wait, a rank that has reported nothing is the one that
hangs.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.training.launch.processes import blame, collectives
from drivetrain.training.launch.processes.blame import Verdict
from drivetrain.training.launch.processes.collectives import Collective
from drivetrain.training.launch.processes.heartbeat import FOLDER, RANK_HOSTS, process_state, read_heartbeats

if TYPE_CHECKING:
    from torch.distributed import Store

# Written by a process that waited in vain: the ranks that it waited for.
ABSENT_FILE = "absent.json"
TIMED_OUT = re.compile(r"[Tt]imed out|timeout|Timeout")
# A rank whose connection was closed does not know why until the rank that closed it has said so.
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
    """After a failed collective: the ranks that did not finish it, or called another one; None if unknown.

    Called on every rank that has lost its peers; waits for the others to do the same, about ten seconds at most. A
    verdict without ranks: all have come, so it is the network, or calls that nothing records.
    """
    rank, world_size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if world_size == 1 or not address or not port:
        return None
    timed_out = bool(TIMED_OUT.search(str(error)))
    own, folder = collectives.begun(error), os.environ.get(FOLDER)
    on_host: dict[int, list[Collective]] = {}
    if own and folder:
        here = OnHost(Path(folder), world_size)
        if here.has_all:
            return _decided(here, timed_out)
        on_host = {other: begun for other, begun in here.begun().items() if other != rank}
    from torch.distributed import DistError

    try:
        said = Said(_connected(address, int(port)), world_size, since=time.time() - _RECENT_SECONDS)
        said.say(str(rank), own)
        for other, begun in on_host.items():
            said.say(_asked(other), begun)
        return _decided(said, timed_out)
    except (DistError, RuntimeError):
        # Without torchrun rank 0 keeps the store, and it does not answer.
        if timed_out and rank != 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
            return blame.find_missing({**on_host, rank: own} if own else {}, [] if 0 in on_host else [0])
        return None


def _connected(address: str, port: int) -> Store:
    """
    Raises:
        DistError, RuntimeError: it does not answer. (torch waits for one whose process is stopped without an end.)
    """
    from torch.distributed import DistNetworkError, TCPStore

    found: list[Store | Exception] = []

    def connect() -> None:
        try:
            found.append(TCPStore(address, port, is_master=False, timeout=_STORE_TIMEOUT, wait_for_workers=False))
        except RuntimeError as error:
            found.append(error)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_STORE_TIMEOUT.total_seconds())
    store = found[0] if found else DistNetworkError(f"{address}:{port} does not answer")
    if isinstance(store, Exception):
        raise store
    return store


def _decided(told: OnHost | Said, timed_out: bool) -> Verdict | None:
    if timed_out:
        told.tell_timed_out()
    if (verdict := blame.find_mismatch(told.begun())) is not None:
        return verdict
    if not timed_out and not _within(_TOLD_SECONDS, lambda: told.has_timed_out() or bool(_ended_early(told.begun()))):
        return None
    if (verdict := _ended_early(told.begun())) is not None:
        return verdict
    if not _within(_SUSPECT_SECONDS, lambda: not told.unknown()):
        tell_launcher(told.unknown(), sure=False)
        _within(_ARRIVAL_SECONDS, lambda: not told.unknown())
    begun = told.begun()
    nobody = Verdict("mismatch", (), "a collective timed out although no rank hangs")
    return blame.find_mismatch(begun) or blame.find_missing(begun, told.unknown()) or nobody


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


class OnHost:
    """Answers of this host's ranks, given when asked or written at their end.

    Attributes:
        has_all: whether these are all ranks.
    """

    def __init__(self, folder: Path, world_size: int) -> None:
        self._folder, self._ranks, self._attempt = folder, range(world_size), collectives.attempt()
        self._timed_out = folder / f"timed-out-{self._attempt}"
        beats = read_heartbeats(folder)
        self.has_all = {one.rank for one in beats} == {*self._ranks}
        # (One that is stopped, or gone, does not answer.)
        there = [one.local_rank for one in beats if not one.done and process_state(one.pid) not in ("T", "t", "")]
        collectives.ask(folder, there, _ANSWER_SECONDS)

    def begun(self) -> dict[int, list[Collective]]:
        return collectives.read(self._folder, self._attempt)

    def unknown(self) -> list[int]:
        return sorted({*self._ranks} - self.begun().keys())

    def tell_timed_out(self) -> None:
        self._timed_out.touch()

    def has_timed_out(self) -> bool:
        return self._timed_out.exists()


class Said:
    """Recent answers of ranks of several hosts in the store: it outlives a restart, and hosts count their restarts
    differently."""

    def __init__(self, store: Store, world_size: int, *, since: float) -> None:
        self._store, self._ranks, self._since = store, range(world_size), since

    def say(self, who: str, begun: Sequence[Collective] = ()) -> None:
        said = {"time": time.time(), "begun": [asdict(one) for one in begun]}
        self._store.set(f"{_PREFIX}/{who}", json.dumps(said))

    def by(self, who: str) -> bool:
        return self._read(who) is not None

    def tell_timed_out(self) -> None:
        self.say(_TIMED_OUT)

    def has_timed_out(self) -> bool:
        return self.by(_TIMED_OUT)

    def begun(self) -> dict[int, list[Collective]]:
        """The known collectives of ranks, from themselves or from others of their host."""
        found = {rank: self._read(str(rank)) or self._read(_asked(rank)) for rank in self._ranks}
        return {rank: begun for rank, begun in found.items() if begun}

    def unknown(self) -> list[int]:
        """The ranks without a report."""
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
