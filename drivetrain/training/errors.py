"""How a training program ends other than well, and how a wrong name is answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drivetrain.base.errors import InputError, did_you_mean


class LostHostError(RuntimeError):
    """The hosts of a job did not meet: no input's fault, and a retry may help."""


class LostRanksError(RuntimeError):
    """Ranks did not come to an operation in time, or are gone.

    Attributes:
        ranks: as far as this rank knows; rank 0 among them may itself wait for another.
        timed_out: the wait for them timed out; else their connection was closed.
    """

    def __init__(self, ranks: Sequence[int], reason: str, *, timed_out: bool) -> None:
        super().__init__(reason)
        self.ranks, self.timed_out = sorted(ranks), timed_out


class StoppedError(RuntimeError):
    """The program was told to stop and has left in order: no failure, and a retry goes on where it was."""


def unknown_name(kind: str, given: str, available: Iterable[str], *, advice: str = "") -> InputError:
    """The error for a name that is not there: what was given, the closest match, what is allowed."""
    return InputError(f"no {kind} {given!r}. {did_you_mean(given, available)}{' ' + advice if advice else ''}")
