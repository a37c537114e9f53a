"""Three apply the same pipeline at once, in an order that is drawn call by call, and some of them are refused, cut off,
interrupted or killed at a call that is drawn, too. One definition stands complete, or what was there before."""

from __future__ import annotations

import hashlib
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from drivetrain.assets.assets import Asset
from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy import deployed as reading
from drivetrain.targets.sagemaker.deploy.applying.applying import apply
from drivetrain.targets.sagemaker.deploy.deployed import APPLIED, Deployed
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.planning.account_resources import APPLIED_AROUND
from drivetrain.targets.sagemaker.deploy.planning.planning import make_plan
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.refusals import ServiceError
from drivetrain.triggers.resource_names import OWNER, resource_name
from tests.faults.harness.families import Found, Trial
from tests.fixtures.sagemaker_service.server import sagemaker_service

FAULT = "three apply at once, refused, cut off, interrupted, killed: one wins, no drift, nothing of the others is left"
TRIALS, QUICK, AT_ONCE = 1_000, 2, 2
PRELOAD = ("tests.faults.applied_at_once", "moto.sagemaker.models", "moto.s3.models", "moto.events.models")
PATIENCE_S = 120.0

NAME = "nightly"
WRITERS = ("ann", "bob", "cem")
KINDS = ("none", "none", "none", "refused", "cut off", "interrupted", "killed")
# A fault at the number of a call that comes no more is none.
MOST_CALLS = 45


class Killed(BaseException):
    """The process is gone: whatever of it still runs reaches nobody."""


class Player(Protocol):
    """A thread that waits for `go` before each call."""

    go: threading.Semaphore
    has_ended: bool

    def start(self) -> None: ...


class Turns:
    """Who makes the next call is drawn: one thread runs at a time, so that a trial is the same each time."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.back = threading.Semaphore(0)

    def play(self, writers: Sequence[Player]) -> None:
        living = list(writers)
        for writer in living:
            writer.start()
        while living:
            one = self.draw.choice(living)
            one.go.release()
            self.back.acquire()
            if one.has_ended:
                living.remove(one)


class Faulty(Account):
    """Waits for its turn before each call; at one of them something happens."""

    def __init__(self, like: Account, turn: Callable[[], None], kind: str, at: int) -> None:
        super().__init__(like.region)
        self._clients = like._clients
        # Not while the others wait: a cached property of Python 3.11 holds one lock for all instances.
        self._identity = like._identity
        self.turn, self.kind, self.at = turn, kind, at
        self.calls = 0
        self.is_dead = False
        self.faulted = ""

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> dict[str, Any]:
        if self.is_dead:
            raise Killed
        self.turn()
        self.calls += 1
        now = self.kind if self.calls == self.at else "none"
        self.faulted = f"{now} at {operation}" if now != "none" else self.faulted
        if now == "refused":
            raise ServiceError(f"AWS denies {operation}.", code="AccessDeniedException")
        said = super().call(service, operation, about=about, **arguments)
        if now == "cut off":
            raise ServiceError(f"No answer came to {operation}.", may_be_done=True)
        if now == "interrupted":
            raise KeyboardInterrupt
        if now == "killed":
            self.is_dead = True
            raise Killed
        return said


class Writer(threading.Thread):
    """One who applies what they planned before any of them began."""

    def __init__(
        self, turns: Turns, like: Account, wanted: Desired, there: Deployed | None, kind: str, at: int
    ) -> None:
        super().__init__(daemon=True)
        self.go = threading.Semaphore(0)
        self.turns = turns
        self.account = Faulty(like, self.turn, kind, at)
        self.wanted = wanted
        self.plan = make_plan(like, wanted, there)
        self.result: object = None
        self.has_ended = False

    def turn(self) -> None:
        self.turns.back.release()
        self.go.acquire()

    def run(self) -> None:
        self.go.acquire()
        try:
            self.result = apply(self.account, self.wanted, self.plan, pause=lambda seconds: self.turn())
        except BaseException as error:
            self.result = error
        self.has_ended = True
        self.turns.back.release()

    @property
    def won(self) -> bool:
        return not isinstance(self.result, BaseException)

    def __str__(self) -> str:
        return f"{self.wanted.tags.get('writer')} ({self.account.faulted or 'no fault'}): {self.result}"


@dataclass(frozen=True)
class Place:
    """An account and a bucket of this trial's own."""

    account: Account
    bucket: str

    def wanted(self, writer: str) -> Desired:
        number, arn = self.account.number, self.account.arn("sagemaker", f"pipeline/{NAME}")
        root = f"s3://{self.bucket}/pipelines"
        code = f"code of {writer}".encode()
        digest = hashlib.sha256(code).hexdigest()
        rule = {
            "Name": f"{NAME}_approved",
            "EventPattern": json.dumps({"source": [writer]}),
            "Tags": [{"Key": OWNER, "Value": NAME}],
        }
        schedule = {
            "Name": resource_name(NAME, f"of-{writer}"),
            "ScheduleExpression": f"rate({len(writer)} days)",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {"Arn": arn, "RoleArn": f"arn:aws:iam::{number}:role/scheduler"},
        }
        target = {"Id": writer, "Arn": f"arn:aws:sqs:{self.account.region}:{number}:{writer}"}
        return Desired(
            name=NAME,
            arn=arn,
            root=root,
            definition={
                "Version": "2020-12-01",
                "Metadata": {"code": f"{root}/code/{digest}/"},
                "Steps": [{"Name": writer, "Type": "Fail", "Arguments": {"ErrorMessage": writer}}],
            },
            assets=(Asset(f"{root}/code/{digest}/start.py", digest, code),),
            role=f"arn:aws:iam::{number}:role/pipelines",
            display_name=NAME,
            description=f"As {writer} has it.",
            max_parallel=50,
            tags={"writer": writer, f"of-{writer}": "yes"},
            triggers=tuple(
                sorted(
                    (AccountTrigger.rule(rule, [target]), AccountTrigger.schedule(schedule)), key=lambda each: each.key
                )
            ),
        )

    def there(self) -> Deployed | None:
        return reading.read(self.account, NAME)


def trial(given: Trial, shared: object) -> Found:
    with sagemaker_service().account() as outside:
        place = Place(Account(outside.region), outside.make_bucket())
        return _played(given.draw, place)


def _played(draw: random.Random, place: Place) -> Found:
    is_new, are_same = draw.random() < 0.5, draw.random() < 0.25
    before = None
    if not is_new:
        first = place.wanted("first")
        apply(place.account, first, make_plan(place.account, first, None))
        before = place.there()
    turns = Turns(draw)
    writers = [
        Writer(
            turns,
            place.account,
            place.wanted(WRITERS[0] if are_same else name),
            before,
            draw.choice(KINDS),
            draw.randint(1, MOST_CALLS),
        )
        for name in WRITERS
    ]
    turns.play(writers)
    now = place.there()
    wrong = [*_ends(writers), *_state(writers, before, now), *_afterwards(place)]
    who = "; ".join(str(writer) for writer in writers)
    did = Counter(writer.account.faulted.partition(" at ")[0] for writer in writers if writer.account.faulted)
    did["one won"] += any(writer.won for writer in writers)
    return Found([f"{text} [{who}]" for text in wrong], dict(did))


def _ends(writers: list[Writer]) -> list[str]:
    """How each ended, as they are told."""
    wrong = [
        f"{writer.wanted.tags['writer']} ends with {writer.result!r}"
        for writer in writers
        if not writer.won and not isinstance(writer.result, UserError | KeyboardInterrupt | Killed)
    ]
    winners = [writer for writer in writers if writer.won]
    if len(winners) > 1:
        wrong.append(f"{len(winners)} won")
    if len(winners) == 1 and not winners[0].account.faulted:
        told = f"applied definition {winners[0].wanted.sha256[:12]}"
        wrong += [
            f"{writer.wanted.tags['writer']} is not told who won"
            for writer in writers
            if not writer.won and not writer.account.faulted and told not in str(writer.result)
        ]
    return wrong


def _state(writers: list[Writer], before: Deployed | None, now: Deployed | None) -> list[str]:
    """What stands is one definition with all that belongs to it, or what was there before."""
    complete = [writer for writer in writers if _is_complete(now, writer.wanted, before)]
    wrong = [
        f"what {writer.wanted.tags['writer']} applied is not complete"
        for writer in writers
        if writer.won and writer not in complete
    ]
    if not complete and not any(isinstance(writer.result, Killed) for writer in writers):
        if reading.fingerprint(now) != reading.fingerprint(before) or (now and before and now.tags != before.tags):
            wrong.append(f"half of something stands: {now and (now.text, dict(now.tags), now.triggers)}")
        if any(not writer.account.faulted for writer in writers):
            wrong.append("nobody won though one met no fault")
    return wrong


def _is_complete(now: Deployed | None, wanted: Desired, before: Deployed | None) -> bool:
    if now is None:
        return False
    kept = {} if before is None else {name: value for name, value in before.tags.items() if name not in wanted.tags}
    ours = {APPLIED: wanted.sha256, APPLIED_AROUND: digest_of(wanted.surroundings), reading.OWNER: wanted.owner.tag}
    tags = {**kept, **wanted.tags, **ours}
    return (now.text, dict(now.tags), now.triggers) == (wanted.text, tags, wanted.triggers)


def _afterwards(place: Place) -> list[str]:
    """Whatever happened: nothing looks like an edit, and the next one applies without a word."""
    account, wanted, there = place.account, place.wanted("last"), place.there()
    plan = make_plan(account, wanted, there)
    if plan.drift or plan.refusal is not None:
        return [f"drift is shown: {[change.place for change in plan.drift]}, {plan.refusal}"]
    apply(account, wanted, plan)
    left = make_plan(account, wanted, place.there())
    return [] if left.is_empty else [f"applied again it is not what is wanted: {left.to_json()}"]
