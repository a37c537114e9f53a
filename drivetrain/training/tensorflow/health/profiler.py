"""TensorFlow's profiler. It writes a message of its own (xplane.proto), which the TensorBoard plug-in would turn into a
trace; that is a package which training images do not have, so it is done here.

https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import (  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
    XSpace,
)

from drivetrain.training.framework import Operator

# On the CPU an operator's event is called by its node and its type, "model/dense/MatMul:MatMul"; what else is there
# belongs to the runtime. On a GPU every event is a kernel's, or a copy.
_OPERATOR = re.compile(r"[A-Za-z0-9.][\w.\\/>-]*:([A-Z_]\w*)")
_GPU = "/device:GPU"


class Profiler:
    """See drivetrain.training.framework.Profiler."""

    def __init__(self, device: str) -> None:
        self._on_gpu = device != "cpu"

    def start(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        tf.profiler.experimental.start(self._folder.name)

    def stop(self) -> tuple[bytes, list[Operator]]:
        tf.profiler.experimental.stop()
        with self._folder:
            (written,) = Path(self._folder.name).rglob("*.xplane.pb")
            space = XSpace.FromString(written.read_bytes())
        (began,) = (
            stat.uint64_value
            for plane in space.planes
            for stat in plane.stats
            if plane.stat_metadata[stat.metadata_id].name == "profile_start_time"
        )
        trace = {"baseTimeNanoseconds": began, "displayTimeUnit": "ms", "traceEvents": list(_events(space))}
        return json.dumps(trace).encode(), _operators(space, on_gpu=self._on_gpu)


def _events(space: Any) -> Iterator[dict[str, Any]]:
    """As Chrome's: a process a plane (the host, a GPU), a thread a line."""
    for pid, plane in enumerate(space.planes):
        if plane.lines:
            yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": plane.name}}
        for tid, line in enumerate(plane.lines):
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": line.name}}
            for event in line.events:
                told = {
                    "name": plane.event_metadata[event.metadata_id].name,
                    "ts": line.timestamp_ns / 1e3 + event.offset_ps / 1e6,
                    "dur": event.duration_ps / 1e6,
                }
                yield {"ph": "X", "pid": pid, "tid": tid, **told}


def _operators(space: Any, *, on_gpu: bool) -> list[Operator]:
    taken, calls = Counter[str](), Counter[str]()
    for plane in space.planes:
        if plane.name.startswith(_GPU) != on_gpu:
            continue
        types = {number: _type(metadata.name, on_gpu=on_gpu) for number, metadata in plane.event_metadata.items()}
        for line in plane.lines:
            around = list[tuple[int, str]]()  # operators that are not over, and when they will be
            for event in sorted(line.events, key=lambda event: (event.offset_ps, -event.duration_ps)):
                if not (kind := types[event.metadata_id]):
                    continue
                while around and around[-1][0] <= event.offset_ps:
                    around.pop()
                if around:
                    taken[around[-1][1]] -= event.duration_ps
                taken[kind] += event.duration_ps
                calls[kind] += 1
                around.append((event.offset_ps + event.duration_ps, kind))
    return [Operator(kind, picoseconds * 1e-12, calls[kind]) for kind, picoseconds in taken.items()]


def _type(name: str, *, on_gpu: bool) -> str:
    """The type of an event; "" if it is no operator."""
    found = _OPERATOR.fullmatch(name)
    return name if on_gpu else found[1] if found else ""
