"""A killed runner in the middle of a real torchrun training: every rank has a session of its own, and all must end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drivetrain import processes as containers
from drivetrain.processes import mounts, process_table

pytestmark = pytest.mark.slow

BUSY = 10  # that a machine which does other things may take longer [s]

TRAIN = """
import os, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.ones(4096, 8), batch_size=8, num_workers=1)
log = open(f"output/rank{dist.get_rank()}", "w")
while True:
    for batch in data:
        model(batch).sum().backward()
        optimizer.step()
        print(os.getsid(0) == os.getpid(), file=log, flush=True)
"""
RUNNER = """
import json, os, sys
from pathlib import Path
from drivetrain.processes import container, mounts
isolation, folder = sys.argv[1:]
mounts.isolation = lambda: isolation
job = container.Job(
    command=("python3", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "code/train.py"),
    environment={"OMP_NUM_THREADS": "1"},
    hosts=(container.Host("127.0.0.1", Path(folder, "ml")),), log_folder=Path(folder, "logs"),
)
container.start(job, record=lambda all: Path(folder, "processes").write_text(json.dumps(vars(all[0])))).wait()
"""


@pytest.mark.parametrize("isolation", ["pid", "none"])
def test_no_rank_outlives_the_runner_by_five_seconds(tmp_path: Path, isolation: str) -> None:
    pytest.importorskip("torch")
    if isolation == "pid" and mounts.isolation() != "pid":
        pytest.skip("this machine allows no pid namespaces")
    output = tmp_path / "ml" / "output"
    for folder in (output, tmp_path / "ml" / "code"):
        folder.mkdir(parents=True)
    (tmp_path / "ml" / "code" / "train.py").write_text(TRAIN)
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, isolation, str(tmp_path)])
    try:
        deadline = time.monotonic() + 120
        while not all((output / f"rank{rank}").exists() and (output / f"rank{rank}").stat().st_size for rank in (0, 1)):
            log = tmp_path / "logs" / "127.0.0.1.log"
            assert runner.poll() is None and time.monotonic() < deadline, log.read_text() if log.exists() else "no log"
            time.sleep(0.05)
        # Counted while all live: after the kill they go one by one.
        record = containers.ProcessRecord(**json.loads((tmp_path / "processes").read_text()))
        everything = {record.pid, *process_table.descendants(record.pid), *containers.with_token(record.token)}
    finally:
        runner.kill()
        killed = time.monotonic()
        runner.wait()
    assert len(everything) >= 7, "guard, manager, torchrun, two ranks and their loaders"
    while living := [pid for pid in everything | set(containers.with_token(record.token)) if is_running(pid)]:
        assert time.monotonic() - killed < 5 + BUSY, living
        time.sleep(0.02)
    print(f"{isolation}: {len(everything)} processes ended {time.monotonic() - killed:.2f} s after the runner")
    sizes = [(output / f"rank{rank}").stat().st_size for rank in (0, 1)]
    assert all((output / f"rank{rank}").read_text().startswith("True") for rank in (0, 1)), "ranks lead sessions"
    assert sizes == [(output / f"rank{rank}").stat().st_size for rank in (0, 1)]


def is_running(pid: int) -> bool:
    fields = process_table.stat(pid)
    return fields is not None and fields[0] != "Z"
