"""Three steps; the second hangs, with a child in a session of its own, while `hold` lies in the work folder."""

import fcntl
import signal
import subprocess
from pathlib import Path

from drivetrain import Pipeline, Settings, step
from drivetrain.components import Input, Output, component


class Interrupted(Settings):
    work: str


def note(work: str, name: str) -> None:
    """One line a time that the step ran."""
    with open(Path(work) / f"{name}.ran", "a", encoding="utf-8") as file:
        file.write("ran\n")


@component
def before(work: str, data: Output) -> None:
    note(work, "before")
    (data / "number.txt").write_text("1", encoding="utf-8")


@component
def held(work: str, data: Input, more: Output) -> None:
    note(work, "held")
    if (Path(work) / "hold").exists():
        # A lock lives as long as its holder, and can be asked for from outside where a pid cannot be.
        mine, childs = (open(Path(work) / f"{who}.alive", "w") for who in ("step", "child"))  # noqa: SIM115
        fcntl.flock(mine, fcntl.LOCK_EX)
        fcntl.flock(childs, fcntl.LOCK_EX)
        subprocess.Popen(["sleep", "600"], start_new_session=True, pass_fds=[childs.fileno()])
        childs.close()
        (Path(work) / "held").touch()
        signal.pause()
    (more / "number.txt").write_bytes((data / "number.txt").read_bytes())


@component
def after(work: str, more: Input) -> dict[str, float]:
    note(work, "after")
    return {"number": float((more / "number.txt").read_text(encoding="utf-8"))}


def interrupted(settings: Interrupted) -> Pipeline:
    first = step(before, work=settings.work)
    second = step(held, work=settings.work, data=first["data"])
    third = step(after, work=settings.work, more=second["more"])
    return Pipeline(name="interrupted", steps=[first, second, third])
