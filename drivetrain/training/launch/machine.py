"""Samples of this host while a job runs. The launcher takes them, so the training pays nothing.

    <folder>/machine.jsonl    a sample a line, at most MOST_SAMPLES: then every second one goes
    <folder>/accelerators     the utilisation of each GPU (float64), in shared memory: the ranks read their own

Linux's own counters (proc(5)), and the driver's for GPUs. A sample costs about half a millisecond of CPU time.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drivetrain.base.formatting import size
from drivetrain.training.launch.processes.heartbeat import FOLDER

SAMPLES_FILE, ACCELERATORS_FILE = "machine.jsonl", "accelerators"
MOST_SAMPLES = 240
PAUSE_S = 2.0
_SECTOR = 512  # bytes, in /proc/diskstats, whatever the disk's own are
_UTILISATION = struct.Struct("<d")
# A partition's traffic is that of its disk, and a loop's that of the disk below.
_NO_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr")


class Machine:
    """`tick` takes a sample when one is due.

    Args:
        folder: where the processes of this host report.
        read: gives the text of a file of /proc, by its name.
    """

    def __init__(
        self,
        folder: Path,
        gpus: Gpus | None = None,
        *,
        read: Callable[[str], str] = lambda name: Path("/proc", name).read_text(encoding="ascii", errors="replace"),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._read, self._now = folder, read, now
        self._gpus = Gpus() if gpus is None else gpus
        self._samples: list[dict[str, Any]] = []
        self._pause = PAUSE_S
        self._counters, self._at = self._count(), now()
        self._utilisations: mmap.mmap | None = None
        if self._gpus.count:
            with (folder / ACCELERATORS_FILE).open("w+b") as file:
                file.truncate(_UTILISATION.size * self._gpus.count)
                self._utilisations = mmap.mmap(file.fileno(), 0)

    def tick(self) -> None:
        if self._now() - self._at < self._pause:
            return
        self._samples.append(self.sample())
        if len(self._samples) > MOST_SAMPLES:
            self._samples, self._pause = self._samples[1::2], self._pause * 2
        temporary = self._folder / f"{SAMPLES_FILE}.partial"
        temporary.write_text("".join(json.dumps(one) + "\n" for one in self._samples), encoding="utf-8")
        temporary.replace(self._folder / SAMPLES_FILE)

    def sample(self) -> dict[str, Any]:
        """Sample the host since the last call. `cpu` and `memory` are shares, `faults` page faults from disk a second;
        disks and network in bytes a second."""
        before, since = self._counters, self._at
        self._counters, self._at = self._count(), self._now()
        passed = max(self._at - since, 1e-3)
        rates = {name: (value - before.get(name, value)) / passed for name, value in self._counters.items()}
        busy, whole = rates.pop("cpu busy"), rates.pop("cpu")
        memory = _numbers(self._read("meminfo"))
        gpus = self._gpus.sample()
        if self._utilisations is not None:
            for number, one in enumerate(gpus):
                _UTILISATION.pack_into(self._utilisations, number * _UTILISATION.size, one.get("utilisation", -1.0))
        return {
            "time": round(time.time(), 1),
            "cpu": round(busy / whole, 4) if whole else 0.0,
            "memory": round(1 - memory["MemAvailable"][0] / memory["MemTotal"][0], 4),
            **{name: round(value, 1) for name, value in rates.items()},
            **({"gpus": gpus} if gpus else {}),
        }

    def _count(self) -> dict[str, float]:
        cpu = [float(word) for word in self._read("stat").split("\n", 1)[0].split()[1:9]]
        disks = [line.split() for line in self._read("diskstats").splitlines()]
        # (sda1 begins with sda, nvme0n1p1 with nvme0n1: those are parts of a disk that is counted.)
        names = [row[2] for row in disks if not row[2].startswith(_NO_DISKS)]
        whole = {name for name in names if not any(name != other and name.startswith(other) for other in names)}
        mine = [row for row in disks if row[2] in whole]
        network = [line.partition(":") for line in self._read("net/dev").splitlines()[2:]]
        traffic = [words.split() for name, _, words in network if name.strip() != "lo"]
        return {
            "cpu": sum(cpu),
            "cpu busy": sum(cpu) - cpu[3] - cpu[4],  # but idle, and waiting for disks
            "faults": _numbers(self._read("vmstat"))["pgmajfault"][0],
            "disk_read": sum(float(row[5]) for row in mine) * _SECTOR,
            "disk_written": sum(float(row[9]) for row in mine) * _SECTOR,
            "received": sum(float(row[0]) for row in traffic),
            "sent": sum(float(row[8]) for row in traffic),
        }


class Accelerator:
    """The launcher's samples of this process's GPU, read in the training."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        folder, place = environment.get(FOLDER), int(environment.get("LOCAL_RANK", "0")) * _UTILISATION.size
        path = Path(folder or "/", ACCELERATORS_FILE)
        self._memory: mmap.mmap | None = None
        if folder and path.is_file() and path.stat().st_size >= place + _UTILISATION.size:
            with path.open("rb") as file:
                self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._place = place

    def utilisation(self) -> float:
        """From 0 to 1; -1 without a GPU, or if it is unknown."""
        return -1.0 if self._memory is None else _UTILISATION.unpack_from(self._memory, self._place)[0]


def samples(environment: Mapping[str, str] = os.environ) -> list[dict[str, Any]]:
    """Read the samples of this host's launcher; empty without a launcher."""
    path = Path(environment.get(FOLDER, "/nowhere"), SAMPLES_FILE)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def resident() -> float:
    """Bytes of this process in memory."""
    descriptor = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return float(int(os.read(descriptor, 200).split()[1]) * mmap.PAGESIZE)
    finally:
        os.close(descriptor)


def in_words(taken: Sequence[Mapping[str, Any]]) -> str:
    """Summarise a host's samples in words: means, and maxima where these matter."""

    def mean(name: str) -> float:
        return sum(float(one.get(name, 0.0)) for one in taken) / len(taken)

    highest = max(float(one.get("memory", 0.0)) for one in taken)
    rates = [
        f"{what} {size(round(mean(name)))}/s"
        for name, what in (
            ("disk_read", "disk read"),
            ("disk_written", "disk written"),
            ("received", "received"),
            ("sent", "sent"),
        )
    ]
    words = [f"CPU {mean('cpu'):.0%}", f"memory at most {highest:.0%}", *rates]
    for number in range(max(len(one.get("gpus", ())) for one in taken)):
        gpu = [one["gpus"][number] for one in taken if len(one.get("gpus", ())) > number]
        used = [one["utilisation"] for one in gpu if "utilisation" in one]
        degrees = [one["temperature"] for one in gpu if "temperature" in one]
        slowed = sum(one.get("throttled", 0.0) for one in gpu) / len(gpu)
        told = [f"{sum(used) / len(used):.0%}"] if used else []
        told += [f"at most {max(degrees):.0f} C"] if degrees else []
        told += [f"throttled for {slowed:.0%} of the time"] if slowed else []
        words.append(f"GPU {number} {', '.join(told) or 'says nothing'}")
    return "; ".join(words)


def _numbers(text: str) -> dict[str, list[float]]:
    """`name: number ...` or `name number`, a line each."""
    rows = [line.replace(":", " ").split() for line in text.splitlines()]
    return {row[0]: [float(word) for word in row[1:] if word.isdigit()] for row in rows if row}


_SUCCESS, _TEMPERATURE_GPU = 0, 0
# Of nvmlClocksEventReasons, those that take speed away: power cap, thermal and hardware slowdown.
_THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class Gpus:
    """This host's GPUs, by NVML (libnvidia-ml, a part of every driver; https://docs.nvidia.com/deploy/nvml-api/).

    Args:
        library: NVML; found by its name unless given.

    Attributes:
        count: how many there are; 0 without a driver, or where it does not answer.
    """

    def __init__(self, library: Any = None) -> None:
        self._library = library if library is not None else _load()
        self._handles: list[ctypes.c_void_p] = []
        if self._library is None or self._library.nvmlInit_v2() != _SUCCESS:
            return
        count = self._ask(self._library.nvmlDeviceGetCount_v2, ctypes.c_uint())
        for index in range(count.value if count is not None else 0):
            handle = ctypes.c_void_p()
            if self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == _SUCCESS:
                self._handles.append(handle)

    @property
    def count(self) -> int:
        return len(self._handles)

    def sample(self) -> list[dict[str, float]]:
        """For each GPU: `utilisation` (0 to 1), `memory` (0 to 1), `power` [W], `temperature` [degrees C], `throttled`
        (0 or 1); what the driver does not tell is left out."""
        found: list[dict[str, float]] = []
        for handle in self._handles:
            used = self._ask(self._library.nvmlDeviceGetUtilizationRates, _Utilization(), handle)
            memory = self._ask(self._library.nvmlDeviceGetMemoryInfo, _Memory(), handle)
            power = self._ask(self._library.nvmlDeviceGetPowerUsage, ctypes.c_uint(), handle)
            reasons = self._ask(self._library.nvmlDeviceGetCurrentClocksThrottleReasons, ctypes.c_ulonglong(), handle)
            degrees = ctypes.c_uint()
            told = self._library.nvmlDeviceGetTemperature(handle, _TEMPERATURE_GPU, ctypes.byref(degrees))
            one = {
                "utilisation": used.gpu / 100 if used is not None else None,
                "memory": memory.used / memory.total if memory is not None and memory.total else None,
                "power": power.value / 1000 if power is not None else None,
                "temperature": float(degrees.value) if told == _SUCCESS else None,
                "throttled": float(bool(reasons.value & _THROTTLED)) if reasons is not None else None,
            }
            found.append({name: value for name, value in one.items() if value is not None})
        return found

    @staticmethod
    def _ask(function: Callable[..., int], answer: Any, *given: Any) -> Any:
        return answer if function(*given, ctypes.byref(answer)) == _SUCCESS else None


def _load() -> Any:
    try:
        return ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:  # there is no driver, and so no GPU of theirs
        return None
