"""The declaration of a component, read from the signature of a typed function.

    @component
    def evaluate(model: Input, data: Input, plots: Output, max_digits: int = 4) -> dict[str, float]:
        ...

says all that an author, a compiler and a container must know: two input folders, one output folder, one parameter,
and numbers that come back (they are written to a property file, on which a pipeline can decide). Texts can come back
beside them (a TypedDict with str fields): a hash, a reason. The decorated function stays a function: called with
folders it just runs, in a test or a notebook.

Parameters are str, int, float, bool, a `Literal` of those, or any of them `| None`. What numbers are allowed is said
beside the type: `max_digits: Annotated[int, Bounds(1, 17)] = 4`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from drivetrain.steps import Declaration, Job

# Every step imports this file: neither dataclasses nor inspect, which take longer to import than all else here.

P = ParamSpec("P")
R = TypeVar("R")


class Component(Declaration[P, R]):
    """A typed function with its declaration. Calling it calls the function."""

    __slots__ = ()

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Run as a command: `--folder PATH` and `--parameter VALUE`; see `call.run`."""
        from drivetrain.steps.call import run

        run(self, arguments)


@overload
def component(function: Callable[P, R], /) -> Component[P, R]: ...
@overload
def component(
    *,
    job: Job = ...,
    needs: Sequence[str] = ...,
    logs: Mapping[str, str] | None = ...,
    resumable: Sequence[str] = ...,
    cached: bool = ...,
    name: str | None = ...,
    settings: type | None = ...,
) -> Callable[[Callable[P, R]], Component[P, R]]: ...
def component(
    function: Callable[..., Any] | None = None,
    /,
    *,
    job: Job = "processing",
    needs: Sequence[str] = (),
    logs: Mapping[str, str] | None = None,
    resumable: Sequence[str] = (),
    cached: bool = True,
    name: str | None = None,
    settings: type | None = None,
) -> Any:
    """Turn a typed function into a component.

    Args:
        job: `processing` (any folders, numbers come back) or `training` (channels, checkpoints, spot; its outputs
            are `model` and `output`).
        needs: distributions the program imports; those the image lacks travel with the code.
        logs: metric name -> regular expression with one group, for a training job's curves.
        resumable: parameters that `runs resume ID --set` may change: the training goes on with them.
        cached: False for a program that looks at more than its inputs (a registry, the time): its steps run each time,
            whatever the pipeline says of caching.
        name: the step's default name; the function's name unless given.
        settings: a dataclass whose fields are parameters, too; the function takes them as `**settings`. One that the
            function declares itself, with another default perhaps, is the function's.

    Raises:
        DeclarationError: where the signature says something that no platform can carry.
    """

    def declared(function: Callable[..., Any]) -> Component[..., Any]:
        from drivetrain.steps.signature import declare

        found = declare(
            function,
            job=job,
            needs=needs,
            logs={} if logs is None else logs,
            resumable=resumable,
            cached=cached,
            name=name,
            settings=settings,
        )
        made: Component[..., Any] = Component(*found)
        return made

    return declared if function is None else declared(function)
