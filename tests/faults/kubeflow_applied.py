"""Break the Pipelines API, or kill the process, at any call of an apply: 500, 429, a lost answer, gone for a minute or
for good. It is done, or taken back; applied again it comes to the same; nothing is there twice, nothing left over."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.fixtures.kubeflow_pipelines.place import Place

FAULT = "Kubeflow's API fails or apply is killed, at any call: done or taken back, then the same; nothing is twice"
TRIALS, QUICK, AT_ONCE = 400, 4, 2
PRELOAD = ("tests.faults.harness.kubeflow_applying",)
# More than an apply makes: some faults come after the end, which must do no harm either.
_MOST_CALLS, _WITH_STORAGE = 20, 45
# Servers end with the process.
_SERVING: list[ExitStack] = []


def prepare(folder: Path) -> Place:
    """The namespace of all trials of a process; each begins with an empty one."""
    import os

    from tests.fixtures.kubeflow_pipelines.place import Place
    from tests.fixtures.kubeflow_pipelines.server import pipelines_api
    from tests.fixtures.s3_server import s3_server, variables

    os.environ.update(variables(s3_server()))
    _SERVING.append(stack := ExitStack())
    return Place(folder / "code", stack.enter_context(pipelines_api()))


def trial(given: Trial, shared: Place) -> Found:
    from tests.faults.harness.kubeflow_applying import CHANGED, FIRST_CALL, KILLED, KINDS, Fault, attempt, violations

    changed = given.in_turn(((), CHANGED))
    _empty(shared, applied=bool(changed))
    shared.apply(*changed)
    after = shared.standing()
    _empty(shared, applied=bool(changed))
    did: Counter[str] = Counter()
    found: list[str] = []
    for more in range(given.draw.randint(0, 1), -1, -1):  # one fault, or one more on top of what the first left
        before = shared.standing()
        kind = given.draw.choice(KINDS)
        most = _WITH_STORAGE if kind in KILLED else _MOST_CALLS  # killed it is at calls of the storage, too
        fault = Fault(kind, given.draw.randint(FIRST_CALL.get(kind, 1), most), shared)
        ended = attempt(shared, fault, *changed)
        did[kind if fault.at else "came after the end"] += 1
        if not more:
            found += violations(shared, fault, ended, before, after, *changed)
        elif ended == "done" and shared.standing() != after:
            found.append(f"{kind} at {fault.number}: done, and is not what was wanted")
    return Found(found, did)


def _empty(place: Place, *, applied: bool) -> None:
    """Nothing in the namespace and the storage, or what a first apply makes."""
    from tests.fixtures.kubeflow_pipelines.store import Store

    place.cluster.store = Store()
    objects = place.deployer().objects
    objects.delete(objects.listed(f"s3://{place.bucket}/"))
    if applied:
        place.apply()
