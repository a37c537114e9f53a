"""S3 that answers 500, 503, 429, stalls, drops connections inside multipart uploads, or loses answers to what it did.

A few saves through a proxy that breaks requests at random, two writers that create the same manifest at once, and in
every third trial a writer that is killed with SIGKILL in the middle of a request. Then a new start on a sound service.
Violations: a save that was reported done and is not there; a checkpoint that is there and not whole; two winners of one
manifest; what is left of uploads after cleaning; a request that is retried without end; an error that does not say
which object it was about.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.places.s3 import S3Place
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.launch.processes.parent import follows_parent
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.killing import ROOT
from tests.faults.harness.s3_proxy import ALL, Passing, S3Proxy
from tests.faults.harness.s3_writer import PART, PATIENCE, contents, save
from tests.fixtures.s3_server import environment, make_bucket, s3_server, variables

FAULT = "S3 5xx/429, stalls, dropped and lost answers, killed uploads: 0 false commits, bounded"
TRIALS = 200
QUICK = 2
AT_ONCE = 2
PRELOAD = ("tests.fixtures.s3_server", "drivetrain.training.checkpointing.places.s3")
SAVES = 3
_WRITER_STEP = 99
# Of one request: the pauses in between grow by doubling, and all of them are within the patience.
_MOST_TRIES = 30


class Weather:
    """Which request is broken, and how: each with a probability that changes from save to save."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = random.Random(draw.random())
        self._lock = threading.Lock()
        self.rate = 0.0
        self.stop_at: Callable[[Passing], str] | None = None

    def __call__(self, passing: Passing) -> str:
        with self._lock:
            if self.stop_at is not None:
                return self.stop_at(passing)
            return self._draw.choice(ALL) if self._draw.random() < self.rate else ""


def trial(given: Trial, shared: Any) -> Found:
    weather = Weather(given.draw)
    violations: list[str] = []
    did: dict[str, int] = {}
    upstream = s3_server()
    with S3Proxy(upstream, weather) as proxy, environment(variables(proxy.endpoint)):
        uri = f"s3://{make_bucket(upstream)}/run"
        S3Place(uri).names()  # the place can be reached: what fails from here on is the service's
        files = {
            step: contents(step, [given.draw.randrange(5 * PART) for _ in range(2)]) for step in range(1, SAVES + 1)
        }
        done = _saves(uri, files, weather, given.draw, violations, did)
        _race(uri, weather, given.draw, violations, did)
        if given.number % 3 == 0:
            size = given.draw.randrange(PART, 5 * PART)
            files[_WRITER_STEP] = contents(_WRITER_STEP, [size])
            _kill(uri, proxy, weather, size, given.draw, violations, did)
        weather.rate, weather.stop_at = 0.0, None
        _start_anew(uri, files, done, violations, did)
        tries, request = proxy.most_tries(leave_out="/race")
        if tries > _MOST_TRIES:
            violations.append(f"{request} was sent {tries} times")
        for _, fault in proxy.passed:
            if fault:
                did[fault] = did.get(fault, 0) + 1
    return Found(violations, did)


def _place(uri: str) -> S3Place:
    return S3Place(uri, patience=PATIENCE, part=PART)


def _saves(
    uri: str,
    files: dict[int, dict[str, bytes]],
    weather: Weather,
    draw: random.Random,
    violations: list[str],
    did: dict[str, int],
) -> set[int]:
    """The steps whose saves were reported done."""
    place = _place(uri)
    place.names()
    store = Store(place)
    done: set[int] = set()
    for step, content in files.items():
        weather.rate = draw.choice((0.02, 0.1, 0.3, 0.9))
        try:
            save(store, step, content)
        except FileExistsError as error:
            violations.append(f"step {step}: its own manifest was taken for another's: {error}")
        except OSError as error:
            _count(did, "saves that failed, and said so")
            if f"{uri.removesuffix('/run')}/" not in str(error):
                violations.append(f"step {step}: the error names no object: {error!r}")
            try:
                store.abandon(step)
            except OSError:
                _count(did, "left for the next start to clean")
        else:
            done.add(step)
            _count(did, "saves that were done")
        weather.rate = 0.0
    return done


def _race(uri: str, weather: Weather, draw: random.Random, violations: list[str], did: dict[str, int]) -> None:
    """Two that create one name at once."""
    places = [_place(uri), _place(uri)]
    for place in places:
        place.names()
    weather.rate = draw.choice((0.1, 0.3, 0.6))
    gate = threading.Barrier(2)

    def create(number: int) -> str:
        gate.wait(30)
        try:
            places[number].create("race", b"%d" % number)
        except FileExistsError:
            return "lost"
        except OSError:
            return "unknown"
        return "won"

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(create, range(2)))
    weather.rate = 0.0
    winners = [number for number, end in enumerate(ends) if end == "won"]
    _count(did, f"races with {len(winners)} winner{'s' if len(winners) != 1 else ''}")
    if len(winners) > 1 or ends == ["lost", "lost"]:
        violations.append(f"of two that created one file they are told: {ends}")
    if winners and places[0].read("race") != b"%d" % winners[0]:
        violations.append(f"writer {winners[0]} was told that it won, and the file is another's")


def _kill(
    uri: str,
    proxy: S3Proxy,
    weather: Weather,
    size: int,
    draw: random.Random,
    violations: list[str],
    did: dict[str, int],
) -> None:
    """A writer that is killed at a request, which was carried out or not."""
    left = draw.randrange(0, 8)  # of its writing requests, before the one at which it is killed
    fault = draw.choice(("stalled", "answer stalled"))
    stopped = threading.Event()

    def stop_at(passing: Passing) -> str:
        nonlocal left
        if passing.method not in ("PUT", "POST") or stopped.is_set():
            return ""
        left -= 1
        if left >= 0:
            return ""
        stopped.set()
        return fault

    weather.stop_at = stop_at
    command = [sys.executable, "-m", "tests.faults.harness.s3_writer", uri, str(_WRITER_STEP), str(size)]
    writer = subprocess.Popen(
        command,
        cwd=ROOT,
        env=dict(os.environ),
        preexec_fn=follows_parent(signal.SIGKILL),
        stderr=subprocess.PIPE,
        text=True,
    )
    before = len(proxy.passed)

    def tell_its_end() -> None:
        writer.wait()
        proxy.look_again()

    waiting = threading.Thread(target=tell_its_end)
    waiting.start()
    try:
        reached = proxy.wait_for(lambda: stopped.is_set() or writer.poll() is not None, 60)
        if not reached and writer.poll() is None and len(proxy.passed) == before:
            violations.append("the writer sent nothing")
    finally:
        writer.send_signal(signal.SIGKILL)
        _, said = writer.communicate()
        waiting.join()
    weather.stop_at = None
    if writer.returncode == -signal.SIGKILL:
        _count(did, f"killed at a request that was {'not ' if fault == 'stalled' else ''}carried out")
    elif writer.returncode == 0:
        _count(did, "had written all before it was to be killed")
    else:
        violations.append(f"the writer failed: {said[-500:]}")


def _start_anew(
    uri: str, files: dict[int, dict[str, bytes]], done: set[int], violations: list[str], did: dict[str, int]
) -> None:
    place = _place(uri)
    store = Store(place)
    steps = set(store.steps())
    if done - steps:
        violations.append(f"reported done and not there: {sorted(done - steps)}")
    unsure = len(steps - done - {_WRITER_STEP})
    did["there although the answer was lost"] = did.get("there although the answer was lost", 0) + unsure
    for step in sorted(steps):
        try:
            store.verify(step)
            folder = store.folder(step)
            for name, data in files[step].items():
                into = bytearray(len(data))
                place.read_into(f"{folder}/{name}", memoryview(into))
                if into != data:
                    violations.append(f"step {step}: {name} is not what was written")
        except (DamagedError, InputError, OSError) as error:
            violations.append(f"step {step} is there and not whole: {error!r}")
    store.clean()
    left = [name for name in place.names() if name != "race" and name.partition("/")[0] not in _folders(store, steps)]
    if left:
        violations.append(f"left after cleaning: {left}")
    if store.steps() != sorted(steps, reverse=True):
        violations.append("cleaning removed a checkpoint")


def _folders(store: Store, steps: set[int]) -> set[str]:
    return {store.folder(step) for step in steps}


def _count(did: dict[str, int], what: str) -> None:
    did[what] = did.get(what, 0) + 1
