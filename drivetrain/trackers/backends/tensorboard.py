"""TensorBoard: event files below a folder, a folder a run: `tensorboard --logdir FOLDER`.

Metrics over the training's step, the settings in the HParams tab, results as scalars, the places of the page and of the
outputs as text (TensorBoard keeps no files). A resumed run writes a further file into its folder.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drivetrain.trackers.tracker import AbsolutePath, Point, TrackedRun, TrackerSettings, plain_name

PACKAGE = "tensorboard"


class Settings(TrackerSettings):
    """Below which folder the run's folder is made."""

    folder: AbsolutePath = Path("tensorboard")


def connect(settings: Settings, run: TrackedRun, earlier: str | None) -> TensorBoardRun:
    """The folder of a run."""
    return TensorBoardRun(settings.folder / (earlier or f"{run.pipeline}-{run.id}"), run)


class TensorBoardRun:
    """Event files of one run."""

    def __init__(self, folder: Path, run: TrackedRun) -> None:
        self.id, self.url = folder.name, str(folder)
        self._run = run
        self._files: Any = _part("summary.writer.event_file_writer").EventFileWriter(str(folder))
        self._text("drivetrain/page", str(run.page))

    def parameters(self, values: Mapping[str, str]) -> None:
        hparams = _part("plugins.hparams.summary_v2").hparams_pb(dict(values), trial_id=self._run.id)
        self._add(hparams, 0, self._run.started)

    def metrics(self, points: Sequence[Point]) -> None:
        for one in points:
            self._scalar(f"{one.step}/{plain_name(one.name)}", one.value, one.position, one.time)
        self._files.flush()

    def results(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._scalar(plain_name(name), value, 0, time.time())

    def artifact(self, name: str, path: Path) -> None:
        self._text(f"artifacts/{plain_name(name)}", str(path))

    def end(self, status: str) -> None:
        self._text("drivetrain/status", status)
        self._files.close()

    def _scalar(self, tag: str, value: float, position: int, at: float) -> None:
        Summary = _part("compat.proto.summary_pb2").Summary  # noqa: N806
        self._add(Summary(value=[Summary.Value(tag=tag, simple_value=value)]), position, at)

    def _text(self, tag: str, text: str) -> None:
        Summary = _part("compat.proto.summary_pb2").Summary  # noqa: N806
        tensor = _part("compat.proto.tensor_pb2").TensorProto(
            dtype=_part("compat.proto.types_pb2").DT_STRING, string_val=[text.encode()]
        )
        about = _part("plugins.text.metadata").create_summary_metadata(display_name=tag, description="")
        self._add(Summary(value=[Summary.Value(tag=tag, metadata=about, tensor=tensor)]), 0, time.time())

    def _add(self, summary: Any, position: int, at: float) -> None:
        event = _part("compat.proto.event_pb2").Event(wall_time=at, step=position, summary=summary)
        self._files.add_event(event)


def _part(name: str) -> Any:
    """A module of TensorBoard's, which has no types."""
    return importlib.import_module(f"tensorboard.{name}")
