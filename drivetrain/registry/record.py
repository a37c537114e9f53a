"""The record of a registered version, in words that no registry owns.

    record = ModelRecord(artifact="s3://models/model.tar.gz", lineage={"data": "0a1b..."})
    open_registry("kubeflow:http://...").register("digits", content_hash, record, approval="Approved")

Group, number, content, approval, metrics and the run that made it are the version's own
(drivetrain/registry/registry.py). A registry keeps a record as it can: SageMaker's as CreateModelPackage's request
(drivetrain/registry/package_mapping.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drivetrain.base.json_text import object_in, parsed_object

# A value of the card's custom details has at most 1,024 characters, so a decision record is cut into pieces.
CARD_RECORD = "drivetrain_decision_"


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How a model is served: by which container, what that reads and answers, and on which machines."""

    image: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    content_types: tuple[str, ...] = ()
    response_types: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    """Empty: any."""


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """A version as its maker describes it. What is not known is empty.

    Attributes:
        artifact: the URI of the model's folder or archive: file://, s3://, https://.
        serving: None of a model that nothing is said to serve.
        quality: the URI of the report of its evaluation.
        baselines: the URI of the folder with statistics.json and constraints.json of its data.
        made_by: the run that made it, where it says so itself (an id or ARN).
        lineage: where it comes from: data, test-data, code, config (hashes), ...
        decision: texts of the decision to register it: verdict, metric, difference, ..., uri (where the record lies).
        properties: any other named texts.
        card: the model card, in SageMaker's model card schema.
        others: fields of one registry's own request that have no name here; they are kept, and given back to it.
    """

    artifact: str = ""
    description: str = ""
    serving: Serving | None = None
    quality: str = ""
    baselines: str = ""
    made_by: str = ""
    lineage: Mapping[str, str] = field(default_factory=dict[str, str])
    decision: Mapping[str, str] = field(default_factory=dict[str, str])
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    card: Mapping[str, Any] | None = field(default=None, repr=False)
    others: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def whole_decision(self) -> dict[str, Any] | None:
        """The decision record, where the card holds it; else its texts; None without a decision."""
        record = decision_in(self.card or {})
        return record if record is not None else (dict(self.decision) or None)


def decision_in(card: Mapping[str, Any]) -> dict[str, Any] | None:
    """The decision record that a card holds in pieces; None where it holds none, or no whole one."""
    texts = object_in(object_in(card, "additional_information"), "custom_details")
    pieces = [name for name in texts if name.startswith(CARD_RECORD) and name[len(CARD_RECORD) :].isdigit()]
    text = "".join(str(texts[name]) for name in sorted(pieces, key=lambda name: int(name[len(CARD_RECORD) :])))
    return parsed_object(text) if text else None
