"""Applies on a cluster whose API fails: what a fault does, when it comes, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drivetrain.aws.s3 import Client
from drivetrain.deploying.applying import HalfDoneError
from drivetrain.targets.kubeflow.deploy.rest import Api, ApiError
from tests.fixtures.kubeflow_pipelines.place import ANSWER_SECONDS, Killed, Place

ONCE = ("500", "503", "429", "lost", "gone", "late")
"""Come once: apply does not notice."""
KILLED = ("killed before", "killed after")
LASTING = ("500 from then on", "gone from then on", "403 from then on")
REFUSED = ("403 of this kind",)
"""All calls of the same method and path, as of a role that lacks one permission: what was done can be taken back."""
KINDS = (*ONCE, *KILLED, *LASTING, *REFUSED, "gone for a minute")
FIRST_CALL = {"gone for a minute": 2}
"""An API that does not answer at all is given up in seconds."""
CHANGED = ("rows=20", "cron=30 4 * * ? *", "other=true")


class Fault:
    """A fault at the call of that number, counted over API and storage."""

    def __init__(self, kind: str, number: int, place: Place) -> None:
        self.kind, self.number, self.place = kind, number, place
        self.calls = 0
        self.at = ""
        self._until: float | None = None

    def answer(self, method: str, path: str) -> str:
        """What the server is told about a request."""
        if self.kind in KILLED:
            return ""
        self.calls += 1
        word = self.kind.partition(" ")[0]
        if self.kind == "gone for a minute":
            if self.calls < self.number:
                return ""
            if self._until is None:
                self._until, self.at = self.place.clock.now + 60.0, f"{method} {path}"
            return "gone" if self.place.clock.now < self._until else ""
        came = self.calls >= self.number if self.kind in LASTING else self.calls == self.number
        came |= self.kind in REFUSED and self.at == f"{method} {path}"
        if came and not self.at:
            self.at = f"{method} {path}"
        return word if came else ""


class killing:  # noqa: N801
    """Ends the process before or after a call of the API or the storage."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        if self._fault.kind not in KILLED:
            return
        for owner, name in ((Api, "_send"), (Client, "_patiently")):
            self._patch.setattr(owner, name, self._counted(getattr(owner, name)))

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        fault = self._fault

        def call(self: Any, *given: Any, **more: Any) -> Any:
            fault.calls += 1
            now = fault.calls == fault.number
            if now:
                fault.at = str(given[:2])
                if fault.kind == "killed before":
                    raise Killed
            found = original(self, *given, **more)
            if now:
                raise Killed
            return found

        return call


def attempt(place: Place, fault: Fault, *changed: str) -> str:
    """Apply beside the fault; gives how it ended: `done`, `refused`, `killed`."""
    place.answer_seconds = 0.3 if fault.kind == "late" else ANSWER_SECONDS
    with place.cluster.store.lock:
        place.cluster.fault = fault.answer
    try:
        with killing(fault):
            place.apply(*changed)
        return "done"
    except Killed:
        return "killed"
    except (ApiError, HalfDoneError) as error:
        text = str(error)
        assert len(text.splitlines()) == 1 and "Traceback" not in text, text
        return f"refused: {text}"
    finally:
        place.cluster.fault = lambda method, path: ""
        place.answer_seconds = ANSWER_SECONDS


def violations(place: Place, fault: Fault, ended: str, before: Any, after: Any, *changed: str) -> list[str]:
    """What does not hold after an apply that ended so, and after the next one."""
    found: list[str] = []
    standing = place.standing()
    if fault.kind in (*ONCE, "gone for a minute") and ended != "done":
        found.append(f"ended {ended}")
    if ended == "done" and standing != after:
        found.append("done, and is not what was wanted")
    if fault.kind in REFUSED and ended != "done" and standing != (after if "was written" in ended else before):
        found.append(f"could be taken back, and is not: {ended}")
    if ended.startswith("refused") and "is taken back." in ended and standing != before:
        found.append(f"said to be taken back, and is not: {ended}")
    if ended.startswith("refused") and "Nothing was changed" in ended and standing != before:
        found.append("said to be unchanged, and is not")
    place.apply(*changed)
    if place.standing() != after:
        found.append(f"the next apply came to something else: {place.standing()}")
    found += place.check()
    if not place.deployer().plan(place.wanted(*changed)).is_empty:
        found.append("there is still something to do")
    return [f"{fault.kind} at {fault.number} ({fault.at}): {text}" for text in found]
