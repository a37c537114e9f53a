"""Ranks are forked from this process, which has imported torch once: a start takes 0.05 s and not seconds.

`pooled` runs a function on ranks that stay (rank_pool.py), `forked` on ranks of its own: for what kills a rank, fails,
patches a module (in the rank, or before it is forked) or has a time-out of its own.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet  # noqa: F401  (what every rank would import for itself)
import pytest
import torch
import torch._dynamo

from tests.distributed.own_ranks import run_forked
from tests.distributed.rank_pool import RankPool

# No pool of threads may exist in a process that forks; one thread a rank is also what the launcher gives on 2 cores.
torch.set_num_threads(1)


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def prepared_data() -> ModuleType:
    return _load("prepared_data")


@pytest.fixture
def digits(prepared_data: ModuleType, tmp_path: Path) -> Path:
    """50 rows: in batches of 16 the last batch of an epoch has 2."""
    return prepared_data.write_prepared(tmp_path / "train", prepared_data.digit_columns(50))


Forked = Callable[..., list[Any]]


@pytest.fixture
def forked(tmp_path: Path) -> Forked:
    """`forked(world_size, function, *arguments)`: what `function(process, *arguments)` returns on each rank.

    Real processes and real gloo; they meet through a file, so no port is taken. A rank in `may_die` may end without
    an answer (None), and nobody waits for it. `collective_timeout` is that of the ranks' group [s].
    """
    return partial(run_forked, tmp_path)


@pytest.fixture(scope="session")
def pools() -> Iterator[dict[int, RankPool]]:
    """By number of ranks; made when first asked for."""
    made: dict[int, RankPool] = {}
    yield made
    for pool in made.values():
        pool.end()


@pytest.fixture
def pooled(pools: dict[int, RankPool], tmp_path_factory: pytest.TempPathFactory) -> Forked:
    """`pooled(world_size, function, *arguments)`: as `forked`, on ranks that have worked for other tests.

    The function is one of a module, for it is sent by its name.
    """

    def run(world_size: int, function: Callable[..., Any], *arguments: Any, timeout: float = 60) -> list[Any]:
        pool = pools.get(world_size)
        if pool and not pool.is_alive():
            pool.end()
            pool = None
        if not pool:
            pool = pools[world_size] = RankPool(world_size, tmp_path_factory.getbasetemp())
        return pool.run(function, arguments, timeout)

    return run
