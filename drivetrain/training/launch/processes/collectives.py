"""Collectives that a process has begun: torch's flight recorder, read from inside, and asked for from outside.

    <folder>/<local rank>.fifo               a byte in it asks the process
    <folder>/<local rank>.collectives.json   its answer: the last collectives of each group, in the order of their start

A process writes its answer also when a collective fails, when it ends, and when native code aborts it: gloo does so
where two ranks give tensors of different sizes. The launcher turns the recorder on (TORCH_FR_BUFFER_SIZE), at a cost of
2 µs a collective; where it is off, and without torch.distributed, there is no answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from drivetrain.training.launch.processes.heartbeat import FOLDER

_SUFFIX, _FIFO = ".collectives.json", ".fifo"
# Enough to see what usually follows what in a step.
MOST_KEPT = 200
_DEFAULT_GROUP = "0"  # the name that torch gives the group of all ranks
_TORCH = f"{os.sep}torch{os.sep}"
_kept: list[object] = []  # what C code holds a pointer to
_raised: list[BaseException] = []  # by the last collective; later calls raise the same


@dataclass(frozen=True)
class Collective:
    """The `number`th collective of a group, as one rank calls it.

    Attributes:
        group: torch's name for it, the same on all ranks.
        ranks: its members.
        operation: all_reduce, broadcast, ...
        sizes: of the tensors that the rank gives.
        dtype: of the first of them; "" without one.
        place: the line that calls it; "" where torch knows none (a thread without Python, on a GPU).
    """

    group: str
    ranks: tuple[int, ...]
    number: int
    operation: str
    sizes: tuple[tuple[int, ...], ...]
    dtype: str
    place: str

    def __str__(self) -> str:
        shapes = ", ".join(str(list(size)) for size in self.sizes)
        given = f" of {self.dtype.lower()} {shapes}" if shapes else ""
        group = "" if self.group == _DEFAULT_GROUP else f" of group {self.group}"
        at = f", called at {self.place}" if self.place else ""
        return f"{self.operation}{given} (collective {self.number}{group}{at})"


Begun = Mapping[int, Sequence[Collective]]
"""By rank, what it has begun, the last one last."""


def begun(error: BaseException | None = None) -> list[Collective]:
    """The last collectives of this process; none where nothing records them.

    Args:
        error: which the last one raised. It, or what the main thread does, tells the line where torch knows none.
    """
    torch_c: Any = sys.modules.get("torch._C._distributed_c10d")
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if torch_c is None or c10d is None or not hasattr(torch_c, "_dump_fr_trace"):
        return []
    # (A program that has left its groups does not know their members any more.)
    members: dict[str, tuple[int, ...]] = {_DEFAULT_GROUP: tuple(range(int(os.environ.get("WORLD_SIZE", "1"))))}
    names = c10d._world.pg_names
    # (A group that this process made and is no member of has ranks, and no name.)
    members |= {names[group]: tuple(ranks) for group, ranks in c10d._world.pg_group_ranks.items() if group in names}
    with _without_compiler():
        told = pickle.loads(torch_c._dump_fr_trace())
    found = [_collective(entry, members) for entry in told.get("entries", [])[-MOST_KEPT:] if not entry["is_p2p"]]
    found = [one for one in found if one.ranks]
    if found and not found[-1].place:
        found[-1] = replace(found[-1], place=_place(error))
    return found


def write(error: BaseException | None = None) -> list[Collective]:
    """Write down what this process has begun, where the launcher and the other ranks of the host find it."""
    if error is not None:
        _raised[:] = [error]
    own, folder = begun(_raised[0] if _raised else None), os.environ.get(FOLDER)
    if own and folder:
        path = Path(folder) / f"{os.environ.get('LOCAL_RANK', '0')}{_SUFFIX}"
        said = {"rank": int(os.environ.get("RANK", "0")), "attempt": attempt(), "begun": [asdict(one) for one in own]}
        temporary = path.with_suffix(f".{threading.get_ident()}")
        with contextlib.suppress(FileNotFoundError):  # the launcher has just ended, and its folder with it
            temporary.write_text(json.dumps(said), encoding="utf-8")
            temporary.replace(path)
    return own


def attempt() -> int:
    """How often torchrun has started this process's group before."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def answer(folder: Path, local_rank: int) -> None:
    """From now on answer each request, also while the program waits in native code; and write when it is aborted."""
    path = folder / f"{local_rank}{_FIFO}"
    path.unlink(missing_ok=True)
    (folder / f"{local_rank}{_SUFFIX}").unlink(missing_ok=True)
    os.mkfifo(path)
    # (Open for writing, too: without a writer a read would end at once.)
    fifo = os.open(path, os.O_RDWR)

    def wait_for_questions() -> None:
        # Signals are for the program's own threads: faulthandler writes the stack of the thread that gets it first.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while os.read(fifo, 1):
            write()

    threading.Thread(target=wait_for_questions, name="collectives", daemon=True).start()
    _write_when_terminated()


def ask(folder: Path, local_ranks: Iterable[int], seconds: float) -> None:
    """Let processes of this host write down what they have begun; wait for those that do.

    Args:
        seconds: how long at most: one that is stopped, or computes in native code, does not answer.
    """
    asked: dict[Path, int] = {}
    for local_rank in local_ranks:
        try:
            fifo = os.open(folder / f"{local_rank}{_FIFO}", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # it has ended, or does not answer at all
            continue
        path = folder / f"{local_rank}{_SUFFIX}"
        asked[path] = _changed(path)
        try:
            os.write(fifo, b"?")
        except BlockingIOError:  # it has been asked so often before
            pass
        except BrokenPipeError:  # it has ended since
            del asked[path]
        finally:
            os.close(fifo)
    deadline = time.monotonic() + seconds
    while any(_changed(path) == before for path, before in asked.items()) and time.monotonic() < deadline:
        time.sleep(0.005)  # no event covers several files


def read(folder: Path, of_attempt: int) -> dict[int, list[Collective]]:
    """Read what this host's processes have written, by rank."""
    found: dict[int, list[Collective]] = {}
    for path in folder.glob(f"*{_SUFFIX}"):
        said = json.loads(path.read_text(encoding="utf-8"))
        if said["attempt"] == of_attempt:
            found[said["rank"]] = from_json(said["begun"])
    return found


def from_json(given: Iterable[Mapping[str, Any]]) -> list[Collective]:
    """Read collectives from the output of `asdict`."""
    return [
        Collective(**{**one, "ranks": tuple(one["ranks"]), "sizes": tuple(map(tuple, one["sizes"]))}) for one in given
    ]


class _NoCompiler:
    """Hides torch._inductor from torch's traceback formatter; all other importers get the real module."""

    def __getattr__(self, name: str) -> Any:
        if name == "codecache":
            raise AttributeError(name)
        return getattr(importlib.import_module("torch._inductor"), name)


@contextlib.contextmanager
def _without_compiler() -> Iterator[None]:
    """For the first stack that torch puts into words it would import its compiler, which takes seconds."""
    torch: Any = sys.modules["torch"]
    stand_in = None if "torch._inductor" in sys.modules else _NoCompiler()
    if stand_in:
        torch._inductor = stand_in
    try:
        yield
    finally:
        if stand_in and torch._inductor is stand_in:
            del torch._inductor


def _collective(entry: Mapping[str, Any], members: Mapping[str, tuple[int, ...]]) -> Collective:
    group, types = entry["process_group"][0], entry["input_dtypes"]
    stack = ((frame["filename"], frame["line"], frame["name"]) for frame in entry.get("frames", ()))
    return Collective(
        group,
        members.get(group, ()),
        entry["collective_seq_id"],
        entry["profiling_name"].partition(":")[2],
        tuple(tuple(size) for size in entry["input_sizes"]),
        types[0] if types else "",
        _outside_of_torch(stack),
    )


def _place(error: BaseException | None) -> str:
    """The line outside of torch that has called the last collective."""
    if error is not None:
        stack = [*traceback.walk_tb(error.__traceback__)][::-1]
    else:
        main = sys._current_frames().get(threading.main_thread().ident or 0)
        if main is None or _TORCH not in main.f_code.co_filename:  # it does something else
            return ""
        stack = [*traceback.walk_stack(main)]
    return _outside_of_torch((frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in stack)


def _outside_of_torch(stack: Iterable[tuple[str, int, str]]) -> str:
    """The innermost line (file, number, function) that is not torch's; "" without one."""
    own = next((one for one in stack if _TORCH not in one[0]), None)
    return f"{own[0]}, line {own[1]} in {own[2]}" if own else ""


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _write_when_terminated() -> None:
    """An exception that no C++ code catches ends the process: write first. It is not a signal's handler, and may run
    Python; what was there before prints the reason and aborts."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:  # another C++ library: an abort then tells the line alone
        return
    handler_type = ctypes.CFUNCTYPE(None)
    set_terminate: Any = library["_ZSt13set_terminatePFvvE"]
    set_terminate.restype, set_terminate.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

    def terminate() -> None:
        try:
            write()
        finally:
            before()

    handler = handler_type(terminate)
    _kept.append(handler)
    before = handler_type(set_terminate(ctypes.cast(handler, ctypes.c_void_p)))
