"""Tonight's comparison as a night of its line, with what the registry keeps of the nights before."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base.json_text import object_in
from drivetrain.data.arrow import numpy
from drivetrain.decision.evaluation import Evaluation
from drivetrain.decision.lines import Tonight, entered
from drivetrain.decision.policy import Policy
from drivetrain.decision.rows import check_same, paired
from drivetrain.decision.standing import Standing, total

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion, Registry

# Of a training: what another training of the same pipeline may have otherwise.
_OF_ONE_TRAINING = ("seed", "steps", "stopped_early", "world_size")


def standing_of(
    registry: Registry,
    version: ModelVersion,
    candidate: Evaluation,
    champion: Evaluation,
    policy: Policy,
    candidate_hash: str,
    pipeline: str,
) -> Standing | str:
    """The standing of the candidate's line after tonight, or the reason why its nights are not pooled.

    Args:
        version: the champion.
        pipeline: of `pipeline_of`.

    Raises:
        InputError: the evidence is damaged, or cannot be read or written.
    """
    from drivetrain.registry.evidence import change_evidence, place_of

    ours, theirs = candidate.evidence, champion.evidence
    if ours is None or theirs is None:
        return "the evaluations hold no results of single rows (evaluate again, with bootstrap > 0)"
    if policy.metric in ours.left_out:
        return f"the rows of {policy.metric} were too many to keep"
    place = place_of(registry, version.group, version)
    if place is None:
        return "this registry cannot keep results of single rows"
    check_same(ours, theirs)
    pairs = paired(ours, theirs, policy.metric, by_keys=ours.keyed, centered=False)
    if pairs is None:
        return f"rows say nothing of {policy.metric}"
    np = numpy()
    # Numbers of rows mean something within one test set only.
    own = np.uint64(0 if ours.keyed else int(candidate.data_hash[:16] or "0", 16))
    parts = pairs.differences / len(pairs.keys)
    measured, other = candidate.whole.metrics[policy.metric], champion.whole.metrics[policy.metric]
    gain = total([measured.value, -other.value])
    if not measured.higher_is_better:
        parts, gain = -parts, -gain
    tonight = Tonight(
        champion=version.content_hash or str(version.version),
        candidate=candidate_hash,
        pipeline=pipeline,
        metric=policy.metric,
        margin=policy.margin,
        run=_run(),
        gain=gain,
        bound=measured.bound + other.bound,
        rows=ours.keys ^ own,
        keys=pairs.keys ^ own,
        parts=parts,
    )
    found: list[Standing] = []

    def change(kept: bytes) -> bytes:
        changed, standing = entered(kept, tonight, error=1 - policy.confidence, allowed=policy.lines)
        found.append(standing)
        return changed

    change_evidence(place, change)
    return found[-1]


def pipeline_of(description: Mapping[str, Any] | None, files: Mapping[str, str]) -> str:
    """The hash of a pipeline's code and settings, as a model tells them: equal for each training of the same pipeline,
    whatever data and seed it had."""
    about = description or {}
    training: Any = about.get("training")
    if isinstance(training, Mapping):
        settings = cast("Mapping[str, Any]", training)
        training = {name: value for name, value in settings.items() if name not in _OF_ONE_TRAINING}
    code = sorted((name, checksum) for name, checksum in files.items() if name.startswith("code/"))
    said = [*(about.get(name) for name in ("framework", "recipe", "recipe_options", "precision")), training, code]
    if "answers" in about:  # a model of functions: its module, and an estimator's options
        said += [about["answers"], object_in(object_in(about, "table"), "options")]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _run() -> str:
    """The name of the run, or of this job in it, as far as the platform tells it."""
    if named := os.environ.get("DRIVETRAIN_EXECUTION"):
        return named
    file = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"), "config", "processingjobconfig.json")
    try:
        job: Any = json.loads(file.read_bytes())
    except (OSError, ValueError):  # not a job of SageMaker's
        return ""
    return str(cast("Mapping[str, Any]", job).get("ProcessingJobName", "")) if isinstance(job, Mapping) else ""
