"""A version as a few named texts, for registries that keep tags or properties with it.

All of a version is in what is sent when it is made, and a decision is one text, so that neither is ever half there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, cast

from drivetrain.registry import model_package
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.registry import Approval, ModelVersion, checked_approval

CONTENT_HASH = "drivetrain.content_hash"
PACKAGE = "drivetrain.package"
# Apart from the package: either may be 100,000 characters, which is what MLflow takes of one text.
CARD = "drivetrain.model_card"
METRICS = "drivetrain.metrics"
EXECUTION = "drivetrain.execution"
DECIDED = "drivetrain.approval"


def tags_of(
    content_hash: str,
    package: Mapping[str, Any],
    metrics: Mapping[str, float],
    execution: str | None,
    approval: Approval,
) -> dict[str, str]:
    """What is kept of a new version."""
    request = {
        **package,
        "CustomerMetadataProperties": {
            **model_package.properties(package),
            model_package.CONTENT_HASH: content_hash,
        },
    }
    card = request.pop("ModelCard", None)
    tags = {
        CONTENT_HASH: content_hash,
        PACKAGE: json.dumps(request, sort_keys=True),
        METRICS: json.dumps(dict(metrics), sort_keys=True),
        DECIDED: json.dumps({"status": approval}),
    }
    if card is not None:
        tags[CARD] = json.dumps(card, sort_keys=True)
    if execution is not None:
        tags[EXECUTION] = execution
    return tags


def decided(status: Approval, reason: str | None, by: str | None) -> str:
    """What is kept of a decision, under DECIDED."""
    return json.dumps({"status": status, "reason": reason, "by": by, "at": time.time()})


def version_of(tags: Mapping[str, str], *, group: str, version: int, arn: str, created_at: float) -> ModelVersion:
    """The version that tags say. Of one that somebody else made, what they do not say is empty, and it is pending."""
    decision = _mapping(tags.get(DECIDED))
    package = dict(_mapping(tags.get(PACKAGE)))
    if card := _mapping(tags.get(CARD)):
        package["ModelCard"] = card
    return ModelVersion(
        group=group,
        version=version,
        arn=arn,
        content_hash=tags.get(CONTENT_HASH, ""),
        status=checked_approval(str(decision.get("status", "PendingManualApproval"))),
        reason=decision.get("reason"),
        record=record_of(package),
        metrics=cast("Mapping[str, float]", _mapping(tags.get(METRICS))),
        execution=tags.get(EXECUTION),
        created_at=created_at,
        modified_at=float(decision.get("at", created_at)),
    )


def is_untouched(tags: Mapping[str, str]) -> bool:
    """Whether nobody has decided on the version since it was made."""
    return "at" not in _mapping(tags.get(DECIDED))


def _mapping(text: str | None) -> Mapping[str, Any]:
    content: Any = json.loads(text) if text else {}
    return cast("Mapping[str, Any]", content) if isinstance(content, dict) else {}
