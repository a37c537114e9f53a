"""Applying and destroying while AWS refuses, answers get lost and people press Ctrl-C: at every single call in turn."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from drivetrain.targets.sagemaker.account import Account
from tests.fixtures.sagemaker_service.command_line import NOTHING, CommandLine, denied

CHANGED = (
    *("--set", "rows=20", "--set", "instance=ml.m5.xlarge", "--set", "team=speech"),
    *("--set", "every=rate(12 hours)", "--set", "event=replaced"),
)
APPLY = ("apply", "nightly.py", "--yes")
DESTROY = ("destroy", "nightly.py", "--yes")
# Enough for either; a loop that never ends would hide that a fault never comes.
MOST_CALLS = 150


class Killed(BaseException):
    """The process ends here: nothing is taken back, nothing is said."""


class Faults:
    """What happens at the n-th call. `came` says whether it has."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.number, self.calls = kind, number, 0
        self.at = ""

    @property
    def came(self) -> bool:
        return self.calls >= self.number

    @contextmanager
    def happening(self) -> Generator[None]:
        into: AbstractContextManager[Any] = denied(self.denies) if "denied" in self.kind else self.interrupting()
        with into:
            yield

    def denies(self, number: int, name: str) -> bool:
        self.calls = number
        if number == self.number:
            self.at = name
        return number >= self.number if self.kind == "denied from then on" else number == self.number

    @contextmanager
    def interrupting(self) -> Generator[None]:
        with pytest.MonkeyPatch.context() as patch:
            original = Account.call

            def call(account: Account, service: str, operation: str, **arguments: Any) -> Any:
                self.calls += 1
                now = self.calls == self.number
                if now:
                    self.at = f"{service}:{operation}"
                if now and self.kind == "Ctrl-C before":
                    raise KeyboardInterrupt
                try:
                    return original(account, service, operation, **arguments)
                finally:
                    if now and self.kind != "Ctrl-C before":
                        raise KeyboardInterrupt if self.kind == "Ctrl-C after" else Killed

            patch.setattr(Account, "call", call)
            yield


KINDS = ("denied", "denied from then on", "Ctrl-C before", "Ctrl-C after", "killed after")
# By day one kind each, at some of its calls, and not what is tested without the command line: test_applying.py kills
# apply after its calls, test_destroying.py interrupts destroy before those that delete. All others are the night's.
SOME = 4


def by_day(*values: Any) -> Any:
    return pytest.param(*values, SOME, marks=pytest.mark.slow)


def at_night(*values: Any) -> Any:
    return pytest.param(*values, 1, marks=pytest.mark.nightly)


def standing(found: dict[str, Any]) -> dict[str, Any]:
    """What works: without objects, to which nothing refers."""
    return {name: found[name] for name in ("pipelines", "rules", "schedules")}


def attempt(drivetrain: CommandLine, faults: Faults, *arguments: str) -> tuple[int | None, str]:
    """Exit code and what was said; no code where the process was killed."""
    with faults.happening():
        try:
            return drivetrain.run(*arguments)
        except Killed:
            out, err = drivetrain.said()
            return None, out + err


def each_fault(kind: str, every: int) -> Iterator[Faults]:
    """One after the other, until one comes no more since the command had ended."""
    for number in range(1, MOST_CALLS, every):
        faults = Faults(kind, number)
        yield faults
        if not faults.came:
            return
    raise AssertionError(f"the command makes more than {MOST_CALLS} calls")


def check_ended(faults: Faults, code: int | None, text: str, *, done: bool) -> None:
    """How the command ended. `done` says that all is there as wanted: then what was denied was only to be told."""
    assert "Traceback" not in text, f"{faults.number} {faults.at}\n{text}"
    if faults.kind.startswith("Ctrl-C"):
        assert code == 130, f"{faults.number} {faults.at}: {code}\n{text}"
    elif "denied" in faults.kind:
        given_back = "was not given back" in text
        unchecked = "Applied, but could not be checked: " in text
        for_telling = done and (faults.at.startswith(("sagemaker:List", "GET /")) or given_back or unchecked)
        assert code == 2 or (code == 0 and for_telling), f"{faults.number} {faults.at}: {code}\n{text}"


def check_half_done(faults: Faults, text: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Either all is as it was, or what is not is named, as done or as not taken back; that it was planned is not said
    of what stands."""
    if standing(now) == standing(before) or faults.kind == "killed after":
        return
    did = ("created ", "updated ", "deleted ", "NOT taken back")
    told = "\n".join(line for line in text.splitlines() if any(word in line for word in did))
    for kind, names in standing(now).items():
        for name in {*names, *before[kind]}:
            if names.get(name) != before[kind].get(name):
                assert name in told, f"{faults.number} {faults.at}: {kind} {name} is not said to be changed\n{text}"


def applied(drivetrain: CommandLine, *given: str) -> dict[str, Any]:
    drivetrain(*APPLY, *given)
    return drivetrain.left()


@pytest.mark.parametrize(
    ("update", "kind", "every"),
    [by_day(False, "denied from then on"), *(at_night(update, kind) for update in (False, True) for kind in KINDS)],
)
def test_a_failed_apply_restores_the_pipeline_or_reports_what_differs(
    drivetrain: CommandLine, kind: str, update: bool, every: int
) -> None:
    first = applied(drivetrain) if update else NOTHING
    second = applied(drivetrain, *CHANGED)
    again = APPLY if update else DESTROY
    drivetrain(*again)
    now = drivetrain.left()
    for faults in each_fault(kind, every):
        before = now
        assert standing(before) == standing(first), f"before {faults.number}"
        code, text = attempt(drivetrain, faults, *APPLY, *CHANGED)
        now = drivetrain.left()
        if faults.came:
            check_ended(faults, code, text, done=standing(now) == standing(second))
            check_half_done(faults, text, before, now)
            if now == before:  # so applying again does what it does without a fault
                continue
        # Applied again all is as if nothing had happened, without --discard.
        code, text = drivetrain.run(*APPLY, *CHANGED)
        assert code == 0, f"after {faults.number} {faults.at}: {text}"
        now = drivetrain.left()
        assert standing(now) == standing(second), f"after {faults.number} {faults.at}"
        assert set(second["objects"]) <= set(now["objects"])
        drivetrain(*again)
        now = drivetrain.left()
    drivetrain(*DESTROY)
    assert drivetrain.left() == NOTHING


@pytest.mark.parametrize(("kind", "every"), [by_day("killed after"), *map(at_night, KINDS)])
def test_a_partial_destroy_is_completed_by_the_next_one(drivetrain: CommandLine, kind: str, every: int) -> None:
    made = applied(drivetrain)
    now = made
    for faults in each_fault(kind, every):
        if now != made:
            now = applied(drivetrain)
        code, text = attempt(drivetrain, faults, *DESTROY)
        if faults.came:
            now = drivetrain.left()
            # Two things may stay, and the command says so: the code, where it cannot see who else uses it, and its
            # lock, where it may not read or delete it.
            may_stay = "AWS denies sagemaker:ListPipelines" in text or (
                "lock.json was not given back" in text and not [name for name in now["objects"] if "lock" not in name]
            )
            gone = standing(now) == standing(NOTHING)
            check_ended(faults, code, text, done=now == NOTHING or (gone and may_stay))
            if now == made:
                continue
        code, text = drivetrain.run(*DESTROY)
        assert code == 0, f"after {faults.number} {faults.at}: {text}"
        now = drivetrain.left()
        assert now == NOTHING, f"after {faults.number} {faults.at}"
