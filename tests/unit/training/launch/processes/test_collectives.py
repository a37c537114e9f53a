"""What a process has begun is written down when it is asked, also while its main thread waits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from drivetrain.training.launch.processes import collectives, heartbeat


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A group of this process alone, whose rank is 3."""
    monkeypatch.setenv(heartbeat.FOLDER, str(tmp_path))
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(collectives, "_raised", [])
    return tmp_path


PROGRAM = """
import os, sys, time
from pathlib import Path
import torch, torch.distributed as dist
from drivetrain.training.launch.processes import collectives
folder = Path(sys.argv[1])
dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), 1), rank=0, world_size=1)
dist.all_reduce(torch.ones(2, 3))
dist.broadcast(torch.ones(4, dtype=torch.int64), 0)
collectives.answer(folder, 1)
collectives.begun()
print("ready" if "torch._inductor" not in sys.modules else "the compiler was imported", flush=True)
if sys.argv[2] == "wait":
    time.sleep(60)
import ctypes
ctypes.CDLL("libstdc++.so.6")._ZSt9terminatev()
"""


def started(folder: Path, kind: str) -> subprocess.Popen[str]:
    environment = {**os.environ, heartbeat.FOLDER: str(folder), "LOCAL_RANK": "1", "RANK": "3"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), kind],
        env={**environment, "TORCH_FR_BUFFER_SIZE": "64"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_process_answers_and_writes_when_it_is_aborted(tmp_path: Path) -> None:
    with started(tmp_path, "wait") as waiting:
        assert waiting.stdout is not None and waiting.stdout.readline() == "ready\n"
        collectives.ask(tmp_path, [1, 7], 20)
        found = collectives.read(tmp_path, 0)
        waiting.kill()
    assert [str(one) for one in found[3]] == [
        "all_reduce of float [2, 3] (collective 1, called at <string>, line 8 in <module>)",
        "broadcast of long [4] (collective 2, called at <string>, line 9 in <module>)",
    ]
    assert found[3][0].ranks == (0,)
    assert collectives.read(tmp_path, 1) == {}, "what another attempt has written is left alone"
    (tmp_path / "store").unlink()
    with started(tmp_path, "end") as ending:
        _, err = ending.communicate(timeout=60)
    assert (ending.returncode, "terminate called" in err) == (-signal.SIGABRT, True)
    assert len(collectives.read(tmp_path, 0)[3]) == 2


def test_without_records_nothing_is_written(alone: Path) -> None:
    assert collectives.begun() == [] and collectives.write() == []
    assert not [*alone.iterdir()]


def test_the_line_is_that_which_called_torch() -> None:
    try:
        torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.ones(5).long())
    except ValueError as error:
        assert collectives._place(error).endswith("in test_the_line_is_that_which_called_torch")
    # (A main thread that is not in torch waits for nothing.)
    assert collectives._place(None) == ""


def test_dead_ranks_are_not_asked(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0.fifo")
    collectives.ask(tmp_path, [0, 1], 60)  # without a reader, and without a file: returns at once
    assert [path.name for path in tmp_path.iterdir()] == ["0.fifo"]


def test_a_rank_that_exits_while_asked_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "0.fifo")
    reader = os.open(tmp_path / "0.fifo", os.O_RDONLY | os.O_NONBLOCK)
    write = os.write

    def too_late(descriptor: int, data: bytes) -> int:
        os.close(reader)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", too_late)
    collectives.ask(tmp_path, [0], 60)


def test_records_round_trip(tmp_path: Path) -> None:
    one = {"group": "1", "ranks": [0, 2], "number": 4, "operation": "barrier", "sizes": [], "dtype": "", "place": ""}
    (tmp_path / "0.collectives.json").write_text(json.dumps({"rank": 2, "attempt": 1, "begun": [one]}))
    assert [str(call) for call in collectives.read(tmp_path, 1)[2]] == ["barrier (collective 4 of group 1)"]
