"""The log of a pod's container, line by line, each once, while it is written and to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.client import HTTPException

from drivetrain.steps.kubeflow.cluster_api import ClusterApi, ForbiddenError, NotThereError
from drivetrain.steps.kubeflow.task import TaskError
from drivetrain.steps.kubeflow.train_job import NODE

# Without a line for so long, the connection may be dead: the log is asked for again from where it stood.
SILENCE_S = 300.0
_PAUSE_S = 1.0


class PodLog(threading.Thread):
    """Reads a pod's log in the background.

    The API gives each line with its time, to the nanosecond. After a connection broke off, lines are asked for from
    the second of the last one, and those that were taken are left out.

    Args:
        take: gets each line, with its end.
    """

    def __init__(self, api: ClusterApi, pod: str, take: Callable[[bytes], None]) -> None:
        super().__init__(name=f"log of {pod}", daemon=True)
        self.api, self.pod, self.take = api, pod, take
        self.error: ForbiddenError | None = None
        self._ended, self._given_up = threading.Event(), threading.Event()
        self._last, self._count = b"", 0  # the time of the last line that was taken, and how many had that time

    def run(self) -> None:
        """Until the log's end after `finish`, or until the pod is gone."""
        while not self._given_up.is_set():
            is_last = self._ended.is_set()
            try:
                is_whole = self._read(is_last)
            except ForbiddenError as error:
                self.error = error
                return
            except NotThereError:
                return
            except (OSError, HTTPException, TaskError):  # away, or the container's log is not there yet
                is_whole = False
            if is_last and is_whole:
                return
            (self._given_up if is_last else self._ended).wait(_PAUSE_S)

    def finish(self, seconds: float) -> bool:
        """Read what the ended container has written, for at most so long; whether that is all of it."""
        self._ended.set()
        self.join(seconds)
        self._given_up.set()
        return not self.is_alive()

    def _read(self, is_last: bool) -> bool:
        """One connection; whether it came to the log's end."""
        since = {"sinceTime": self._last.decode()} if self._last else {}
        known, left_out = self._last, self._count
        with self.api.lines(
            f"pods/{self.pod}/log", SILENCE_S, container=NODE, follow="true", timestamps="true", **since
        ) as answer:
            for raw in answer:
                if not raw.endswith(b"\n"):
                    if not is_last:  # the connection broke off within the line
                        return False
                    raw += b"\n"
                stamp, _, line = raw.partition(b" ")
                if stamp < known:
                    continue
                if stamp == known and left_out:
                    left_out -= 1
                    continue
                self._count = self._count + 1 if stamp == self._last else 1
                self._last = stamp
                self.take(line)
        return True
