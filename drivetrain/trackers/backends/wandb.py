"""Weights & Biases: a run of a project; with `mode: offline` in a folder, to be sent later by `wandb sync`.

Metrics over the training's step (one axis a step of the pipeline), settings as the run's config, the run's page and
outputs as artifacts. The run has our id, so that a resumed run continues it. The key belongs into $WANDB_API_KEY.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from drivetrain.trackers.tracker import AbsolutePath, Point, TrackedRun, TrackerSettings, plain_name

PACKAGE = "wandb"
_INIT_TIMEOUT_S = 20.0


class Settings(TrackerSettings):
    """Settings of the tracker Weights & Biases; `folder` is where W&B writes (the working folder, unless given)."""

    project: str = "drivetrain"
    entity: str | None = None
    mode: Literal["online", "offline"] = "online"
    folder: AbsolutePath = Path()


def connect(settings: Settings, run: TrackedRun, earlier: str | None) -> WandbRun:
    """The run of W&B's that has our id."""
    if settings.mode == "online" and not os.environ.get("WANDB_API_KEY") and not _logged_in():
        raise ValueError("not logged in to W&B: set $WANDB_API_KEY, run wandb login, or give mode: offline")
    import wandb

    settings.folder.mkdir(parents=True, exist_ok=True)
    made = wandb.init(
        project=settings.project,
        entity=settings.entity,
        mode=settings.mode,
        dir=str(settings.folder),
        id=run.id,
        resume="allow",
        name=run.name or f"{run.pipeline}-{run.id}",
        group=run.pipeline,
        tags=[f"{name}={text}"[:64] for name, text in run.tags.items()],
        config={"drivetrain.run": run.id, "drivetrain.page": str(run.page)},
        settings=wandb.Settings(
            silent=True, console="off", disable_git=True, x_disable_stats=True, init_timeout=_INIT_TIMEOUT_S
        ),
    )
    return WandbRun(wandb, made, run)


def _logged_in() -> bool:
    import netrc

    try:
        return netrc.netrc().authenticators("api.wandb.ai") is not None
    except (FileNotFoundError, netrc.NetrcParseError):
        return False


class WandbRun:
    """One run in W&B."""

    def __init__(self, wandb: Any, made: Any, run: TrackedRun) -> None:
        self._wandb, self._run = wandb, made
        self._axes: set[str] = set()
        self.id = run.id
        self.url = made.url or str(Path(made.dir).parent)

    def parameters(self, values: Mapping[str, str]) -> None:
        self._run.config.update(dict(values), allow_val_change=True)

    def metrics(self, points: Sequence[Point]) -> None:
        rows: dict[tuple[str, int], dict[str, float]] = {}
        for one in points:
            axis = f"{one.step}/step"
            if axis not in self._axes:
                self._axes.add(axis)
                self._run.define_metric(axis, hidden=True)
                self._run.define_metric(f"{one.step}/*", step_metric=axis)
            row = rows.setdefault((one.step, one.position), {axis: float(one.position)})
            row[f"{one.step}/{plain_name(one.name)}"] = one.value
        for row in rows.values():
            self._run.log(row)

    def results(self, values: Mapping[str, float]) -> None:
        self._run.summary.update(dict(values))

    def artifact(self, name: str, path: Path) -> None:
        kept = self._wandb.Artifact(plain_name(name).replace("/", "-").replace(" ", "_"), type="output")
        kept.add_dir(str(path)) if path.is_dir() else kept.add_file(str(path))
        self._run.log_artifact(kept)

    def end(self, status: str) -> None:
        self._run.finish(exit_code=0 if status in ("Succeeded", "CompletedWithFailures") else 1)
