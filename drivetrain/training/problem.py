"""A problem that one rank tells the others, so that all of them end alike."""

from __future__ import annotations

from typing import NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError


class Problem(NamedTuple):
    """Why one rank cannot go on, as JSON for the others: all of them raise the same."""

    text: str
    is_away: bool = False

    @staticmethod
    def of(error: Exception, text: str) -> Problem:
        """A service that is away says enough; `text` says how the user can mend what else there is."""
        return Problem(str(error), True) if isinstance(error, AwayError) else Problem(text)

    def raised(self) -> Exception:
        return AwayError(self.text) if self.is_away else InputError(self.text)
