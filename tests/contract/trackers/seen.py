"""What was found in a tracker, by the vendor's own reader."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Seen:
    """`metrics` are (position, value) by STEP/NAME; `artifacts` the paths of files; `succeeded` is None while the run
    goes on."""

    parameters: Mapping[str, str]
    metrics: Mapping[str, list[tuple[int, float]]]
    results: Mapping[str, float]
    artifacts: frozenset[str]
    run: str
    page: str
    succeeded: bool | None
    resumed: Mapping[str, str] = field(default_factory=dict[str, str])
