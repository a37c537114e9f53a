"""Records of a task's earlier attempts, so that no further one repeats what cannot succeed.

KFP tries a task again whatever it failed of. An attempt that ended with 1 (the program failed) or 2 (bad input) leaves
its reason beside the task's outputs, which all attempts of a task share; the next one ends with it at once.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from drivetrain.steps.kubeflow.task import OBJECT_STORE, Task

NAME = "drivetrain-failed.json"


@dataclass(frozen=True)
class Earlier:
    """The place of the reason: a file on one machine, an object in a cluster, None where nobody tries again."""

    place: Path | str | None

    @staticmethod
    def of(task: Task) -> Earlier:
        """A task's."""
        if not task.document.get("retries"):
            return Earlier(None)
        if OBJECT_STORE in os.environ:
            return Earlier(task.output_file.with_name(NAME))
        from drivetrain.steps.kubeflow import objects  # slow to import, and most tasks need none of it

        uris = sorted(str(artifact["uri"]) for artifact in task.made.values())
        kept = [uri for uri in uris if uri.partition("://")[0] in objects.SCHEMES]
        return Earlier(f"{kept[0].rstrip('/').rpartition('/')[0]}/{NAME}" if kept else None)

    def reason(self) -> str | None:
        """Why an earlier attempt failed, where another one would, too.

        Raises:
            TaskError: the storage cannot be asked.
        """
        if self.place is None:
            return None
        if isinstance(self.place, Path):
            found = self.place.read_bytes() if self.place.is_file() else None
        else:
            from drivetrain.steps.kubeflow import objects

            found = objects.read(self.place)
        return None if found is None else str(json.loads(found)["reason"])

    def write(self, code: int, reason: str) -> None:
        """Leave a reason to the attempts that follow."""
        content = json.dumps({"code": code, "reason": reason}).encode()
        if isinstance(self.place, Path):
            self.place.parent.mkdir(parents=True, exist_ok=True)
            self.place.write_bytes(content)
        elif self.place is not None:
            from drivetrain.steps.kubeflow import objects

            objects.write(self.place, content)
