from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist

from drivetrain.training.group.gloo import use_one_gloo_worker
from drivetrain.training.process import join_group
from drivetrain.training.torch import joining


def test_one_process_alone_needs_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with join_group() as process:
        assert (process.rank, process.world_size, process.is_main) == (0, 1, True)
        assert not dist.is_initialized()


def test_the_collectives_wait_as_long_as_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[Any] = []
    monkeypatch.setattr(dist, "init_process_group", lambda backend, timeout: joined.append(timeout))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: joined.append("left"))
    monkeypatch.setattr(joining, "give_way", lambda: joined.append("in batch mode"))
    for name, value in {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with join_group(2.5) as process:
        assert (process.rank, process.world_size, process.local_rank, process.local_world_size) == (3, 4, 1, 2)
    assert joined == ["in batch mode", timedelta(seconds=2.5), "left"]

    # After a failure the others may be gone: leaving in order would wait for them.
    joined.clear()
    with pytest.raises(RuntimeError, match="boom"), join_group():
        raise RuntimeError("boom")
    assert joined == ["in batch mode", timedelta(seconds=600)]


def test_groups_are_made_with_what_newer_torch_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.14 says enable_reconfigure, which stands among the options beside the time-out and the threads."""
    made: list[Any] = []

    class Options:
        _devices, _timeout, _threads, enable_reconfigure = [], timedelta(), 2, False

    class Gloo:
        _Options = Options

        def __init__(self, store: Any, rank: int, size: int, options: Options) -> None:
            made.append((store, rank, size, options))

    monkeypatch.setattr(dist, "ProcessGroupGloo", Gloo)
    monkeypatch.setattr("drivetrain.training.group.gloo._gloo_devices", lambda pid, interfaces: ["device"])
    use_one_gloo_worker.__wrapped__()
    group: Any = Gloo
    group("store", 1, 2, timeout=timedelta(seconds=3), enable_reconfigure=True)
    ((*where, options),) = made
    assert where == ["store", 1, 2]
    assert (options._timeout, options._threads, options._devices) == (timedelta(seconds=3), 1, ["device"])
    assert options.enable_reconfigure is True
