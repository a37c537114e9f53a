"""JSON files that steps write, and that conditions and steps read values from."""

from __future__ import annotations

from drivetrain.base.records import dataclass
from drivetrain.spec.values import MetricRef, ValueType


@dataclass(frozen=True)
class Report:
    """A JSON file of a step: OUTPUT/FILE, or of a native step the name of a property file."""

    step: str
    name: str

    def value(self, path: str, type: ValueType = "Float") -> MetricRef:
        """The value at a path of the file, such as metrics.mse.value."""
        return MetricRef(step=self.step, name=path, file=self.name, type=type)
