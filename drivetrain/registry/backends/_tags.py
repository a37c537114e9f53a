"""A version as a few named texts, for registries that keep tags or properties with it.

All of a version is in what is sent when it is made, and a decision is one text, so that neither is ever half there.
People can edit these texts in a registry's pages: a version whose texts are not ours any more counts as waiting for
approval, with a warning, and spoils no other.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from drivetrain.base.bounds import is_number
from drivetrain.base.json_text import parsed_object
from drivetrain.registry import model_package
from drivetrain.registry.backends._backend import NewVersion
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.registry import APPROVALS, Approval, ModelVersion, RegistryError

CONTENT_HASH = "drivetrain.content_hash"
PACKAGE = "drivetrain.package"
# Apart from the package: either may be 100,000 characters, which is what MLflow takes of one text.
CARD = "drivetrain.model_card"
METRICS = "drivetrain.metrics"
EXECUTION = "drivetrain.execution"
DECIDED = "drivetrain.approval"
APPROVED = '%"Approved"%'
"""Each decision that approves, for SQL's LIKE: the only texts worth reading where a champion is sought. People may have
written one with other spaces or another order."""


def tags_of(new: NewVersion) -> dict[str, str]:
    """The tags of a new version."""
    request = {
        **new.request,
        "CustomerMetadataProperties": {
            **model_package.properties(new.request),
            model_package.CONTENT_HASH: new.content_hash,
        },
    }
    card = request.pop("ModelCard", None)
    tags = {
        CONTENT_HASH: new.content_hash,
        PACKAGE: json.dumps(request, sort_keys=True),
        METRICS: json.dumps(new.metrics, sort_keys=True),
        DECIDED: json.dumps({"status": new.status}),
    }
    if card is not None:
        tags[CARD] = json.dumps(card, sort_keys=True)
    if new.execution is not None:
        tags[EXECUTION] = new.execution
    return tags


def decided(status: Approval, reason: str | None, by: str | None, *, before: ModelVersion) -> str:
    """The text that keeps a decision, under DECIDED. Another reason for the same status keeps its time: so a starter
    that looks now and then can tell it from a version that was rejected and approved again meanwhile."""
    at = before.modified_at if status == before.status else time.time()
    return json.dumps({"status": status, "reason": reason, "by": by, "at": at})


def version_of(tags: Mapping[str, str], *, group: str, version: int, arn: str, created_at: float) -> ModelVersion:
    """The version that tags say. Missing tags give empty fields, and a version that waits for approval."""
    decision, package, card, metrics = (_object(tags, each) for each in (DECIDED, PACKAGE, CARD, METRICS))
    numbers = {name: value for name, value in (metrics or {}).items() if is_number(value)}
    broken = {
        DECIDED: decision is None or not _is_decision(decision),
        PACKAGE: package is None,
        CARD: card is None,
        METRICS: numbers != metrics,
    }
    if wrong := [name for name, is_broken in broken.items() if is_broken]:
        todo = "Decide on it again" if wrong == [DECIDED] else "Mend or remove what cannot be read, then decide again"
        warn_once(
            f"{group} version {version}: {' and '.join(wrong)} {'were' if wrong[1:] else 'was'} changed by hand and "
            f"cannot be read. The version counts as waiting for approval. {todo}."
        )
    said: Mapping[str, Any] = {} if wrong else decision or {}
    content = {**(package or {}), **({"ModelCard": card} if card else {})}
    return ModelVersion(
        group=group,
        version=version,
        arn=arn,
        content_hash=tags.get(CONTENT_HASH, ""),
        status=said.get("status", "PendingManualApproval"),
        reason=said.get("reason"),
        record=record_of(content),
        metrics=numbers,
        execution=tags.get(EXECUTION),
        created_at=created_at,
        modified_at=float(said.get("at", created_at)),
    )


def checked_decision(found: ModelVersion, wanted: Approval) -> ModelVersion:
    """A version after a decision on it.

    Raises:
        RegistryError: it waits for approval all the same, since another of its texts cannot be read.
    """
    if found.status == "PendingManualApproval" != wanted:
        raise RegistryError(
            f"{found.group} version {found.version} waits for approval all the same: a text of it was changed by hand "
            "and cannot be read. Mend or remove it in the registry, and decide again."
        )
    return found


def is_untouched(tags: Mapping[str, str]) -> bool:
    """Return True if nobody has decided on the version since it was made."""
    decision = _object(tags, DECIDED)
    return decision is not None and "at" not in decision


@functools.cache
def warn_once(text: str) -> None:
    """Print a warning, once in a process: a starter reads the same versions every minute."""
    print(f"warning: {text}", file=sys.stderr)


def _is_decision(said: Mapping[str, Any]) -> bool:
    reason, at = said.get("reason"), said.get("at", 0.0)
    return (
        said.get("status", APPROVALS[0]) in APPROVALS and (reason is None or isinstance(reason, str)) and is_number(at)
    )


def _object(tags: Mapping[str, str], name: str) -> Mapping[str, Any] | None:
    """The JSON object in a tag; empty for a missing tag; None for a text that is no JSON object."""
    return parsed_object(tags.get(name) or "{}")
