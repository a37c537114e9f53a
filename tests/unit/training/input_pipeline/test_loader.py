from __future__ import annotations

import gc
import json
import multiprocessing
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline import chunks
from drivetrain.training.input_pipeline.cursor import Order, StreamOrder, WeightedOrder
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.loader import Loader, Step
from drivetrain.training.process import Process
from drivetrain.training.reader import Columns
from drivetrain.training.recipe import Batch

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
NUM_ROWS = 53
HOW: dict[str, dict[str, int]] = {
    "inline": {"prefetch": 0},
    "thread": {},
    "thread, one ahead": {"prefetch": 1},
    "a worker": {"workers": 1},
    "two workers": {"workers": 2, "prefetch": 3},
}


class OddError(Exception):
    """Cannot be made again from what it keeps."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")


@dataclass(frozen=True)
class Numbers:
    """Rows are numbers; some of them cannot be read."""

    bad_row: int = -1
    error: type[Exception] = InputError
    columns: tuple[str, ...] = ("x",)
    num_classes: int | None = None

    def batch(self, columns: Columns, label: str) -> Batch:
        if (columns["x"] == self.bad_row).any():
            raise (
                self.error(self.bad_row, "odd") if self.error is OddError else self.error(f"row {self.bad_row} is bad")
            )
        return Batch(torch.from_numpy(columns["x"])[:, None], torch.from_numpy(columns[label]))


@dataclass(frozen=True)
class Noisy(Numbers):
    def augment(self, batch: Batch, seeds: NDArray[np.uint64]) -> Batch:
        assert seeds.dtype == np.uint64 and seeds.shape == (len(batch.inputs),)
        noise = torch.from_numpy((seeds >> np.uint64(40)).astype(np.float64))
        return Batch(batch.inputs + noise[:, None], batch.targets)


@pytest.fixture
def folder(prepared_data: ModuleType, tmp_path: Path) -> Path:
    columns = {"x": np.arange(NUM_ROWS, dtype=np.float64), "label": np.arange(NUM_ROWS) * 10}
    return prepared_data.write_prepared(tmp_path / "data", columns)


def dataset(folder: Path, recipe: Any = None) -> Dataset:
    return Dataset(folder, recipe or Numbers(), ALONE)


def plain(step: Step) -> tuple[Any, ...]:
    inputs, targets = step.batch.inputs[:, 0].tolist(), step.batch.targets.tolist()
    return step.consumed, step.indices.tolist(), inputs, targets, step.num_samples, step.num_global_samples


def taken(data: Dataset, order: Order, consumed: int, steps: int, **how: Any) -> list[tuple[Any, ...]]:
    with Loader(data, order, consumed, **how) as reading:
        return [plain(next(reading)) for _ in range(steps)]


@pytest.fixture(autouse=True, scope="module")
def what_others_left_is_not_looked_at() -> None:
    """The collector runs after each test, and what all tests before have left takes it a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_is_left(what_others_left_is_not_looked_at: None) -> Any:
    others = set(multiprocessing.active_children())  # ranks that other files share
    yield
    gc.collect()
    assert [thread.name for thread in threading.enumerate() if thread.name == "loader"] == []
    assert set(multiprocessing.active_children()) <= others


@pytest.mark.slow_cases("2-two workers", "3-two workers")
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_way_gives_the_batches_of_the_order(folder: Path, how: str, size: int) -> None:
    data, order = dataset(folder), Order(NUM_ROWS, 8, seed=4)
    for rank in range(size):
        consumed = 0
        for found in taken(data, order, 0, 20, data_rank=rank, data_size=size, **HOW[how]):
            whole = order.batch(consumed)
            own = whole[len(whole) * rank // size : len(whole) * (rank + 1) // size].tolist()
            assert found == (consumed, own, own, [10 * row for row in own], len(own), len(whole))
            consumed += len(whole)


@pytest.mark.slow_cases("a worker")
@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=pytest.mark.slow if how == "two workers" else []) for how in HOW]
)
def test_it_starts_anywhere(folder: Path, how: str) -> None:
    data = dataset(folder, Noisy())
    for order in (
        Order(NUM_ROWS, 8, 4),
        Order(NUM_ROWS, 8, 4, drop_last=True),
        WeightedOrder(np.arange(NUM_ROWS), 8, 4),
        StreamOrder([20, 33], 12, 8, 4),
    ):
        whole = taken(data, order, 0, 16, **HOW[how])
        for start in (3, 7, 11):
            assert taken(data, order, whole[start][0], 5, **HOW[how]) == whole[start : start + 5]


@pytest.mark.parametrize("how", ["inline", "thread", "two workers"])
@pytest.mark.parametrize("end", [NUM_ROWS * 2, NUM_ROWS + 24, 0])
def test_it_ends(folder: Path, how: str, end: int) -> None:
    with Loader(dataset(folder), Order(NUM_ROWS, 8, 4), end=end, **HOW[how]) as reading:
        steps = list(reading)
        assert next(reading, None) is None
    assert sum(step.num_global_samples for step in steps) == end


@pytest.mark.parametrize("how", ["inline", "thread", "a worker"])
def test_a_process_without_samples_gets_a_stand_in(folder: Path, how: str) -> None:
    order = Order(NUM_ROWS, 2, seed=4)
    for found, step in zip(
        taken(dataset(folder), order, 0, 30, data_rank=0, data_size=3, **HOW[how]), range(30), strict=True
    ):
        whole = order.batch(found[0])
        assert found[1] == [] and found[4] == 0 and found[5] == len(whole), step
        assert found[2] == [whole[0]]


def test_augmented_samples_are_the_same_on_any_number_of_processes_and_others_in_each_epoch(folder: Path) -> None:
    data, order = dataset(folder, Noisy()), Order(NUM_ROWS, 8, seed=4)
    steps = 14
    whole = [dict(zip(step[1], step[2], strict=True)) for step in taken(data, order, 0, steps)]
    parts = [taken(data, order, 0, steps, data_rank=rank, data_size=3) for rank in range(3)]
    for number, expected in enumerate(whole):
        found = [dict(zip(part[number][1], part[number][2], strict=True)) for part in parts]
        assert found[0] | found[1] | found[2] == expected
    first = {row: value for step in whole[:7] for row, value in step.items()}
    second = {row: value for step in whole[7:] for row, value in step.items()}
    assert all(first[row] != second[row] for row in range(NUM_ROWS))


def test_chunks_lie_on_a_grid_that_does_not_depend_on_the_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe that looks at its whole batch, say to cut padding, gets the same rows after a restart."""
    data, order, seen = dataset(folder), Order(NUM_ROWS, 8, 4), []
    real = Dataset.batch
    monkeypatch.setattr(Dataset, "batch", lambda self, rows: seen.append(len(rows)) or real(self, rows))
    taken(data, order, 0, 14, prefetch=0)
    taken(data, order, 0, 7, prefetch=0, data_size=1)
    assert seen == [1, NUM_ROWS, NUM_ROWS, 1, NUM_ROWS]
    seen.clear()
    taken(data, order, NUM_ROWS + 24, 4, prefetch=0)
    assert seen == [1, NUM_ROWS]
    seen.clear()
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 8 * 16 * 3)  # three steps of eight samples of two numbers
    taken(data, order, NUM_ROWS + 24, 4, prefetch=0)
    assert seen == [1, 24, 5]


@pytest.mark.parametrize("how", ["inline", "thread", "two workers"])
def test_an_error_comes_where_the_step_would_have_come(folder: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_STEPS", 1)
    order = Order(NUM_ROWS, 8, 4)
    bad_row = int(order.batch(24)[5])
    with Loader(dataset(folder, Numbers(bad_row)), order, **HOW[how]) as reading:
        for _ in range(3):
            next(reading)
        with pytest.raises(InputError, match=rf"^row {bad_row} is bad(\n|$)") as caught:
            next(reading)
    text = "".join([str(caught.traceback[-1].path), *getattr(caught.value, "__notes__", [])])
    assert "test_loader.py" in text  # where it happened is told, in a worker too


@pytest.mark.parametrize("how", ["inline", "thread", "a worker"])
def test_no_error_looks_like_the_end(folder: Path, how: str) -> None:
    recipe = Numbers(int(Order(NUM_ROWS, 8, 4).batch(8)[0]), StopIteration)
    with (
        Loader(dataset(folder, recipe), Order(NUM_ROWS, 8, 4), **HOW[how]) as reading,
        pytest.raises(RuntimeError, match="reading a batch ended with StopIteration"),
    ):
        next(reading)


def test_an_error_that_cannot_leave_its_process_comes_as_text(folder: Path) -> None:
    recipe = Numbers(int(Order(NUM_ROWS, 8, 4).batch(8)[0]), OddError)
    message = r"a loader worker failed:(.|\n)*OddError: row \d+: odd"
    with (
        Loader(dataset(folder, recipe), Order(NUM_ROWS, 8, 4), workers=1) as reading,
        pytest.raises(RuntimeError, match=message),
    ):
        next(reading)


@pytest.mark.parametrize("how", ["inline", "thread"])
def test_batches_for_a_gpu_are_pinned_on_that_gpu(folder: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str, object]] = []

    def note(call: str, result: Any = None) -> Any:
        def noted(given: Any) -> Any:
            calls.append((call, threading.current_thread().name, given))
            return result(given) if result else None

        return noted

    monkeypatch.setattr(torch.cuda, "set_device", note("device"))
    monkeypatch.setattr(torch.Tensor, "pin_memory", note("pin", torch.Tensor.clone))
    second = torch.device("cuda", 1)
    found = taken(dataset(folder), Order(NUM_ROWS, 8, 4), 0, 7, device=second, end=NUM_ROWS, **HOW[how])
    assert found == taken(dataset(folder), Order(NUM_ROWS, 8, 4), 0, 7)
    assert [call for call, _, _ in calls] == ["device"] * (how == "thread") + ["pin", "pin"]  # one chunk, two tensors
    assert {thread for _, thread, _ in calls} == {"loader" if how == "thread" else threading.main_thread().name}
    assert how == "inline" or calls[0][2] == second


def test_the_thread_reads_no_further_than_it_was_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it goes on as soon as there is room."""
    monkeypatch.setattr(chunks, "CHUNK_STEPS", 1)
    data, read, progressed = dataset(folder), [], threading.Condition()
    real = Dataset.batch

    def counting(self: Dataset, rows: Any) -> Batch:
        with progressed:
            read.append(len(rows))
            progressed.notify_all()
        return real(self, rows)

    monkeypatch.setattr(Dataset, "batch", counting)
    with Loader(data, Order(NUM_ROWS, 8, 4), prefetch=3) as reading, progressed:
        assert progressed.wait_for(lambda: len(read) == 1 + 3, timeout=20)  # one to measure a sample
        assert not progressed.wait_for(lambda: len(read) > 1 + 3, timeout=0.2)
        progressed.release()
        next(reading)
        progressed.acquire()
        assert progressed.wait_for(lambda: len(read) == 1 + 4, timeout=20)


@pytest.mark.slow
def test_a_hanging_read_does_not_block_the_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank whose peer is lost is to be gone within 5 s, also where its data lie in a network folder that is gone."""
    data, hangs, answers = dataset(folder), threading.Event(), threading.Event()
    real = Dataset.batch

    def hanging(self: Dataset, rows: Any) -> Batch:
        if threading.current_thread().name == "loader":
            hangs.set()
            assert answers.wait(30)
        return real(self, rows)

    monkeypatch.setattr(Dataset, "batch", hanging)
    reading = Loader(data, Order(NUM_ROWS, 8, 4))
    thread = next(thread for thread in threading.enumerate() if thread.name == "loader")
    assert hangs.wait(20)
    started = time.monotonic()
    reading.close()
    seconds = time.monotonic() - started
    answers.set()
    thread.join(20)
    assert seconds < 10  # 2 s on a quiet machine; the read hangs for 30


def test_a_loader_that_is_forgotten_ends_its_thread(folder: Path) -> None:
    reading = Loader(dataset(folder), Order(NUM_ROWS, 8, 4))
    next(reading)
    thread = next(thread for thread in threading.enumerate() if thread.name == "loader")
    del reading
    gc.collect()
    thread.join(timeout=20)
    assert not thread.is_alive()


@pytest.mark.parametrize("how", ["inline", "thread", "two workers"])
def test_after_close_there_is_nothing(folder: Path, how: str) -> None:
    reading = Loader(dataset(folder), Order(NUM_ROWS, 8, 4), **HOW[how])
    next(reading)
    reading.close()
    reading.close()
    assert next(reading, None) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prefetch": -1}, "prefetch=-1; allowed are whole numbers from 0"),
        ({"workers": -2}, "workers=-2; allowed are whole numbers from 0"),
        ({"workers": 1, "prefetch": 0}, r"workers=1 with prefetch=0: workers read ahead\. Give a prefetch from 1"),
    ],
)
def test_numbers_that_are_none(folder: Path, given: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Loader(dataset(folder), Order(NUM_ROWS, 8, 4), **given)


ENDS = """
import json, os, sys
from pathlib import Path
import torch
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.loader import Loader
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe

while line := sys.stdin.readline():  # a fork for each
    pid = os.fork()
    if pid == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    sys.exit()
folder, how, end = json.loads(line)
for number, name in ((1, "stdout"), (2, "stderr")):
    os.dup2(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT), number)
data = Dataset(Path(folder), load_recipe("digits_cnn", {}), Process(0, 1, 0, 1, torch.device("cpu")))
reading = Loader(data, data.order(global_batch=4, seed=0), workers=int(how), prefetch=40)
if end != "at once":
    next(reading)
print("children", *Path(f"/proc/self/task/{os.getpid()}/children").read_text().split(), flush=True)
if end in ("os._exit", "at once"):
    os._exit(3)
elif end == "error":
    raise KeyError("in the loop")
"""


@pytest.fixture(scope="module")
def forking() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported torch, and forks one that opens a loader for each line."""
    command = [sys.executable, "-c", ENDS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("how", ["0", "2"])
@pytest.mark.parametrize(("end", "code"), [("return", 0), ("error", 1), ("os._exit", 3), ("at once", 3)])
def test_a_process_with_an_open_loader_ends(
    forking: subprocess.Popen[str], prepared_data: ModuleType, tmp_path: Path, how: str, end: str, code: int
) -> None:
    folder = prepared_data.write_prepared(tmp_path / "digits", prepared_data.digit_columns(2000))
    assert forking.stdin is not None and forking.stdout is not None
    forking.stdin.write(json.dumps([str(folder), how, end]) + "\n")
    forking.stdin.flush()
    ended = forking.stdout.readline()
    out, errors = ((folder / name).read_text() for name in ("stdout", "stderr"))
    assert int(ended) == code, errors
    assert ("KeyError: 'in the loop'" in errors) == (end == "error")
    assert "Fatal" not in errors and "terminate called" not in errors
    children = [int(word) for word in out.split()[1:]]
    assert len(children) >= int(how)
    for child in children:
        try:
            handle = os.pidfd_open(child)
        except ProcessLookupError:
            continue
        ended_in_time = select.select([handle], [], [], 3)[0]
        os.close(handle)
        assert ended_in_time, f"worker {child} lives on"
