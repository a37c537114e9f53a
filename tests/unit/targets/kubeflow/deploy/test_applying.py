"""Apply, disturbed at each of its calls: it is done, or taken back, and the next one comes to the same."""

from __future__ import annotations

import pytest

from drivetrain.deploying.applying import HalfDoneError
from drivetrain.targets.kubeflow.deploy import deployed as reading
from tests.faults.harness.kubeflow_applying import CHANGED, FIRST_CALL, KINDS, Fault, attempt, violations
from tests.fixtures.kubeflow_pipelines.place import Place

MOST_CALLS = 60


@pytest.mark.slow_cases("429-at2", "gone for a minute-at3", "403 of this kind-at5")
@pytest.mark.parametrize(
    ("kind", "at"),
    [
        ("lost", ("POST", "/recurringruns")),
        ("500", ("POST", "/recurringruns")),
        ("429", ("POST", "/upload_version")),
        ("gone for a minute", ("POST", "/upload_version")),
        ("403 from then on", ("POST", "/recurringruns")),
        ("403 of this kind", ("POST", "/recurringruns")),
        ("late", ("POST", "/upload_version")),
    ],
)
def test_a_first_apply_survives_faults_at_critical_calls(place: Place, kind: str, at: tuple[str, str]) -> None:
    place.apply()
    after = place.standing()
    number = next(
        n for n, (method, path) in enumerate(place.cluster.calls, 1) if method == at[0] and path.endswith(at[1])
    )
    _destroy(place)
    before = place.standing()
    fault = Fault(kind, number, place)
    ended = attempt(place, fault)
    assert fault.at.endswith(at[1])
    assert violations(place, fault, ended, before, after) == []


def test_the_next_apply_continues_after_a_kill(place: Place) -> None:
    place.apply()
    after = place.standing()
    _destroy(place)
    uploads = len(place.cluster.store.uploads)
    for number, at in ((28, "/pipelines'"), (26, "/upload_version")):  # without the version, and with it
        fault = Fault("killed after", number, place)
        assert attempt(place, fault) == "killed" and at in fault.at, fault.at
    assert violations(place, fault, "killed", {}, after) == []
    assert len(place.cluster.store.uploads) == uploads + 1


@pytest.mark.slow
@pytest.mark.nightly_cases(but=["killed after"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_first_apply_survives_a_fault_at_each_of_its_calls(place: Place, kind: str) -> None:
    place.apply()
    after = place.standing()
    for number in range(FIRST_CALL.get(kind, 1), MOST_CALLS):
        _destroy(place)
        before = place.standing()
        fault = Fault(kind, number, place)
        ended = attempt(place, fault)
        if not fault.at:
            break
        assert violations(place, fault, ended, before, after) == []
    else:
        raise AssertionError("apply makes more calls")
    assert number > 10, "the faults came to too few calls"


@pytest.mark.slow
@pytest.mark.nightly_cases(but=["lost", "500 from then on"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_survives_a_fault_at_each_of_its_calls(place: Place, kind: str) -> None:
    place.apply()
    before = _copy(place)
    place.apply(*CHANGED)
    standing = place.standing()
    for number in range(FIRST_CALL.get(kind, 1), MOST_CALLS):
        _restore(place, before)
        old = place.standing()
        fault = Fault(kind, number, place)
        ended = attempt(place, fault, *CHANGED)
        if not fault.at:
            break
        assert violations(place, fault, ended, old, standing, *CHANGED) == []
    else:
        raise AssertionError("apply makes more calls")
    assert number > 10, "the faults came to too few calls"


@pytest.mark.parametrize("refused", ["", "recurringruns"])
def test_two_concurrent_applies_end_in_one_of_both(place: Place, refused: str) -> None:
    """Another apply of the same code comes between the plan and the upload: nothing is there twice."""
    wanted, deployer = place.wanted(), place.deployer()
    plan = deployer.plan(wanted)
    came: list[str] = []

    def between(method: str, path: str) -> str:
        if path.endswith("/upload_version") and not came:
            came.append(path)
            mine = place.cluster.store.pipelines
            assert len(mine) == 1
            other = place.deployer()
            version = plan.version
            assert version is not None
            from drivetrain.targets.kubeflow.deploy import service

            place.cluster.store.lock.release()
            try:
                mark = reading.marked(wanted.description, sha256=wanted.sha256)
                service.upload_version(other.api, next(iter(mine)), version, mark, wanted.text)
            finally:
                place.cluster.store.lock.acquire()
        return ""

    place.cluster.fault = between
    if refused:
        denied = ("POST", f"/apis/v2beta1/{refused}")
        place.cluster.fault = lambda method, path: between(method, path) or ("403" if (method, path) == denied else "")
        with pytest.raises(HalfDoneError):
            deployer.apply(wanted, plan, lambda line: None)
        assert came and plan.version in place.cluster.store.left()["versions"]  # theirs is not taken back
        return
    deployer.apply(wanted, plan, lambda line: None)
    assert came and place.check() == [] and len(place.cluster.store.uploads) == 1


def _destroy(place: Place) -> None:
    deployer = place.deployer()
    deployer.destroy(deployer.remains("nightly"), lambda line: None)


def _copy(place: Place) -> dict[str, dict[str, dict[str, object]]]:
    store = place.cluster.store
    names = ("pipelines", "versions", "experiments", "recurring", "runs")
    return {name: {id: dict(each) for id, each in getattr(store, name).items()} for name in names}


def _restore(place: Place, kept: dict[str, dict[str, dict[str, object]]]) -> None:
    for name, kind in kept.items():
        setattr(place.cluster.store, name, {id: dict(each) for id, each in kind.items()})
