"""Judge how far an agent's copy of the checkpoints is behind. Nothing here reads a disk, a clock or the network.

SageMaker's agent copies the checkpoint folder to S3 while the job writes it. It leaves a mark beside each file:
`<name>.sagemaker-uploading` while it is at it, `<name>.sagemaker-uploaded` when the file is there (as AWS's own
https://github.com/aws/sagemaker-xgboost-container, checkpointing.py, tells them apart). Where it stops, which it does
without a word, jobs have lost days: what only an interrupted host had is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

UPLOADING, UPLOADED = ".sagemaker-uploading", ".sagemaker-uploaded"
WARN_AFTER_S = 10 * 60.0


def is_mark(name: str) -> bool:
    """Return True if a file is a mark of the agent and not part of a checkpoint."""
    return name.endswith((UPLOADING, UPLOADED))


def was_at_work(names: Iterable[str]) -> bool:
    """Return True if an agent that marks its uploads has been here.

    (One that removes its marks when it is done cannot be judged by them, and is not.)
    """
    return any(name.endswith(UPLOADED) for name in names)


def not_uploaded(files: Iterable[str], names: Collection[str]) -> list[str]:
    """Those of `files` without a mark that they have been uploaded.

    Args:
        files: of a checkpoint, its manifest among them.
        names: all that is in the folder, marks included; a set or a mapping, where there are many.
    """
    return [name for name in files if name + UPLOADED not in names]


@dataclass(frozen=True)
class Behind:
    """The part of a checkpoint that is not uploaded: of `num_files` files the `waiting` ones, `num_bytes` in all."""

    step: int
    waiting: tuple[str, ...]
    num_files: int
    num_bytes: int


def behind(checkpoints: Mapping[int, Iterable[str]], sizes: Mapping[str, int]) -> list[Behind]:
    """The checkpoints that an agent has not brought away as a whole, the newest first; [] where none has ever worked.

    Args:
        checkpoints: step -> names of its files, its manifest among them.
        sizes: every file of the folder and its size, marks included.
    """
    if not was_at_work(sizes):
        return []
    found: list[Behind] = []
    for step in sorted(checkpoints, reverse=True):
        files = list(checkpoints[step])
        waiting = not_uploaded(files, sizes)
        if waiting:
            found.append(Behind(step, tuple(waiting), len(files), sum(sizes.get(name, 0) for name in waiting)))
    return found


def arrival_lag(saved_at: float, arrived: Iterable[float]) -> float | None:
    """Seconds from when a checkpoint was saved until the last of its files was in the object store; None without any.

    Both are seconds since the epoch, of two clocks: a negative difference counts as zero.
    """
    times = list(arrived)
    return max(0.0, max(times) - saved_at) if times else None


@dataclass
class SyncWatch:
    """Warns a training once if its committed checkpoints are not uploaded.

    Args:
        limit_s: for how long a file may wait. Ages are counted from the commit, by the caller's steady clock.
    """

    limit_s: float = WARN_AFTER_S
    _committed: dict[int, tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    _was_at_work: bool = False
    _warned: bool = False

    def committed(self, step: int, files: Iterable[str], now: float) -> None:
        """A checkpoint is durable in the folder.

        Args:
            files: names below the folder, the manifest's among them.
        """
        self._committed[step] = (now, tuple(files))

    def look(self, names: Collection[str], now: float) -> str | None:
        """The warning, the first time that there is one.

        Args:
            names: all that is in the folder now. For files that are gone, as retention removes them, nobody waits.
        """
        self._was_at_work = self._was_at_work or was_at_work(names)
        if self._warned or not self._was_at_work:
            return None
        late: list[tuple[float, int, int, list[str]]] = []
        for step, (since, files) in list(self._committed.items()):
            waiting = not_uploaded((name for name in files if name in names), names)
            if not waiting:
                del self._committed[step]
            elif now - since > self.limit_s:
                late.append((now - since, step, len(files), waiting))
        if not late:
            return None
        self._warned = True
        age, step, num_files, waiting = max(late)
        lost = f"{len(late)} checkpoint{'s' if len(late) > 1 else ''}"
        return (
            f"warning: {len(waiting)} of {num_files} files of the checkpoint of step {step} ({waiting[0]}, ...) have "
            f"not been uploaded {age / 60:.0f} minutes after it was saved, though the agent that copies checkpoints "
            f"was at work before: an interruption now would lose {lost}. Look at the job's permissions and disk."
        )
