"""The best approved version, from which `not_worse` counts its margin.

Were it counted from the champion alone, each promotion could lose a margin, and forty of them forty. So the registry
keeps, in a tag of the group, which approved versions were shown to be better than the one before: `accuracy=1.4.9`.
The last of them that is still approved is the best approved version. One that was rejected, or that a rollback
rejected, counts no more, and counts again when it is approved again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from drivetrain.decision.deciding import Champion, difference_of
from drivetrain.decision.evaluation import Evaluation
from drivetrain.decision.policy import Policy
from drivetrain.registry.registry import BEST_APPROVED, AbsentError

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion, Registry

_MOST, _MOST_CHARACTERS = 12, 256
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,80}")
_KEPT = re.compile(r"(?<!\S)([a-zA-Z0-9._-]{1,80})=([1-9][0-9]{0,8}(?:[.][1-9][0-9]{0,8})*)(?!\S)")


def best_approved(registry: Registry, group: str, metric: str) -> ModelVersion | None:
    """The best approved version, as far as the registry keeps one."""
    for number in reversed(_kept(registry.tags(group).get(BEST_APPROVED, "")).get(_name(metric), [])):
        try:
            found = registry.version(group, number)
        except AbsentError:  # deleted there
            continue
        if found.status == "Approved":
            return found
    return None


def keep_best(registry: Registry, group: str, metric: str, version: int, better_than: int | None) -> None:
    """Keep a version as the best approved one, shown to be better than another one; None where there was none."""

    def changed(text: str) -> str:
        kept = _kept(text)
        numbers = kept.pop(_name(metric), [])
        earlier = numbers[: numbers.index(better_than) + 1] if better_than in numbers else []
        newest = {_name(metric): [*earlier[1 - _MOST :], version], **kept}
        texts = [f"{name}={'.'.join(map(str, each))}" for name, each in newest.items()]
        while len(" ".join(texts)) > _MOST_CHARACTERS:  # metrics that were decided by long ago
            texts.pop()
        return " ".join(texts)

    registry.change_tag(group, BEST_APPROVED, changed)


def anchor_of(
    registry: Registry, group: str, champion: Champion, policy: Policy, measure: Callable[[ModelVersion], Evaluation]
) -> Champion | None:
    """The best approved version, measured, where the candidate must not be worse than it; None where the policy does
    not ask for it, or it is the champion. A champion that is shown to be better takes its place.

    Args:
        champion: with its evaluation.
        measure: evaluates a version as the champion was.

    Raises:
        InputError: the registry cannot be asked, or that version cannot be measured.
    """
    if policy.rule != "not_worse" or policy.margin_from != "best" or champion.evaluation is None:
        return None
    best = best_approved(registry, group, policy.metric)
    if best is not None and best.version == champion.version:
        return None
    if best is not None:
        evaluation = measure(best)
        gained = difference_of(champion.evaluation, evaluation, policy).surest_gain(policy.level)
        if gained is None or gained <= 0:
            return Champion(version=best.version, content_hash=best.content_hash, evaluation=evaluation)
    keep_best(registry, group, policy.metric, champion.version, best and best.version)
    return None


def _name(metric: str) -> str:
    return metric if _NAME.fullmatch(metric) else hashlib.sha256(metric.encode()).hexdigest()[:12]


def _kept(text: str) -> dict[str, list[int]]:
    """Metric -> versions; text that Drivetrain did not write is ignored."""
    return {name: [int(number) for number in numbers.split(".")] for name, numbers in _KEPT.findall(text)}
