"""Two hosts that are really apart: network namespaces with one cable between them, and host names without an address.

gloo and torchrun look up the host's own name where nobody tells them better; in many containers it has none.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest

from drivetrain.training.launch.processes.parent import announce_parent

pytestmark = pytest.mark.slow

TRAIN = """
import socket
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([1.0])
dist.all_reduce(value)
print(f"rank {dist.get_rank()} on {socket.gethostname()} sum {value.item():.0f}", flush=True)
dist.barrier()
dist.destroy_process_group()
"""
LIBRARY = ctypes.CDLL(None)
# A shell that waits for its end, in namespaces of its own.
HOST = ["unshare", "--net", "--uts", "--", "sh", "-c", 'hostname "$0" && ip link set lo up && echo ready && read end']
ADDRESSES = {"first": "10.177.0.1", "second": "10.177.0.2"}


def namespaces_are_allowed() -> bool:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip"))):
        return False
    return subprocess.run(["unshare", "--net", "--uts", "true"], capture_output=True).returncode == 0


@pytest.fixture
def hosts() -> Generator[dict[str, int]]:
    """Host name -> a process that lives there."""
    started = {
        name: subprocess.Popen(
            [*HOST, f"{name}-without-an-address"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ADDRESSES
    }
    try:
        for process in started.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        first, second = (process.pid for process in started.values())
        inside(first, "ip", "link", "add", "cable0", "type", "veth", "peer", "name", "cable1", "netns", str(second))
        for pid, device, address in zip((first, second), ("cable0", "cable1"), ADDRESSES.values(), strict=True):
            inside(pid, "ip", "address", "add", f"{address}/24", "dev", device)
            inside(pid, "ip", "link", "set", device, "up")
        yield {name: process.pid for name, process in started.items()}
    finally:
        for process in started.values():
            process.communicate("end\n")


def enter(pid: int) -> None:
    """Be in the namespaces of a process, as by nsenter(1)."""
    for name in ("net", "uts"):
        with open(f"/proc/{pid}/ns/{name}") as namespace:
            assert LIBRARY.setns(namespace.fileno(), 0) == 0


def inside(pid: int, *words: str) -> None:
    subprocess.run(words, check=True, preexec_fn=partial(enter, pid))


@pytest.mark.skipif(not namespaces_are_allowed(), reason="needs root and network namespaces (unshare, ip)")
def test_the_interface_between_the_hosts_is_found_and_no_name_is_looked_up(
    hosts: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "drivetrain.training_scripts.launch", "--processes=2", "--script", "train.py"),
            ],
            cwd=tmp_path,
            preexec_fn=partial(enter, pid),
            env=announce_parent(
                {**os.environ, "DRIVETRAIN_HOSTS": ",".join(ADDRESSES.values()), "DRIVETRAIN_HOST": ADDRESSES[name]}
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, pid in hosts.items()
    ]
    try:
        for number, (process, name) in enumerate(zip(processes, hosts, strict=True)):
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            assert f"network interface cable{number} (the route to the other hosts)" in out
            said = sorted(line for line in out.splitlines() if line.startswith("rank"))
            assert said == [f"rank {rank} on {name}-without-an-address sum 4" for rank in (2 * number, 2 * number + 1)]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
