"""Profile a few steps with torch's profiler.

<output>/profile/rank0-trace.json      for https://ui.perfetto.dev or chrome://tracing
<output>/profile/rank0-operators.txt   the operators that took longest
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.process import Process

FOLDER = "profile"
TRACE_FILE, TABLE_FILE = "rank0-trace.json", "rank0-operators.txt"
# The first steps allocate, compile and warm up: they are not like the others.
SKIPPED_STEPS = 2
ROWS = 15


class Profile:
    """Records `num_steps` steps of rank 0, from the third on; 0 records nothing and costs nothing.

    Raises:
        InputError: no folder to write to.
    """

    def __init__(self, process: Process, output: Path | None, num_steps: int) -> None:
        if num_steps and output is None:
            raise InputError(f"profile={num_steps} has nowhere to write to. Give --output, or leave profile out.")
        self._folder = output / FOLDER if output and num_steps and process.is_main else None
        self._num_steps, self._device = num_steps, process.device
        self._seen = 0
        self._profiler: Any = None

    def step(self) -> None:
        """A step was taken."""
        if self._folder is None:
            return
        self._seen += 1
        if self._seen == SKIPPED_STEPS:
            import torch

            activities = [torch.profiler.ProfilerActivity.CPU]
            if self._device.type == "cuda":
                activities.append(torch.profiler.ProfilerActivity.CUDA)
            self._profiler = torch.profiler.profile(activities=activities)
            self._profiler.start()
        elif self._seen == SKIPPED_STEPS + self._num_steps:
            self._write()

    def _write(self) -> None:
        if self._folder is None or self._profiler is None:
            return
        profiler, self._profiler = self._profiler, None
        profiler.stop()
        self._folder.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(self._folder / TRACE_FILE))
        table = operators(profiler.key_averages(), on_gpu=self._device.type == "cuda")
        (self._folder / TABLE_FILE).write_text(table + "\n", encoding="utf-8")
        steps = self._seen - SKIPPED_STEPS
        print(f"{steps} steps recorded in {self._folder / TRACE_FILE}; what took longest:\n{table}", flush=True)

    def __enter__(self) -> Profile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._folder and self._seen <= SKIPPED_STEPS:
            print(
                f"profile={self._num_steps}: nothing was recorded. The first {SKIPPED_STEPS} steps are left out, and "
                f"there were {self._seen}.",
                flush=True,
            )
        self._write()  # a training that ends early, also one that fails, has recorded what it did


def operators(averages: Any, *, on_gpu: bool) -> str:
    """The operators by their own time, longest first, without what they call."""
    own = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    events = sorted(averages, key=lambda event: getattr(event, own), reverse=True)
    total = sum(getattr(event, own) for event in events) or 1.0
    lines = [f"{'ms':>10} {'share':>6} {'calls':>7}  operator" + (" (GPU time)" if on_gpu else "")]
    for event in events[:ROWS]:
        taken = getattr(event, own)
        lines.append(f"{taken / 1000:10.2f} {taken / total:6.1%} {event.count:7d}  {event.key[:70]}")
    return "\n".join(lines)
