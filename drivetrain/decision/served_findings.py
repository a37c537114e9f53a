"""Findings in the data that an approved version served: its inputs drifted, or its quality dropped.

The registry keeps them as a JSON file with the other evidence of a group (registry/evidence.py). A finding is told
once, as the event that a trigger `DataDrift` or `QualityDrop` waits for.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from drivetrain.base.errors import InputError
from drivetrain.registry.evidence import SERVED, place_of, read_evidence

if TYPE_CHECKING:
    from drivetrain.registry.registry import Registry

SOURCE = "drivetrain"
DATA_DRIFT, QUALITY_DROP = "Drivetrain Data Drift", "Drivetrain Quality Drop"
MOST = 400
"""Looks, and findings, that are kept of a group."""
_NAMESPACE = uuid.UUID("2c7d0f0e-5a4e-4b86-9d0b-3f6a6f3a9a54")
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A drift or a drop, from the look that saw it first until it is over."""

    kind: Literal["Drivetrain Data Drift", "Drivetrain Quality Drop"]
    group: str
    version: int
    """The approved version that served."""
    day: str
    """The day of the data, as 2026-11-30."""
    told_at: float
    """Seconds since 1970, UTC: the time of its event."""
    columns: tuple[str, ...] = ()
    """Those that drifted, the most moved first."""
    metric: str = ""
    """The metric that dropped."""
    value: float | None = None
    """The metric on the served rows; of a drift the largest share of rows that moved."""
    promised: float | None = None
    """The metric on the test set by which the version was approved."""
    why: str = ""
    """One sentence for people."""
    is_open: bool = True
    is_sent: bool = False
    """Its event went to EventBridge, where the evidence lies with a deployment."""
    last_day: str = ""
    """The newest day of data that it was seen on; "" for `day`."""

    @property
    def key(self) -> tuple[str, str]:
        """Its kind and metric: findings of a version with the same key are one."""
        return self.kind, self.metric

    @property
    def id(self) -> str:
        """The same for the same finding, told at the same time."""
        told = f"{self.group}/{self.version}/{self.kind}/{self.metric}/{self.day}/{self.told_at!r}"
        return str(uuid.uuid5(_NAMESPACE, told))

    def event(self, *, region: str, account: str) -> dict[str, Any]:
        """The event, as EventBridge delivers it."""
        return {
            "version": "0",
            "id": self.id,
            "detail-type": self.kind,
            "source": SOURCE,
            "account": account,
            "time": datetime.fromtimestamp(self.told_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": region,
            "resources": [],
            "detail": self.detail(),
        }

    def detail(self) -> dict[str, Any]:
        """The `detail` of the event."""
        return {
            "id": self.id,
            "group": self.group,
            "version": self.version,
            "day": self.day,
            "columns": list(self.columns),
            "metric": self.metric,
            "value": self.value,
            "promised": self.promised,
            "why": self.why,
        }


@dataclass(frozen=True, kw_only=True)
class Served:
    """Findings in a group's served data, the oldest first, and one record for each look."""

    findings: tuple[Finding, ...] = ()
    looks: tuple[Mapping[str, Any], ...] = ()


def looked(
    served: Served,
    look: Mapping[str, Any],
    seen: Mapping[tuple[str, str], Finding | None],
    remind_seconds: float,
) -> Served:
    """Enter a look: its findings open, those that it does not see any more are closed, and one that stays open is told
    again when its time has come, or when more columns drift. The same look again changes nothing.

    Labels arrive late, so days come in any order: a look closes no finding that was seen on a newer day, and `passed`
    says which drift does not open.

    Args:
        look: of a `day` and a `version`.
        seen: by kind and metric what the look saw of the version, None for nothing; one that it could not judge is
            missing.
    """
    if look in served.looks:
        return served
    day, version = look["day"], look["version"]
    before = [each for each in served.looks if (each["day"], each["version"]) != (day, version)]
    looks = sorted([*before, look], key=lambda each: each["day"])[-MOST:]  # (sorted keeps the order of equal days)
    opened = {key: found for key, found in seen.items() if found is not None}
    findings: list[Finding] = []
    for each in served.findings:
        last = max(each.day, each.last_day)
        if not each.is_open or (each.version == version and each.key not in seen):
            findings.append(each)
        elif each.version != version:
            findings.append(replace(each, is_open=False))
        elif each.key not in opened:
            findings.append(replace(each, is_open=day < last))
        else:
            findings.append(replace(_told(each, opened.pop(each.key), remind_seconds), last_day=max(day, last)))
    new = [each for each in opened.values() if each.kind != DATA_DRIFT or not passed(served, day, version)]
    return Served(findings=tuple([*findings, *new][-MOST:]), looks=tuple(looks))


def passed(served: Served, day: str, version: int) -> str:
    """The newest day after `day` on which the rows of a version had not drifted; "" for none. A drift of `day` is over
    then."""
    later = [each for each in served.looks if each["version"] == version and each["day"] > day]
    return max((each["day"] for each in later if each.get("drifted") == []), default="")


def _told(before: Finding, found: Finding, remind_seconds: float) -> Finding:
    """An open finding after it was seen again. It keeps the columns that it told of, so each of them is told once."""
    if found.told_at - before.told_at >= remind_seconds:
        return found
    if set(found.columns) <= set(before.columns):
        return before
    return replace(found, columns=tuple(dict.fromkeys((*found.columns, *before.columns))))


def packed(served: Served) -> bytes:
    """The file."""
    findings = [asdict(finding) for finding in served.findings]
    content = {"format": _FORMAT, "findings": findings, "looks": [dict(look) for look in served.looks]}
    return json.dumps(content, indent=1, allow_nan=False).encode()


def unpacked(kept: bytes, place: str) -> Served:
    """The content of a file; nothing where it is empty.

    Raises:
        InputError: it is damaged, or of a later release.
    """
    if not kept:
        return Served()
    try:
        content = json.loads(kept)
        if content["format"] != _FORMAT:
            raise InputError(f"{place} is of a later release. Install that one.")
        findings = tuple(_finding(each) for each in content["findings"])
        return Served(findings=findings, looks=tuple(content["looks"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{place} is damaged ({error}). Put back a copy of it, or remove it.") from None


def kept_findings(registry: Registry, group: str) -> Served:
    """The findings and looks of a group; none where the registry has no place for them.

    Raises:
        InputError: it is damaged.
        RegistryError: it cannot be read.
    """
    place = place_of(registry, group, registry.champion(group), SERVED)
    return unpacked(read_evidence(place), place) if place else Served()


def _finding(kept: dict[str, Any]) -> Finding:
    kept["columns"] = tuple(kept["columns"])
    return Finding(**kept)
