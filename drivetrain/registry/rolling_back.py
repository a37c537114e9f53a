"""Going back to the version that was the champion before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError

if TYPE_CHECKING:
    from drivetrain.registry.registry import Registry


def earlier_champion(registry: Registry, group: str, to: int | None = None, *, place: str = "") -> int:
    """The version to go back to: the one approved before the champion, or `to`.

    Args:
        place: how the command line names the registry, in messages.

    Raises:
        UserError: there is no such version, or it was not approved before the champion.
    """
    approved = [each.version for each in registry.versions(group) if each.status == "Approved"]
    if not approved:
        raise UserError(f"no version of {group!r} is approved: there is no champion to go back from.")
    if to is None and len(approved) == 1:
        raise UserError(
            f"version {approved[0]} of {group!r} is the only approved version: no earlier one is left. Reject it "
            f"(drivetrain models reject {group} {approved[0]}{place}), or approve another one."
        )
    if to is not None and to not in approved[1:]:
        registry.version(group, to)  # is there
        earlier = ", ".join(map(str, approved[1:])) or "none"
        raise UserError(
            f"--to {to}: the champion of {group!r} is version {approved[0]}, and approved before it are: {earlier}. To "
            f"make any other version the champion, approve it: drivetrain models approve {group} VERSION{place}"
        )
    return to or approved[1]
