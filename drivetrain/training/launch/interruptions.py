"""How often in a row a job was interrupted, and when that is enough.

A spot job that is taken away again and again pays for starts and gets nowhere. The first host's launcher writes down
each start below the checkpoints, which survive it (checkpointing/attempts.py), whatever the program is. A launcher that
finds too many interrupted starts in a row ends the job with the reason, instead of starting once more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from drivetrain.base.errors import BAD_INPUT, INTERRUPTED, RETRY, InputError
from drivetrain.training.checkpointing.attempts import KEPT_STARTS, Record, interrupted_in_a_row
from drivetrain.training.launch.job import Options

# Apart from a training's own: a folder that a program of the user's own lists holds nothing of ours but this.
FOLDER = ".drivetrain/attempts"


class TooManyInterruptionsError(RuntimeError):
    """The job was interrupted more often in a row than it may be."""


def count_start(checkpoints: str, most: int) -> Callable[[int], None]:
    """Count a start of a job that may be interrupted `most` times in a row. What is returned notes the exit code with
    which it ended; a start that is killed never says so, and counts as interrupted.

    Args:
        checkpoints: the folder or URI that outlives a start.

    Raises:
        TooManyInterruptionsError: with what to do. The count begins anew after it.
        InputError: checkpoints that cannot be.
    """
    from drivetrain.training.checkpointing.places import open_place

    record = Record(open_place(checkpoints), folder=FOLDER, keep=max(most + 1, KEPT_STARTS))
    interruptions = interrupted_in_a_row(record.earlier)
    if interruptions > most:
        record.end("failed")
        raise TooManyInterruptionsError(
            f"interrupted {interruptions} times in a row, and max_interruptions={most}. What was saved is in "
            f"{checkpoints}. Go on from there on machines that are not taken away: drivetrain runs resume ID "
            "--set spot=false. Or allow more interruptions."
        )
    return lambda code: record.end("finished" if code == 0 else "stopped" if code in (RETRY, INTERRUPTED) else "failed")


@contextmanager
def counted(options: Options, *, is_first: bool) -> Generator[Callable[[int], None]]:
    """The start of a job by these options, counted on the first host if interruptions have a bound; gives the function
    that notes the exit code.

    Raises:
        TooManyInterruptionsError: there were too many.
    """
    if not (options.max_interruptions and is_first):
        yield lambda code: None
        return
    end = count_start(options.checkpoints, options.max_interruptions)
    try:
        yield end
    except InputError:
        end(BAD_INPUT)
        raise
