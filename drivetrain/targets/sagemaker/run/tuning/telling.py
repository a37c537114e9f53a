"""Messages for people while a tuning goes on: a note of it all, and lines for each training in the step's log."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from drivetrain.base.formatting import UNHEALTHY, count, duration, number
from drivetrain.base.masking import Masking
from drivetrain.run_store.events import unhealthy_part
from drivetrain.targets.sagemaker.run.tuning.completion import best
from drivetrain.targets.sagemaker.run.tuning.config import TuningConfig
from drivetrain.targets.sagemaker.run.tuning.trials import Trial

LOG = "tuning.log"
# Hyperparameters in a line that has more to say.
_MOST_TOLD = 6


def note(config: TuningConfig, ended: Sequence[Trial]) -> str:
    """`7 of 20 trainings, best accuracy 0.93 (training 004)`."""
    told = f"{len(ended)} of {count(config.num_trainings, 'training')}"
    first = best(config, ended)
    return told if first is None else f"{told}, {_best_words(config, first)} (training {first.label})"


def result(config: TuningConfig, ended: Sequence[Trial], masking: Masking) -> str:
    """`best accuracy 0.93 (training 004 of 20: rate 0.01, depth 4; 3 stopped early, 1 failed)`."""
    first = best(config, ended)
    if first is None:
        return "no training gave an objective"
    stopped = sum(trial.status == "Stopped" for trial in ended)
    failed = sum(trial.status == "Failed" for trial in ended)
    parts = [f"{stopped} stopped early"] if stopped else []
    parts += [f"{failed} failed"] if failed else []
    told = dict(list(masking(first.parameters).items())[:_MOST_TOLD])
    others = "; " + ", ".join(parts) if parts else ""
    said = f"{_best_words(config, first)} (training {first.label} of {len(ended)}: {chosen(told)}{others})"
    failed_rule = unhealthy_part(first.reason)
    return f"{said}; {UNHEALTHY}{failed_rule}" if failed_rule else said


def _best_words(config: TuningConfig, trial: Trial) -> str:
    metric = config.definition(trial.definition).objective.metric
    return f"best {metric} {number(trial.objective or 0.0)}"


def chosen(parameters: Mapping[str, str]) -> str:
    """`eta 0.1, max_depth 4`; long numbers are cut."""
    return ", ".join(f"{name} {_short(text)}" for name, text in parameters.items())


class Log:
    """The log of the step. What the trainings themselves write lies beside it, in a folder a training."""

    def __init__(self, folder: Path, masking: Masking) -> None:
        self._path, self._masking = folder / LOG, masking

    def began(self, name: str, config: TuningConfig, seed: int, ended: Sequence[Trial]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        kind = "maximizes" if config.objective.maximize else "minimizes"
        self._write(
            f"{name}: {config.strategy} search {kind} {config.objective.metric} in at most "
            f"{count(config.num_trainings, 'training')}, {config.max_parallel} at a time; seed {seed}"
        )
        self._write(f"the trainings' own logs: {self._path.parent}/NUMBER/HOST.log")
        for told in config.notes:
            self._write(told)
        if ended:
            self._write(f"goes on: {count(len(ended), 'training')} ended before and are not run again")

    def started(self, trial: Trial) -> None:
        of = f" ({trial.definition})" if trial.definition else ""
        self._write(f"{trial.label}{of} starts: {chosen(self._masking(trial.parameters))}")

    def ended(self, trial: Trial) -> None:
        value = "no objective" if trial.objective is None else f"objective {trial.objective:.6g}"
        seconds = (trial.ended or 0.0) - (trial.started or 0.0)
        why = f": {trial.reason}" if trial.reason else ""
        self._write(f"{trial.label} {trial.status}, {value}, {duration(seconds)}{why}")

    def over(self, why: str | None) -> None:
        self._write(f"over: {why}" if why else "over: all trainings have ended")

    def _write(self, line: str) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def _short(text: str) -> str:
    try:
        return text if len(text) <= 8 else f"{float(text):.4g}"
    except ValueError:
        return text.strip('"')
