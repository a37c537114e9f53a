import contextlib
import itertools
import random
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.registry.backends._backend import Kept, chosen, registered_once
from drivetrain.registry.registry import NotAllowedError, RegistryError


@dataclass(frozen=True)
class Version:
    version: int
    status: str = "PendingManualApproval"


class Store:
    """A registry that takes any number of versions of a content, and counts on."""

    def __init__(self) -> None:
        self.versions: dict[int, bool] = {}
        self.numbers = itertools.count(1)

    def holding(self) -> list[Kept]:
        return [Kept(version, untouched) for version, untouched in self.versions.items()]

    def create(self) -> int:
        number = next(self.numbers)
        self.versions[number] = True
        return number

    def delete(self, version: int) -> None:
        self.versions.pop(version, None)

    def register(self) -> tuple[int, bool]:
        return registered_once(self.holding, self.create, self.delete)


class KilledError(Exception):
    pass


def steps(store: Store) -> Generator[None, None, tuple[int, bool]]:
    """A registration that pauses before each of its requests; closed, it is killed there."""
    go, paused = threading.Semaphore(0), threading.Semaphore(0)
    ended: list[tuple[int, bool]] = []
    killed = threading.Event()

    def pausing(request: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: object) -> Any:
            paused.release()
            go.acquire()
            if killed.is_set():
                raise KilledError
            return request(*arguments)

        return call

    def work() -> None:
        holding, create, delete = pausing(store.holding), pausing(store.create), pausing(store.delete)
        with contextlib.suppress(KilledError):
            ended.append(registered_once(holding, create, delete))
        paused.release()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        while True:
            paused.acquire()
            if ended:
                return ended[0]
            yield
            go.release()
    finally:
        killed.set()
        go.release()
        thread.join()


@pytest.mark.parametrize("seed", range(60))
def test_any_interleaving_of_three_writers_with_kills_leaves_one_version(seed: int) -> None:
    draw = random.Random(seed)
    store = Store()
    running = [steps(store) for _ in range(3)]
    answers: list[tuple[int, bool]] = []
    while running:
        run = draw.choice(running)
        try:
            next(run)
        except StopIteration as ended:
            answers.append(ended.value)
            running.remove(run)
        else:
            if draw.random() < 0.1:
                run.close()
                running.remove(run)
    number, _ = store.register()
    assert list(store.versions) == [number]
    assert {answer[0] for answer in answers} <= {number}
    assert sum(created for _, created in answers) <= 1


def test_a_duplicate_with_a_decision_is_kept() -> None:
    store = Store()
    store.versions = {1: True, 2: False, 3: True}
    assert store.register() == (1, False)
    assert list(store.versions) == [1, 2]


def test_a_stale_list_does_not_lose_a_new_version() -> None:
    made: list[int] = []

    def create() -> int:
        made.append(7)
        return 7

    assert registered_once(list, create, made.remove) == (7, True) and made == [7]


def test_a_refusal_is_no_error_if_another_writer_registered() -> None:
    store = Store()

    def refused() -> int:
        store.create()
        raise InputError("the token was used with other numbers")

    assert registered_once(store.holding, refused, store.delete) == (1, False)
    store.versions.clear()
    with pytest.raises(InputError, match="bad"):
        registered_once(store.holding, lambda: (_ for _ in ()).throw(InputError("bad")), store.delete)
    with pytest.raises(RegistryError, match="gone"):
        registered_once(store.holding, lambda: (_ for _ in ()).throw(RegistryError("gone")), store.delete)


def test_a_caller_without_delete_rights_still_gets_the_one_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = Store()

    def refuse(version: int) -> None:
        raise NotAllowedError("SageMaker refuses, taking back version 2: AccessDenied.")

    def create() -> int:
        # Seven others have looked before any of them made one.
        for _ in range(7):
            store.create()
        return store.create()

    assert registered_once(store.holding, create, refuse) == (1, False)
    said = capsys.readouterr().err
    assert "warning: the content is version 1; it is also in 2, 3, 4, 5, 6, 7, 8" in said and "refuses" in said
    for _ in range(2):
        assert registered_once(store.holding, store.create, refuse) == (1, False)
    assert len(store.versions) == 8
    # Whoever may take them back does so with the next registration.
    assert store.register() == (1, False) and list(store.versions) == [1]


def test_a_version_is_chosen_by_number_latest_or_approved() -> None:
    versions = [Version(5), Version(3, "Approved"), Version(1, "Approved")]
    assert [chosen("g", which, versions).version for which in ("latest", "approved", 1, "5")] == [5, 3, 1, 5]
    with pytest.raises(InputError, match="Allowed: 1 to 5, latest, approved"):
        chosen("g", 2, versions)
