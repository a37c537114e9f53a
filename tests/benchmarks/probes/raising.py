"""A step that raises three calls below its function, the last of them in the standard library."""

import json

from drivetrain import Pipeline, step
from drivetrain.components import component


def parse(text: str) -> float:
    return json.loads(text)["accuracy"]


def read_report(text: str) -> float:
    return parse(text.strip())


@component
def report() -> dict[str, float]:
    return {"accuracy": read_report("accuracy is 0.97")}


def raising() -> Pipeline:
    return Pipeline(name="raising", steps=[step(report)])
