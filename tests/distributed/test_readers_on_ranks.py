"""The ranks of a host read together: one check of each file, one copy of large data, the same rows and hash on all."""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.input_pipeline import content, decoded, host_memory
from drivetrain.training.input_pipeline.choice import load_reader
from drivetrain.training.input_pipeline.cursor import Order
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.loader import Loader
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe

ROWS = 24


def read(process: Process, name: str, folder: Path, options: dict[str, Any], columns: tuple[str, ...]) -> Any:
    """(hash of the content, digest of all rows, files hashed by this rank, files of deleted names that are mapped)"""
    hashed: list[str] = []
    real = hashlib.file_digest

    def counting(stream: Any, algorithm: str) -> Any:
        hashed.append(stream.name)
        return real(stream, algorithm)

    content.hashlib.file_digest = counting  # in a process of its own, which ends after this
    reader = load_reader(name, folder, options, process)
    reader.open(columns)
    digest = hashlib.sha256()
    rows = reader.read(slice(0, len(reader)), columns)
    for column in columns:
        values = rows[column]
        digest.update(
            repr(values.tolist()).encode() if values.dtype == object else np.ascontiguousarray(values).tobytes()
        )
    maps = Path("/proc/self/maps").read_text().splitlines()
    scratch = f"{tempfile.gettempdir()}/drivetrain-"
    shared = {line.split()[4] for line in maps if scratch in line and line.endswith("(deleted)")}
    return reader.content_hash, digest.hexdigest(), hashed, shared


def read_kept(
    process: Process, hosts: int, caches: list[Path], folder: Path, options: dict[str, Any], columns: tuple[str, ...]
) -> Any:
    """As `read`, on several hosts with a cache each; and whether this rank has decoded."""
    size = process.world_size // hosts
    process = replace(process, local_rank=process.rank % size, local_world_size=size)
    decodes: list[bool] = []
    right = decoded.host_arrays
    decoded.host_arrays = lambda *given: (decodes.append(True), right(*given))[1]
    decoded.LEAST_SECONDS = 0.0
    os.environ[decoded.FOLDER] = str(caches[process.rank // size])
    return read(process, "imdb", folder, options, columns)[:2], bool(decodes)


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("hosts", [1, 2])
def test_ranks_share_decoded_data(hosts: int, forked: Any, tmp_path: Path) -> None:
    """One host without its entry: all decode, for the ranks wait for each other."""
    place = importlib.import_module("tests.contract.readers.imdb")
    columns = tuple(place.write(tmp_path / "data", ROWS, np.random.default_rng(0)))
    caches = [tmp_path / f"cache{number}" for number in range(hosts)]
    given = (hosts, caches, tmp_path / "data", place.OPTIONS, columns)
    starts = [forked(2, read_kept, *given) for _ in range(2)]
    for entry in caches[-1].glob("*.safetensors"):
        entry.unlink()
    starts += [forked(2, read_kept, *given) for _ in range(2)]
    assert [[decodes for _, decodes in start] for start in starts] == [[True] * 2, [False] * 2] * 2
    assert len({found for start in starts for found, _ in start}) == 1
    assert [len(list(cache.glob("*.safetensors"))) for cache in caches] == [1] * hosts


@pytest.mark.slow_cases(
    "image_folder", "npz", "mnist", "text", "huggingface", "webdataset", "tokenized", "cifar10", "imdb"
)
@pytest.mark.parametrize("name", plugins.names("readers"))
def test_one_copy_a_host_the_same_everywhere(
    name: str, forked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = importlib.import_module(f"tests.contract.readers.{name}")
    columns = tuple(place.write(tmp_path / "data", ROWS, np.random.default_rng(0)))
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    given = (name, tmp_path / "data", place.OPTIONS, columns)
    [(alone_hash, alone_rows, alone_files, alone_shared)] = forked(1, read, *given)
    assert not alone_shared
    for private_bytes in (1 << 30, 0):
        monkeypatch.setattr(host_memory, "PRIVATE_BYTES", private_bytes)
        answers = forked(3, read, *given)
        assert {found[:2] for found in answers} == {(alone_hash, alone_rows)}
        assert sorted(file for found in answers for file in found[2]) == sorted(alone_files)  # each by one rank
        shared = [found[3] for found in answers]
        assert shared[0] == shared[1] == shared[2]  # the same inodes
        # What lies in its files as it is read is mapped there and needs no copy.
        assert bool(shared[0]) == (not private_bytes and name not in ("cifar10", "text"))
    assert list((tmp_path / "scratch").iterdir()) == []


def on_two_hosts(process: Process, folders: list[Path], files: list[str]) -> tuple[str, str]:
    """Four ranks as two hosts of two, with a folder each: (hash, or the error)."""
    local = replace(process, local_rank=process.rank % 2, local_world_size=2)
    folder = folders[process.rank // 2]
    try:
        return content.content_hash(folder, [folder / file for file in files], local), ""
    except InputError as error:
        return "", str(error)


def test_hosts_with_other_data_are_reported(pooled: Any, tmp_path: Path) -> None:
    files = ["a", "b", "c"]
    folders = [tmp_path / "host-1", tmp_path / "host-2"]
    for folder in folders:
        folder.mkdir()
        for file in files:
            (folder / file).write_text(file)
    [(alone, _)] = pooled(1, one_host, folders[0], files)
    assert set(pooled(4, on_two_hosts, folders, files)) == {(alone, "")}
    (folders[1] / "b").write_text("other")
    answers = pooled(4, on_two_hosts, folders, files)
    assert all(error.startswith("host 2 has other data in ") for _, error in answers), answers


def one_host(process: Process, folder: Path, files: list[str]) -> tuple[str, str]:
    return content.content_hash(folder, [folder / file for file in files], process), ""


def two_hosts_on_one_machine(process: Process) -> list[int]:
    """Each host fills its own copy: what it reads must not be another's."""
    host_memory.PRIVATE_BYTES = 0
    local = replace(process, local_rank=process.rank % 2, local_world_size=2)
    with host_memory.host_arrays(local, {"x": ((4,), np.int64)}) as filling:
        filling["x"][filling.number :: filling.count] = process.rank
    return filling["x"].tolist()


def test_two_hosts_on_one_machine_do_not_meet(forked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert forked(4, two_hosts_on_one_machine) == [[0, 1, 0, 1]] * 2 + [[2, 3, 2, 3]] * 2


def torn(process: Process, folder: Path) -> str:
    try:
        Dataset(folder, load_recipe("digits_cnn", {}), process)
    except (InputError, RuntimeError) as error:
        return str(error)
    return "read"


@pytest.mark.parametrize("shard", [0, 1])
def test_a_torn_shard_is_named_by_the_rank_that_checks_it(forked: Any, digits: Path, shard: int) -> None:
    path = digits / f"part-{shard:05d}.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    # The other rank waits for this one, until it is gone.
    answers = forked(2, torn, digits, may_die=(0, 1))
    assert answers[shard].startswith(f"shard {path} has ")
    assert answers[1 - shard] != "read"


def loaded(process: Process, folder: Path, how: dict[str, int]) -> list[tuple[int, list[int], float, int, int]]:
    data = Dataset(folder, load_recipe("digits_cnn", {}), process)
    order = Order(len(data), 16, seed=7)
    with Loader(data, order, data_rank=process.rank, data_size=process.world_size, end=2 * len(data), **how) as steps:
        return [
            (
                step.consumed,
                step.indices.tolist(),
                float(step.batch.inputs.sum()),
                step.num_samples,
                step.num_global_samples,
            )
            for step in steps
        ]


@pytest.mark.parametrize("how", [{"prefetch": 0}, {"prefetch": 4}, {"workers": 1}])
def test_ranks_together_read_the_batches_of_one(pooled: Any, digits: Path, how: dict[str, int]) -> None:
    [alone] = pooled(1, loaded, digits, {"prefetch": 0})
    ranks = pooled(3, loaded, digits, how)
    assert len(alone) == 8
    for number, (consumed, indices, pixels, _, num_global) in enumerate(alone):
        steps = [rank[number] for rank in ranks]
        assert {(step[0], step[4]) for step in steps} == {(consumed, num_global)}
        assert [row for step in steps for row in step[1]] == indices
        if all(step[3] for step in steps):
            assert sum(step[2] for step in steps) == pytest.approx(pixels)


def test_the_fixture_is_what_these_tests_take_it_for(prepared_data: ModuleType, digits: Path) -> None:
    """Two shards, so that each of two ranks checks one; 50 rows, so that the last batch has 2 and a rank has none."""
    assert len(list(digits.glob("*.parquet"))) == 2
    assert prepared_data.json.loads((digits / "manifest.json").read_text())["rows"] == 50
