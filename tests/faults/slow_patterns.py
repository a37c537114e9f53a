"""Patterns that come as data and take a backtracking matcher exponential or quadratic time: the regular expression of a
metric, the wildcards of an event pattern and of a policy, names of columns, addresses in texts that are masked."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from drivetrain.base import masking
from drivetrain.data.schema import DeclaredSchema
from drivetrain.targets.sagemaker.permissions.policy import like
from drivetrain.triggers.event_pattern import matches
from tests.faults.harness.command import PRELOAD as OF_COMMANDS
from tests.faults.harness.command import drivetrain
from tests.faults.harness.definitions import definition, training_step
from tests.faults.harness.families import SLOWEST, Found, Trial

FAULT = "patterns of exponential time in definitions, triggers, schemas, policies, masks: 0 hangs, 0 metrics lost"
TRIALS, QUICK, AT_ONCE = 200, 2, 2
PRELOAD = OF_COMMANDS
PATIENCE_S = 60.0

# A regular expression, and what of a log takes it exponential time.
REGEXES = (
    ("(a+)+$", "a" * 40 + "!"),
    ("(a|aa)+$", "a" * 60 + "!"),
    ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 50),
    ("(.*a){20}$", "a" * 60 + "!"),
    (r"(?=(x+x+)+y)x", "x" * 50),
    (r"(\w+\s?)*=(\d+)$", "word " * 12 + "!"),
)
MOST_CPU_S = 2.0
MOST_TO_STOP_S = 15.0


def trial(given: Trial, shared: object) -> Found:
    way = given.in_turn(WAYS)
    violations, did = way(given)
    return Found([f"{way.__name__}: {text}" for text in violations], {f"ways {way.__name__}": 1, **did})


def _home(given: Trial) -> dict[str, str]:
    return {"HOME": str(given.folder), "DRIVETRAIN_HOME": str(given.folder / "home")}


def _training(given: Trial, then: str) -> tuple[str, str]:
    """A definition whose training logs what takes one of its metrics exponential time; the metric's expression."""
    regex, line = given.draw.choice(REGEXES)
    program = f"import time; print('loss=0.5'); print({line!r}, flush=True); {then}"
    step = training_step("work", {}, program)
    definitions = [{"Name": "bad", "Regex": regex}, {"Name": "loss", "Regex": "loss=([0-9.]+)"}]
    given.draw.shuffle(definitions)
    step["Arguments"]["AlgorithmSpecification"]["MetricDefinitions"] = definitions
    (given.folder / "evil.json").write_text(json.dumps(definition(step)))
    return "run -d evil.json", regex


def by_metric(given: Trial) -> tuple[list[str], dict[str, int]]:
    command, regex = _training(given, "print('loss=0.25')")
    ended = drivetrain(given.folder, *command.split(), environment=_home(given))
    logs = "".join(log.read_text() for log in (given.folder / "home").rglob("*.log"))
    wrong = [] if ended.code == 0 else [f"{regex}: the run failed\n{ended}"]
    wrong += [] if "metric 'bad' is no longer read" in logs else [f"{regex}: it is not said\n{ended}"]
    shown = drivetrain(given.folder, *["runs", "show", "latest", "--json"], environment=_home(given))
    wrong += [] if '"loss"' in shown.out and "0.25" in shown.out else [f"{regex}: the other metric is lost\n{shown}"]
    return wrong, {"metrics given up": 1}


def by_stopped_metric(given: Trial) -> tuple[list[str], dict[str, int]]:
    """A signal comes while the pattern is matched."""
    command, regex = _training(given, "time.sleep(600)")
    number = given.draw.choice((signal.SIGINT, signal.SIGTERM))
    waits = given.draw.uniform(0.2, 2.0)
    signalled = given.folder / "signalled"
    pid = os.getpid()
    killer = os.fork()
    if killer == 0:
        try:
            _signal_when_logged(given.folder, pid, number, waits, signalled)
        finally:
            os._exit(0)
    ended = drivetrain(given.folder, *command.split(), environment=_home(given))
    now = time.time()
    os.waitpid(killer, 0)
    wrong = [] if signalled.exists() else [f"it ended before the signal\n{ended}"]
    took = now - float(signalled.read_text()) if signalled.exists() else 0.0
    wrong += [f"{regex}: {took:.1f} s after {number.name} it ended\n{ended}"] if took > MOST_TO_STOP_S else []
    wrong += [f"a trace is shown\n{ended}"] if "Traceback" in ended.err else []
    return wrong, {f"stopped by {number.name}": 1, f"{SLOWEST} stop, ms": round(1_000 * took)}


def _signal_when_logged(folder: Path, parent: int, number: signal.Signals, waits: float, signalled: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        time.sleep(0.05)
        if any(log.stat().st_size for log in (folder / "home").rglob("*.log")):
            break
    time.sleep(waits)
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    signalled.write_text(str(time.time()))
    for child in children:
        if int(child) != os.getpid():
            os.kill(int(child), number)


def by_trigger(given: Trial) -> tuple[list[str], dict[str, int]]:
    wildcard = given.draw.choice(("*a", "*aa", "*a?", "*ab")) * given.draw.randint(10, 100) + "b"
    event = {"detail": {"name": "a" * given.draw.randint(1_000, 100_000)}}
    return _bounded("trigger", lambda: matches({"detail": {"name": [{"wildcard": wildcard}]}}, event))


def by_policy(given: Trial) -> tuple[list[str], dict[str, int]]:
    pattern = given.draw.choice(("*a", "*?a", "a*?", "*aa")) * given.draw.randint(10, 100) + "b"
    return _bounded("policy", lambda: like(pattern, "a" * given.draw.randint(500, 2_000)))


def by_schema(given: Trial) -> tuple[list[str], dict[str, int]]:
    pattern = given.draw.choice(("*a", "*?a", "*[ab]", "*aa")) * given.draw.randint(10, 40) + "c"
    declared = DeclaredSchema({pattern: "int64"}, "schema")
    return _bounded("schema", lambda: declared.type_of("a" * given.draw.randint(200, 1_000)) is not None)


def by_mask(given: Trial) -> tuple[list[str], dict[str, int]]:
    piece = given.draw.choice(("a", "a:", "://", "a://b", "eyJ", "-----BEGIN ", "AKIA", "ghp_", "a.", "@", "-", "="))
    text = piece * (1_000_000 // len(piece))
    return _bounded("mask", lambda: masking.Masking().message(text) != text and piece not in ("a://b",))


def _bounded(what: str, match: Callable[[], bool]) -> tuple[list[str], dict[str, int]]:
    began = time.process_time()
    found = match()
    took = time.process_time() - began
    wrong = [f"it took {took:.1f} s"] if took > MOST_CPU_S else []
    wrong += ["what does not match matched"] if found else []
    return wrong, {f"{SLOWEST} {what}, ms": round(1_000 * took)}


WAYS: tuple[Callable[[Trial], tuple[list[str], dict[str, int]]], ...] = (
    by_metric,
    by_stopped_metric,
    by_trigger,
    by_policy,
    by_schema,
    by_mask,
)
