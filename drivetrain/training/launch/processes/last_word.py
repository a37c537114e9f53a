"""Why a rank ended that could not say so itself: the launcher writes it where the rank would have.

<folder>/<local rank>.last-word      names the file in which this process says at its end why it ends
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from drivetrain.training.launch.processes.failure import Failure
from drivetrain.training.launch.processes.heartbeat import FOLDER

_SUFFIX = ".last-word"
_BY_SIGNAL = "it was ended by "


def announce(path: Path) -> None:
    """Tell the launcher of this process, if there is one, in which file it says why it ends."""
    folder = os.environ.get(FOLDER)
    if folder and Path(folder).is_dir():
        name = f"{os.environ.get('LOCAL_RANK', '0')}{_SUFFIX}"
        Path(folder, name).write_text(str(path.absolute()), encoding="utf-8")


def speak_for(failures: Iterable[Failure], folder: Path, first_rank: int) -> None:
    """Write why ranks of this host ended, from `first_rank` on, that were killed or hung and have not said so."""
    for failure in failures:
        announced = folder / f"{failure.rank - first_rank}{_SUFFIX}"
        if failure.kind not in ("signal", "hang") or not announced.is_file():
            continue
        path = Path(announced.read_text(encoding="utf-8"))
        reason = (failure.summary.splitlines() or [""])[0].removeprefix(_BY_SIGNAL)
        said = {"rank": failure.rank, "time": round(time.time(), 3), "reason": reason, "by": failure.kind}
        if path.exists():
            continue
        try:
            path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
        except OSError as error:  # the launcher says it on stderr all the same
            print(f"cannot write {path}: {error.strerror}", file=sys.stderr)
