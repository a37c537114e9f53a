"""Promises of the first hour that are kept or not: mistakes found early, short tracebacks, killed runs that go on."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import CommandError, Ran, run
from tests.benchmarks.harness.tool import Project, project, source

PROBES = Path(__file__).parent / "probes"
MAX_ERROR_LINES = 3
MAX_TRACEBACK_LINES = 15
# After a SIGKILL of the runner no descendant lives for longer than this.
SECONDS_TO_DIE = 5.0


@dataclass(frozen=True)
class Mistake:
    """What a newcomer gets wrong in digits.py or on the command line, and what the message must name."""

    what: str
    names: tuple[str, ...]
    wrong: tuple[str, str] = ("", "")
    """A text of digits.py, and what is written in its place."""
    options: tuple[str, ...] = ()


MISTAKES = (
    Mistake("a typo in a setting", ("max_digit", "Did you mean 'max_digits'?"), options=("--set", "max_digit=3")),
    Mistake("a typo in an input", ("'dat'", "Did you mean 'data'?"), ("step(train, data=", "step(train, dat=")),
    Mistake(
        "a wrong type in a setting", ("max_digits", "'many'", "whole number"), options=("--set", "max_digits=many")
    ),
    Mistake("a wrong type in a step", ("max_digits", "'4'", "Integer"), ("=max_digits)", '="4")')),
    Mistake("a missing output", ("'return'", "Did you mean 'returned'?"), ("model=model, ", 'model=model["return"], ')),
    Mistake(
        "a cycle",
        ("load", "evaluate"),
        ("step(load)", "step(load, after=[__import__('drivetrain').Dependency(step='evaluate')])"),
    ),
)


def records(bench: Bench) -> Iterator[Record]:
    bench.progress("promises: mistakes")
    for mistake in MISTAKES:
        yield _found_early(bench, mistake)
    bench.progress("promises: a step that raises")
    yield from _raising(bench)
    for way in ("the same command", "runs resume"):
        bench.progress(f"promises: a killed run and {way}")
        yield from _killed(bench, way)


def _found_early(bench: Bench, mistake: Mistake) -> Record:
    place = project(bench, "drivetrain", bench.ours)
    text = source("drivetrain").read_text(encoding="utf-8")
    old, new = mistake.wrong
    if old not in text:
        raise ValueError(f"digits.py has no {old!r} to get wrong; mend MISTAKES")
    (place.work / "digits.py").write_text(text.replace(old, new, 1) if old else text, encoding="utf-8")
    ran = place.call(["drivetrain", "run", "digits.py", *mistake.options])
    said = (ran.output + ran.errors).strip()
    kept = (
        ran.code == 2
        and len(said.splitlines()) <= MAX_ERROR_LINES
        and all(name in said for name in mistake.names)
        and not _runs(place)
    )
    return Record(
        name=f"promises: {mistake.what} is found before the first step",
        unit="bool",
        ours=kept,
        target=True,
        note=f"{len(said.splitlines())} line(s): {said[:200]}",
    )


def _raising(bench: Bench) -> Iterator[Record]:
    place = project(bench, "drivetrain", bench.ours)
    shutil.copy2(PROBES / "raising.py", place.work)
    ran = place.call(["drivetrain", "run", "raising.py"])
    # As a terminal shows it: what goes to standard error comes last.
    lines = (ran.output + ran.errors).rstrip().splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback")]
    last = lines[starts[-1] :] if starts else []
    kept = (
        ran.code == 1
        and bool(last)
        and all(any(f"in {name}" in line for line in last) for name in ("report", "read_report", "parse"))
        and last[-1].startswith("json.decoder.JSONDecodeError: Expecting value")
        and not any("drivetrain/" in line for line in last)
    )
    yield Record(
        name="promises: a step that raises ends with the user's frames and the exception",
        unit="bool",
        ours=kept,
        target=True,
    )
    yield Record(
        name="promises: lines of that traceback",
        unit="lines",
        ours=len(last) if last else None,
        target=MAX_TRACEBACK_LINES,
    )


def _killed(bench: Bench, way: str) -> Iterator[Record]:
    place = project(bench, "drivetrain", bench.ours)
    shutil.copy2(PROBES / "interrupted.py", place.work)
    (place.work / "hold").touch()
    command = ["drivetrain", "run", "interrupted.py", "--set", f"work={place.work}"]
    _kill_in_the_middle(place, command)
    killed = time.monotonic()
    shown = _runs(place)
    _wait(lambda: not _alive(place), killed + SECONDS_TO_DIE)
    seconds = time.monotonic() - killed
    survivors = _alive(place)
    (place.work / "hold").unlink()
    if way == "the same command":
        yield Record(
            name="promises: a killed run is shown as interrupted at once",
            unit="bool",
            ours=[row["status"] for row in shown] == ["Interrupted"],
            target=True,
        )
        yield Record(
            name="promises: processes of a killed run left after 5 s",
            unit="processes",
            ours=len(survivors),
            target=0,
            note=", ".join(survivors) or f"all gone within {seconds:.1f} s",
        )
    ran = place.call(command if way == "the same command" else ["drivetrain", "runs", "resume", shown[0]["id"]])
    yield Record(
        name=f"promises: {way} continues a killed run",
        unit="bool",
        ours=_went_on(place, ran, shown[0]["id"]),
        target=True,
        note="the step before the kill is not run again"
        if ran.code == 0
        else (ran.errors.strip() or ran.output)[-200:],
    )


def _kill_in_the_middle(place: Project, command: list[str]) -> None:
    """SIGKILL the runner while its second step hangs."""
    held = place.work / "held"
    log = place.work / "killed.log"
    with open(log, "wb") as stream:
        runner = subprocess.Popen(
            command, cwd=place.work, env=dict(place.variables), stdout=stream, stderr=stream, start_new_session=True
        )
    _wait(lambda: held.exists() or runner.poll() is not None, time.monotonic() + 120)
    runner.kill()
    runner.wait()
    if not held.exists():
        raise CommandError("the held step did not start:\n" + log.read_text(encoding="utf-8"))


def _went_on(place: Project, ran: Ran, execution: str) -> bool:
    """Whether the one execution succeeded, having run its first step once and the killed one twice."""
    rows = _runs(place)
    times = {name: len((place.work / f"{name}.ran").read_text().splitlines()) for name in ("before", "held")}
    return (
        ran.code == 0
        and [(row["id"], row["status"]) for row in rows] == [(execution, "Succeeded")]
        and times == {"before": 1, "held": 2}
        and (place.work / "after.ran").exists()
    )


def _runs(place: Project) -> list[dict[str, str]]:
    command = ["drivetrain", "runs", "list", "--json"]
    return json.loads(run(command, cwd=place.work, environment=place.variables).checked().output)


def _alive(place: Project) -> list[str]:
    """Which of the held step and the child it detached live: they hold a lock for as long as they do."""
    found: list[str] = []
    for who in ("step", "child"):
        with open(place.work / f"{who}.alive", "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(who)
    return found


def _wait(holds: Callable[[], bool], end: float) -> None:
    """Poll until it holds, or the clock reaches `end`: it happens in processes that are not our children."""
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
