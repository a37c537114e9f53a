"""A pipeline of steps that do nothing: one after the other, or independent of each other."""

from drivetrain import Pipeline, Settings, step
from drivetrain.components import component


class Chain(Settings):
    steps: int = 20
    independent: bool = False


@component
def nothing() -> None:
    return None


def chain(settings: Chain) -> Pipeline:
    steps = []
    for number in range(settings.steps):
        after = steps[-1:] if not settings.independent else []
        steps.append(step(nothing, name=f"nothing-{number}", after=after))
    return Pipeline(name="chain", steps=steps)
