"""A group that is not in the registry: a model's first night, or a mistyped name."""

from __future__ import annotations

from drivetrain.base.errors import InputError
from drivetrain.registry.registry import AbsentError, NotAllowedError, Registry


def check_first(registry: Registry, group: str, *, first: bool, chosen: bool) -> None:
    """That a group is there, or is meant to be new.

    A registry that nobody chose (`auto`) and that has no groups at all cannot be the wrong one, and no name in it is
    mistyped: there a first night needs no word.

    Args:
        first: the group may be new.
        chosen: the registry was named, so it may be mistyped.

    Raises:
        InputError: there is no such group, and nobody says that it is new.
    """
    if first:
        return
    try:
        registry.version(group)
    except NotAllowedError as error:
        raise InputError(
            f"there is no version of {group!r}, and you may not list the names of the other groups: {error} For "
            "the first model of a new group give first=true."
        ) from None
    except AbsentError as error:
        if not chosen and not error.there:
            return
        raise InputError(
            f"{error} For the first model of a new group give first=true: else a mistyped group or registry would "
            "count as one without a champion. The training is kept: the next run takes it from the cache."
        ) from None
