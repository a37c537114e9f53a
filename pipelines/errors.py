"""Errors for people: what was given, what is allowed, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something the user can mend. The command line prints the message alone and ends with exit code 2."""


class SpecError(UserError):
    """A pipeline that cannot be built, found before anything runs."""


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """`Did you mean 'train'? Allowed: test, train.`: the closest match first, where there is one."""
    names = sorted(allowed)
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    return (f"Did you mean {close[0]!r}? " if close else "") + (f"Allowed: {shown}." if names else "None is declared.")
