"""How often in a row a job was interrupted, and when that is enough.

A spot job that is taken away again and again pays for starts and gets nowhere. The first host's launcher writes down
each start below the checkpoints, which survive it (checkpointing/attempts.py), whatever the program is; whoever finds
too many starts in a row that were interrupted ends the job with the reason, instead of starting once more.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from drivetrain.base.errors import BAD_INPUT, INTERRUPTED, RETRY, InputError
from drivetrain.training.checkpointing.attempts import KEPT_STARTS, Record, interrupted_in_a_row
from drivetrain.training.launch.job import Options

# Apart from a training's own: a folder that a program of the user's own lists holds nothing of ours but this.
FOLDER = ".drivetrain/attempts"


class TooManyInterruptionsError(RuntimeError):
    """The job was interrupted more often in a row than it may be."""


class Start:
    """A start that is not counted."""

    def end(self, code: int) -> None:
        """It ended with `code`; one that is killed never says so, and counts as interrupted."""


class CountedStart(Start):
    """One start of a job that may be interrupted `most` times in a row.

    Args:
        checkpoints: the folder or URI that outlives a start.

    Raises:
        TooManyInterruptionsError: with what to do. The count begins anew after it.
        InputError: checkpoints that cannot be.
    """

    def __init__(self, checkpoints: str, most: int) -> None:
        from drivetrain.training.checkpointing.places import open_place

        self.record = Record(open_place(checkpoints), folder=FOLDER, keep=max(most + 1, KEPT_STARTS))
        found = interrupted_in_a_row(self.record.earlier)
        if found > most:
            self.record.end("failed")
            raise TooManyInterruptionsError(
                f"interrupted {found} times in a row, and max_interruptions={most}. What was saved is in "
                f"{checkpoints}. Go on from there on machines that are not taken away: drivetrain runs resume ID "
                "--set spot=false. Or allow more interruptions."
            )

    def end(self, code: int) -> None:
        self.record.end("finished" if code == 0 else "stopped" if code in (RETRY, INTERRUPTED) else "failed")


@contextmanager
def counted(options: Options, *, is_first: bool) -> Generator[Start]:
    """The start of a job by these options: counted on the first host, where there is a bound to interruptions.

    Raises:
        TooManyInterruptionsError: there were too many.
    """
    if not (options.max_interruptions and is_first):
        yield Start()
        return
    start = CountedStart(options.checkpoints, options.max_interruptions)
    try:
        yield start
    except InputError:
        start.end(BAD_INPUT)
        raise
