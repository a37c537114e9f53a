"""CPU seconds of the command line's quick commands, over a bare `import pydantic`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import in_turn
from tests.benchmarks.harness.tool import Project, project

HELP = {
    "drivetrain": ["drivetrain", "--help"],
    "metaflow": ["metaflow", "--help"],
    "zenml": ["zenml", "--help"],
    "kfp": ["kfp", "--help"],
    "dagster": ["dagster", "--help"],
    "prefect": ["prefect", "--help"],
}
COMPILE = {
    "drivetrain": ["drivetrain", "compile", "digits.py", "-o", "digits.json"],
    "kfp": ["kfp", "dsl", "compile", "--py", "digits.py", "--output", "digits.yaml"],
    "sagemaker": ["{python}", "digits.py", "1"],
}
# The least that a command line with typed settings costs.
PYDANTIC = ["python", "-c", "import pydantic"]
ALLOWED_OVER_PYDANTIC = 0.3


def records(bench: Bench) -> Iterator[Record]:
    yield _row(bench, "drivetrain --help", HELP)
    yield _row(bench, "drivetrain compile", COMPILE)


def _row(bench: Bench, what: str, commands: Mapping[str, Sequence[str]]) -> Record:
    names = [name for name in commands if name != "drivetrain"]
    places = {"drivetrain": project(bench, "drivetrain", bench.ours)}
    places |= {name: project(bench, name, environment) for name, environment in bench.peers(*names).items()}
    rivals = {name: _cpu(place, commands[name]) for name, place in places.items()}
    rivals["pydantic"] = _cpu(places["drivetrain"], PYDANTIC)
    for warm in rivals.values():  # compiled files written, pages cached
        warm()
    bench.progress(f"command line: {what}")
    medians = in_turn(rivals, rounds=1 if bench.quick else 5)
    bare = medians.pop("pydantic")
    return Record(
        name=f"command_line: {what}, CPU",
        unit="s",
        ours=medians.pop("drivetrain"),
        peers=medians,
        limit=bare,
        target=bare + ALLOWED_OVER_PYDANTIC,
        note="; ".join(
            filter(None, ["the limit is `python -c 'import pydantic'`, the target 0.3 s over it", bench.note(*names)])
        ),
    )


def _cpu(place: Project, command: Sequence[str]) -> Callable[[], float]:
    return lambda: place.call(command).checked().cpu
