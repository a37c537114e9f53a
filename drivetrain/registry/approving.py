"""Registering and approving, on every registry: not against the decision on the model without a reason, and approving
with its own files only; and going back to the champion before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.registry import approvers
from drivetrain.registry.binding import AGAINST, REPORT, allow, objections
from drivetrain.registry.intact import check_own_files
from drivetrain.registry.report_hash import REPORT_HASH, report_hash

if TYPE_CHECKING:
    from drivetrain.registry.registration import Evidence
    from drivetrain.registry.registry import ModelVersion, Registry


def checked_registration(
    registry: Registry, group: str, content_hash: str, evidence: Evidence, *, against: str
) -> Evidence:
    """The evidence of a model to register, with the reason if that is against the decision, or its report
    has no hash. Content that is registered already is not let in anew, so nothing binds it.

    Raises:
        InputError: the decision speaks against it, or its report has no hash, and no reason is given; the registry
            cannot be asked.
    """
    evaluation, decision = evidence.evaluation, evidence.decision
    reasons: list[str] = []
    if evaluation is not None and REPORT_HASH not in evaluation:
        reasons.append("its report has no report_hash, so an edit would not be seen: evaluate the model again")
    if decision is not None:
        report = "" if evaluation is None else report_hash(evaluation)
        reasons += objections(decision, group=group, champion=registry.champion(group), report=report)
    if not reasons or registry.find(group, content_hash) is not None:
        return evidence
    kept = allow(reasons, what=f"the model cannot be registered in {group}", against=against)
    return evidence._replace(decision={**(decision or {}), AGAINST: kept})


def approval_at_registration(registry: Registry, group: str, approval: str) -> str:
    """The status of a new version: it waits where it was to be approved at once, and its group asks for more people."""
    if approval != "Approved" or (people := approvers.needed(registry, group)) < 2:
        return approval
    print(f"{group} asks for {people} approvals: the new version waits for them", flush=True)
    return "PendingManualApproval"


def make_champion(
    registry: Registry,
    group: str,
    version: int,
    *,
    reason: str | None = None,
    by: str | None = None,
    against: str = "",
    bound: bool = True,
) -> list[ModelVersion]:
    """Approve a version and reject the newer approved ones, which would be preferred to it: the champion is the newest
    approved version, also for those who ask the registry without us. Whatever ends it half-way, the champion is the one
    before or the new one.

    Args:
        against: why it is approved against the decision on it; kept with the reason.
        by: who approves, where the backend does not know it.
        bound: False for a rollback, which no decision binds, and neither does one bind a version that is approved.

    Returns:
        The version as it is then, and those that were rejected, the newest first. It waits for approval still where its
        group asks for more people than have approved it (approvers.py).

    Raises:
        UserError: its files are not those that were registered; the decision on it speaks against it, and nobody says
            why it is right all the same.
    """
    asked = registry.version(group, version)
    if bound and asked.decision and asked.status != "Approved":
        said = objections(
            asked.decision, group=group, champion=registry.champion(group), report=asked.lineage.get(REPORT, "")
        )
        kept = allow(said, what=f"{group} version {version} cannot be approved", against=against)
        reason = f"{reason}; {kept}" if reason and kept else kept or reason
    check_own_files(asked, registry.objects)
    people = {each.person for each in approvers.keep(registry, group, asked, by)}
    if bound and asked.status != "Approved" and len(people) < approvers.needed(registry, group):
        if asked.status == "Rejected":  # it waits again, so that the next approval adds to this one
            asked = registry.set_status(group, version, "PendingManualApproval", reason=reason, by=by)
        return [asked]
    found = registry.set_status(group, version, "Approved", reason=reason, by=by)
    newer = [each for each in registry.approved(group) if each.version > version]
    said = f"version {version} is the champion" + (f": {reason}" if reason else "")
    # The champion goes last, so that no version in between takes its place.
    rejected = [registry.set_status(group, each.version, "Rejected", reason=said, by=by) for each in reversed(newer)]
    return [found, *reversed(rejected)]


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
