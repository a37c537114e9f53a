"""torch's profiler: every operator, and every kernel of a GPU."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity

from drivetrain.training.framework import Operator


class Profiler:
    """See drivetrain.training.framework.Profiler."""

    def __init__(self, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self._own_time = "self_device_time_total" if on_gpu else "self_cpu_time_total"
        self._activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]

    def start(self) -> None:
        self._profiler = torch.profiler.profile(activities=self._activities)
        self._profiler.start()

    def stop(self) -> tuple[bytes, list[Operator]]:
        self._profiler.stop()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            self._profiler.export_chrome_trace(str(path))
            trace = path.read_bytes()
        averages = self._profiler.key_averages()
        return trace, [Operator(one.key, getattr(one, self._own_time) * 1e-6, one.count) for one in averages]
