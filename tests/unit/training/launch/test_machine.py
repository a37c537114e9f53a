"""What the launcher samples of its host: Linux's counters, and NVML's answers."""

from __future__ import annotations

import ctypes
import json
import time
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.launch.machine import MOST_SAMPLES, PAUSE_S, Accelerator, Gpus, Machine, in_words, samples
from drivetrain.training.launch.processes.heartbeat import FOLDER


class Proc:
    """A host that has worked for `seconds`: 75 % of its CPU busy, a disk that read 1 MB and wrote 2 MB a second."""

    seconds = 10.0

    def __call__(self, name: str) -> str:
        ticks = 100 * self.seconds
        if name == "stat":
            return (
                f"cpu {ticks * 0.7:.0f} 0 {ticks * 0.05:.0f} {ticks * 0.2:.0f} {ticks * 0.05:.0f} 0 0 0 0 0\ncpu0 1\n"
            )
        if name == "meminfo":
            return "MemTotal:  1000 kB\nMemFree: 100 kB\nMemAvailable:   400 kB\n"
        if name == "vmstat":
            return f"pgfault 99\npgmajfault {3 * self.seconds:.0f}\n"
        if name == "net/dev":
            own = f"  eth0: {4e6 * self.seconds:.0f} 1 0 0 0 0 0 0 {5e6 * self.seconds:.0f} 1 0 0 0 0 0 0"
            return f"Inter-|\n face |\n    lo: 7 1 0 0 0 0 0 0 7 1\n{own}\n"
        disk = f"9 0 {1e6 * self.seconds / 512:.0f} 0 9 0 {2e6 * self.seconds / 512:.0f} 0 0 0 0"
        return f"   8  0 sda {disk}\n   8  1 sda1 {disk}\n   7  0 loop0 {disk}\n 259 0 nvme0n1p1 0 0 0 0 0 0 0 0\n"


class Driver:
    """NVML with one GPU, whose temperature it does not tell."""

    def __init__(self, used: int = 40) -> None:
        self.used = used

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return 0

    def nvmlDeviceGetCount_v2(self, answer: Any) -> int:  # noqa: N802
        answer._obj.value = 1
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, answer: Any) -> int:  # noqa: N802
        answer._obj.value = 7
        return 0

    def nvmlDeviceGetUtilizationRates(self, handle: ctypes.c_void_p, answer: Any) -> int:  # noqa: N802
        answer._obj.gpu = self.used
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: ctypes.c_void_p, answer: Any) -> int:  # noqa: N802
        answer._obj.total, answer._obj.used = 80, 20
        return 0

    def nvmlDeviceGetPowerUsage(self, handle: ctypes.c_void_p, answer: Any) -> int:  # noqa: N802
        answer._obj.value = 300_500
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: ctypes.c_void_p, answer: Any) -> int:  # noqa: N802
        answer._obj.value = 0x20 | 0x1
        return 0

    def nvmlDeviceGetTemperature(self, handle: ctypes.c_void_p, sensor: int, answer: Any) -> int:  # noqa: N802
        return 3  # not supported


def machine(folder: Path, proc: Proc, gpus: Gpus | None = None) -> Machine:
    return Machine(folder, gpus or Gpus(Driver()), read=proc, now=lambda: proc.seconds)


def test_rates_are_those_since_the_sample_before(tmp_path: Path) -> None:
    proc = Proc()
    watched = machine(tmp_path, proc)
    proc.seconds += 5
    found = watched.sample()
    assert (found["cpu"], found["memory"], found["faults"]) == (0.75, 0.6, 3.0)
    assert found["disk_read"] == pytest.approx(1e6, rel=1e-3) and found["disk_written"] == pytest.approx(2e6, rel=1e-3)
    assert (found["received"], found["sent"]) == (4e6, 5e6)
    assert found["gpus"] == [{"utilisation": 0.4, "memory": 0.25, "power": 300.5, "throttled": 1.0}]
    said = in_words([found])
    assert said.startswith(
        "CPU 75%; memory at most 60%; disk read 1.0 MB/s; disk written 2.0 MB/s; received 4.0 MB/s; sent 5.0 MB/s; "
    )
    assert said.endswith("GPU 0 40%, throttled for 100% of the time")
    assert "received 120 B/s; sent 1.2 kB/s" in in_words([{"received": 120.4, "sent": 1234.5}])


def test_a_sample_is_taken_when_it_is_due_and_kept_within_bounds(tmp_path: Path) -> None:
    proc = Proc()
    watched, environment = machine(tmp_path, proc, Gpus(Absent())), {FOLDER: str(tmp_path)}
    watched.tick()
    assert samples(environment) == []
    for _ in range(MOST_SAMPLES * 3):
        proc.seconds += PAUSE_S
        watched.tick()
    kept = samples(environment)
    assert MOST_SAMPLES // 2 <= len(kept) <= MOST_SAMPLES
    assert not (tmp_path / "accelerators").exists() and "gpus" not in kept[0]
    assert all(json.dumps(one) for one in kept)


def test_a_rank_reads_its_own_gpu(tmp_path: Path) -> None:
    proc, driver = Proc(), Driver()
    watched, environment = machine(tmp_path, proc, Gpus(driver)), {FOLDER: str(tmp_path)}
    own = Accelerator({**environment, "LOCAL_RANK": "0"})
    for driver.used in (40, 90):
        proc.seconds += PAUSE_S
        watched.tick()
        assert own.utilisation() == driver.used / 100
    assert Accelerator({**environment, "LOCAL_RANK": "1"}).utilisation() == -1.0
    assert Accelerator({}).utilisation() == -1.0
    assert samples({}) == []


class Absent:
    """A driver that does not answer."""

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return 9


def test_this_host_is_sampled_at_less_than_a_hundredth_of_a_core(tmp_path: Path) -> None:
    watched = Machine(tmp_path)
    found, begun = watched.sample(), time.process_time()
    for _ in range(10):
        found = watched.sample()
    assert (time.process_time() - begun) / 10 < 0.01 * PAUSE_S
    assert 0 <= found["cpu"] <= 1 and 0 < found["memory"] < 1
