"""The starter for a registry that tells nobody: each change starts the pipeline once, whatever ends the process."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Generator
from typing import Any

import pytest

from drivetrain.authoring.loading import load
from drivetrain.aws.s3 import Client
from drivetrain.base.errors import InputError, UserError
from drivetrain.decision.served_findings import DATA_DRIFT, Finding, packed
from drivetrain.decision.served_findings import Served as FoundInServed
from drivetrain.registry.backends import _kubeflow_rest as backend
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import Registry, open_registry
from drivetrain.spec.pipeline import DataDrift, GroupTrigger, Limit, Pipeline, RegistryEvent
from drivetrain.targets.deployer import Starter, StartRequest
from tests.fixtures.kubeflow_pipelines.place import Killed, Place
from tests.fixtures.kubeflow_server import Store, kubeflow_server


class Served:
    """A deployed pipeline with a starter, and its registry."""

    def __init__(self, place: Place, address: str, store: Store) -> None:
        self.place, self.store = place, store
        place.settings["registry"] = f"kubeflow:{address}"
        self.registry: Registry = open_registry(place.settings["registry"])
        self.said: list[str] = []
        place.apply()

    def starter(self, **trigger: Any) -> Starter:
        """That of a new process."""
        return self.served(RegistryEvent(name="approved", group="champions", **trigger))

    def served(self, event: GroupTrigger) -> Starter:
        pipeline: Pipeline = load(str(self.place.folder / "nightly.py")).pipeline
        return self.place.deployer().starter(pipeline.model_copy(update={"triggers": (event,)}), self.said.append)

    def register(self, content: str, execution: str | None = None, approval: str = "PendingManualApproval") -> int:
        digest = hashlib.sha256(content.encode()).hexdigest()
        return self.registry.register("champions", digest, ModelRecord(), execution=execution, approval=approval)[0]

    def runs(self) -> list[str]:
        return [each["display_name"] for each in self.place.cluster.store.runs.values()]


@pytest.fixture
def served(place: Place) -> Generator[Served]:
    with kubeflow_server() as (address, store):
        yield Served(place, address, store)


def test_an_approval_starts_the_pipeline_once(served: Served) -> None:
    served.register("old", approval="Approved")
    starter = served.starter()
    starter.poll()
    assert served.runs() == [] and "has 1 versions; changes count from here on" in served.said[0]
    version = served.register("new")
    starter.poll()
    assert served.runs() == []  # a new version is no decision
    served.registry.set_status("champions", version, "Approved", by="me")
    for _ in range(3):
        starter.poll()
    served.starter().poll()  # another process goes on from what the first wrote down
    assert len(served.runs()) == 1 and served.runs()[0].startswith("approved-")
    assert served.said[-1].endswith("for champions version 2")
    served.registry.set_status("champions", version, "Rejected")
    served.starter().poll()
    served.registry.set_status("champions", version, "Approved", by="me")
    served.starter().poll()
    assert len(served.runs()) == 2  # it is another decision


def test_a_version_reapproved_between_two_polls_starts_the_pipeline(served: Served) -> None:
    version = served.register("old", approval="Approved")
    starter = served.starter()
    starter.poll()
    served.registry.set_status("champions", version, "Approved", reason="still good")
    starter.poll()
    assert served.runs() == []  # another reason is no other decision
    served.registry.set_status("champions", version, "Rejected")
    served.registry.set_status("champions", version, "Approved", reason="good after all")
    starter.poll()
    starter.poll()
    served.starter().poll()
    assert len(served.runs()) == 1
    served.registry.set_status("champions", version, "Rejected")
    served.registry.set_status("champions", version, "Approved")
    served.starter().poll()
    assert len(served.runs()) == 2


def test_a_poll_reads_only_the_groups_of_its_triggers(served: Served) -> None:
    served.register("one")
    for name in ("letters", "faces"):
        served.registry.register(name, hashlib.sha256(b"x").hexdigest(), ModelRecord())
    starter = served.starter()
    served.store.requests.clear()
    starter.poll()
    paths = [path for _, path, _ in served.store.requests]
    assert paths == ["/registered_model?name=champions", paths[1]] and paths[1].startswith(
        "/registered_models/1/versions?"
    )


def test_a_group_name_confused_by_the_database_is_an_error(served: Served) -> None:
    served.registry.register("Champions", hashlib.sha256(b"x").hexdigest(), ModelRecord())
    with pytest.raises(
        InputError, match=r"has a group 'Champions', and its database does not distinguish it from 'champions'"
    ):
        served.starter().poll()


def test_one_hand_edited_property_stops_no_trigger(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.register("old")
    starter = served.starter()
    starter.poll()
    served.store.kinds["versions"]["2"]["customProperties"]["drivetrain.approval"]["string_value"] = "Approved"
    served.registry.set_status("champions", served.register("new"), "Approved")
    starter.poll()
    starter.poll()
    assert len(served.runs()) == 1 and served.said[-1].endswith("for champions version 2")
    assert capsys.readouterr().err.count("champions version 1: drivetrain.approval was changed by hand") == 1


def calls_of(monkeypatch: pytest.MonkeyPatch, number: int, after: bool) -> Callable[[], int]:
    """Kill the process at a call of the API or the storage."""
    from drivetrain.targets.kubeflow.deploy.rest import Api

    count = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *given: Any, **more: Any) -> Any:
            nonlocal count
            count += 1
            mine = count
            if mine == number and not after:
                raise Killed
            found = original(self, *given, **more)
            if mine == number:
                raise Killed
            return found

        return call

    monkeypatch.setattr(Api, "_send", counted(Api._send))
    monkeypatch.setattr(Client, "_patiently", counted(Client._patiently))
    return lambda: count


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_call_loses_and_repeats_nothing(served: Served, after: bool) -> None:
    served.starter().poll()
    for number in range(1, 40):
        version = served.register(f"content {number}")
        served.starter().poll()
        served.registry.set_status("champions", version, "Approved")
        before = len(served.runs())
        with pytest.MonkeyPatch.context() as patch:
            count = calls_of(patch, number, after)
            with contextlib.suppress(Killed):
                served.starter().poll()
            came = count() >= number
        served.starter().poll()
        served.starter().poll()
        assert len(served.runs()) == before + 1, f"call {number}"
        if not came:
            assert number > 6
            return
    raise AssertionError("a poll makes more calls")


def test_an_unavailable_api_loses_no_event(served: Served) -> None:
    starter = served.starter()
    starter.poll()
    served.registry.set_status("champions", served.register("new"), "Approved")
    served.place.cluster.fault = lambda method, path: "gone"
    with pytest.raises(UserError, match="did not do it"):
        starter.poll()
    served.place.cluster.fault = lambda method, path: ""
    starter.poll()
    assert len(served.runs()) == 1


def test_its_own_models_do_not_start_it(served: Served) -> None:
    starter = served.starter(changed=())
    starter.poll()
    own = served.place.deployer().start("nightly", StartRequest(name="own")).id
    served.register("mine", execution=own, approval="Approved")
    starter.poll()
    assert served.runs() == ["own"] and "loop guard" in served.said[-1]
    served.register("theirs", execution="somebody-else", approval="Approved")
    starter.poll()
    assert len(served.runs()) == 2
    unguarded = served.starter(changed=(), loop_guard=False)
    served.register("mine again", execution=own, approval="Approved")
    unguarded.poll()
    assert len(served.runs()) == 3


def test_starts_beyond_the_limit_are_dropped(served: Served) -> None:
    from datetime import UTC, datetime

    starter: Any = served.starter(limit=Limit(starts=1, every="1 day"))
    # The clock of the stand-in is its own.
    starter._now = lambda: datetime.fromtimestamp(served.place.cluster.store.now + 1, UTC)
    starter.poll()
    for content in ("one", "two"):
        served.registry.set_status("champions", served.register(content), "Approved")
    starter.poll()
    starter.poll()
    assert len(served.runs()) == 1 and "rate limit: 1 starts" in served.said[-1]


def test_a_finding_starts_the_pipeline_each_time_that_it_is_told(served: Served) -> None:
    bucket, said = (
        served.place.bucket,
        "findings in the served data of 'champions' cannot be seen: they lie beside",
    )
    served.register("old", approval="Approved")
    drift = DataDrift(name="drift", group="champions")
    starter = served.served(drift)
    starter.poll()
    starter.poll()
    assert [said in line for line in served.said] == [True]  # once
    digest, place = hashlib.sha256(b"new").hexdigest(), f"s3://{bucket}/drivetrain-evidence/champions-served.json"
    record = ModelRecord(artifact=f"s3://{bucket}/models/model.tar.gz")
    served.registry.register("champions", digest, record, approval="Approved")

    def find(*told_at: float) -> None:
        found = [
            Finding(kind=DATA_DRIFT, group="champions", version=2, day="2026-11-30", told_at=at, columns=("age",))
            for at in told_at
        ]
        served.place.deployer().objects.write(place, packed(FoundInServed(findings=tuple(found))))

    find(1.0)
    starter.poll()
    assert served.runs() == []  # found before anybody looked
    find(1.0, 2.0)
    served.place.cluster.fault = lambda method, path: "gone"
    with pytest.raises(UserError, match="did not do it"):
        starter.poll()
    served.place.cluster.fault = lambda method, path: ""
    starter.poll()
    starter.poll()
    served.served(drift).poll()  # another process goes on
    assert len(served.runs()) == 1 and served.said[-1].endswith("for data drift of champions")
    find(1.0, 3.0)  # told again
    served.served(drift).poll()
    assert len(served.runs()) == 2 and served.runs()[1].startswith("drift-")


def test_unservable_triggers_are_reported(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "FIRST_PAUSE", 0.0)
    deployer = served.place.deployer()
    pipeline = load(str(served.place.folder / "nightly.py"), None, ["by_itself=false"]).pipeline
    with pytest.raises(UserError, match="has no trigger about a model group that is switched on"):
        deployer.starter(pipeline, print)
    uri = f"s3://{served.place.bucket}/pipelines/nightly/starting/state.json"
    deployer.objects.write(uri, b"{}")
    with pytest.raises(UserError, match="is no state of a starter"):
        served.starter()
    deployer.objects.delete([uri])
    del served.place.settings["registry"]
    with pytest.raises(UserError, match=r"Set deployment\.targets\.kubeflow\.registry"):
        served.starter()
    served.place.settings["registry"] = "kubeflow:http://127.0.0.1:9"
    with pytest.raises(InputError):
        served.starter().poll()
