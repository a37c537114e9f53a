"""Check that the decision on a model still stands: the verdict of compare binds who registers or approves the model.

A decision is an objection when it says not to register, was made against another champion than today's, or on another
report than the registered one. A user who acts against it gives a reason, which is kept. A model without a decision is
not bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from drivetrain.base.errors import InputError

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion

REPORT = "report"
"""In a decision and in the lineage of a version: the hash of the report (report_hash.py)."""
NO_CHAMPION, UNKNOWN = "none", "unknown"
AGAINST = "against"
"""The text among a decision's that says why the version was registered all the same."""
_LETS_IN = ("register", "already registered")
_MOST_CHARACTERS, _MOST_IN_A_TEXT = 1000, 256
_NOT_IN_A_TEXT = re.compile(r"[^\w \u00a0.:/=+\-@]")


class _Champion(NamedTuple):
    """The champion that a decision was made against: version None where there was none."""

    version: int | None
    content_hash: str = ""


def objections(
    decision: Mapping[str, Any] | None, *, group: str, champion: ModelVersion | None, report: str = ""
) -> list[str]:
    """Why a model must not be let in, as its decision has it; empty where nothing speaks against it, or where there is
    no decision.

    Args:
        decision: the record, or the texts of it that a registry keeps.
        champion: today's.
        report: the hash of the report that is registered with the model; "" where it is not known.
    """
    if not decision:
        return []
    found: list[str] = []
    verdict = decision.get("verdict")
    if isinstance(verdict, str) and verdict not in _LETS_IN:
        found.append(f'the decision on it says "{verdict}"')
    if isinstance(of := decision.get("group"), str) and of and of != group:
        found.append(f"the decision on it is one for the group {of}")
    before = _champion_of(decision)
    if before is not None and not _is_same(before, champion):
        then = "when no version was approved" if before.version is None else f"against version {before.version}"
        today = "no version is approved" if champion is None else f"the champion is version {champion.version}"
        found.append(f"it was decided {then}, and {today} today")
    decided_on = decision.get(REPORT)
    if report and isinstance(decided_on, str) and decided_on not in ("", UNKNOWN, report):
        found.append(f"the decision was made on another report ({decided_on[:12]}) than its own ({report[:12]})")
    return found


def allow(reasons: Iterable[str], *, what: str, against: str) -> str:
    """The note to keep of an act against a decision; "" if nothing speaks against it.

    Args:
        what: the act: "digits version 3 cannot be approved".
        against: why it is right all the same.

    Raises:
        InputError: something speaks against it, and nobody says why it is right all the same.
    """
    told = "; ".join(reasons)
    if not told:
        return ""
    if not against.strip():
        raise InputError(
            f"{what}: {told}. Let the pipeline compare a new candidate with today's champion, or say why this is right "
            "all the same, with --against-decision REASON (in Python against_decision=...): the reason is kept."
        )
    return f"against the decision ({told}): {against.strip()}"[:_MOST_CHARACTERS]


def as_text(reason: str) -> str:
    """A reason as registries keep it among a version's texts: without the characters that they refuse."""
    return " ".join(_NOT_IN_A_TEXT.sub(" ", reason).split())[:_MOST_IN_A_TEXT]


def _champion_of(decision: Mapping[str, Any]) -> _Champion | None:
    """None where the decision does not say it: of the texts of earlier versions."""
    found = decision.get("champion")
    if isinstance(found, Mapping):
        known = cast("Mapping[str, Any]", found)
        return _Champion(int(known.get("version") or 0), str(known.get("content_hash") or ""))
    if isinstance(found, str):
        return _Champion(None) if found == NO_CHAMPION else _Champion(int(found)) if found.isdecimal() else None
    return _Champion(None) if "champion" in decision and "candidate" in decision else None


def _is_same(before: _Champion, today: ModelVersion | None) -> bool:
    if before.version is None or today is None:
        return before.version is None and today is None
    if before.content_hash and today.content_hash:
        return before.content_hash == today.content_hash
    return before.version == today.version
