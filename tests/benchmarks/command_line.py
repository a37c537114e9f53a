"""CPU seconds of the command line's quick commands, over a bare `import pydantic`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, in_turn
from tests.benchmarks.harness.tool import Project, project

HELP = {
    OURS: ["drivetrain", "--help"],
    "metaflow": ["metaflow", "--help"],
    "zenml": ["zenml", "--help"],
    "kfp": ["kfp", "--help"],
    "dagster": ["dagster", "--help"],
    "prefect": ["prefect", "--help"],
}
COMPILE = {
    OURS: ["drivetrain", "compile", "digits.py", "-o", "digits.json"],
    "kfp": ["kfp", "dsl", "compile", "--py", "digits.py", "--output", "digits.yaml"],
    "sagemaker": ["{python}", "digits.py", "1"],
}
# The least that a command line with typed settings costs.
PYDANTIC = ["python", "-c", "import pydantic"]
ALLOWED_OVER_PYDANTIC = 0.2


def records(bench: Bench) -> Iterator[Record]:
    yield _row(bench, "drivetrain --help", HELP)
    yield _row(bench, "drivetrain compile", COMPILE)


def _row(bench: Bench, what: str, commands: Mapping[str, Sequence[str]]) -> Record:
    names = [name for name in commands if name != OURS]
    places = {OURS: project(bench, OURS, bench.ours)}
    places |= {name: project(bench, name, environment) for name, environment in bench.peers(*names).items()}
    rivals = {name: _cpu(place, commands[name]) for name, place in places.items()}
    rivals["pydantic"] = _cpu(places[OURS], PYDANTIC)
    bench.progress(f"command line: {what}")
    if not bench.quick:
        in_turn(rivals, rounds=1, failed=bench.failed)  # compiled files written, pages cached
    working = {name: measure for name, measure in rivals.items() if name not in bench.failed}
    medians = in_turn(working, rounds=1 if bench.quick else 5, failed=bench.failed)
    bare = medians.pop("pydantic")
    return Record(
        name=f"command_line: {what}, CPU",
        unit="s",
        ours=medians.pop(OURS),
        peers=medians,
        limit=bare,
        target=bare + ALLOWED_OVER_PYDANTIC,
        note=bench.note(
            *names, more=f"the limit is `python -c 'import pydantic'`, the target {ALLOWED_OVER_PYDANTIC} s over it"
        ),
    )


def _cpu(place: Project, command: Sequence[str]) -> Callable[[], float]:
    return lambda: place.call(command).checked().cpu
