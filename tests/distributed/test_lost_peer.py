"""What a rank sees when another dies is recognized as a consequence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from drivetrain.training.launch.processes.failure import is_lost_peer
from drivetrain.training.process import Process


def lose_a_peer(process: Process, operation: str) -> tuple[str, bool]:
    process.barrier()
    if process.rank == 1:
        os._exit(1)
    try:
        for _ in range(3):
            if operation == "sum":
                process.sum(torch.ones(1000))
            else:
                process.broadcast_bytes(b"x" * 1000 if process.is_main else None)
                process.barrier()
    except Exception as error:
        return str(error), is_lost_peer(error)
    raise AssertionError("the other rank is gone and nothing was raised")


@pytest.mark.parametrize("operation", ["sum", "broadcast"])
def test_a_lost_peer_is_a_consequence(operation: str, forked: Any) -> None:
    answer, _ = forked(2, lose_a_peer, operation, may_die=(1,))
    message, recognized = answer
    assert recognized, message


@pytest.mark.parametrize(
    "error", [ValueError("boom"), RuntimeError("mat1 and mat2 shapes cannot be multiplied"), OSError("Broken pipe")]
)
def test_an_error_of_the_program_is_no_lost_peer(error: Exception) -> None:
    assert not is_lost_peer(error)


def test_bytes_reach_every_rank(forked: Any, tmp_path: Path) -> None:
    for data in (b"", b"\x00\xff" * 1000):
        assert forked(3, broadcast, data) == [data] * 3


def broadcast(process: Process, data: bytes) -> bytes:
    return process.broadcast_bytes(data if process.is_main else None)
