"""Triggers on this machine: approvals and ended runs start runs, once, one at a time, and none is left behind."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from drivetrain import (
    Alarm,
    DataDrift,
    Deployment,
    Limit,
    Parameter,
    Pipeline,
    PipelineFinished,
    QualityDrop,
    RegistryEvent,
    Schedule,
    Upload,
    UserError,
)
from drivetrain.decision.served_findings import DATA_DRIFT, QUALITY_DROP, Finding, packed
from drivetrain.decision.served_findings import Served as FoundInServed
from drivetrain.registry.evidence import SERVED, change_evidence, place_of
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.registry import RegistryError, open_registry
from drivetrain.run_store.home import Home
from drivetrain.run_store.statuses import Facts
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.serve.history import FILE, History
from drivetrain.serve.local_events import CHANGES, is_seen
from drivetrain.serve.runs import QueuedStart, Runs, Served, run_command
from drivetrain.serve.server import ClockTrigger, Server
from drivetrain.spec.pipeline import Trigger
from drivetrain.triggers.package_events import package_event
from drivetrain.triggers.timing import clock

OWN = "arn:aws:sagemaker:us-east-1:000000000000:pipeline/retrain/execution/abc"
APPROVED = RegistryEvent(name="approved", group="digits", parameters={"Model": "$.detail.ModelPackageArn"})
WAIT_S = 30.0


def pipeline(*triggers: Any, name: str = "retrain") -> Pipeline:
    return Pipeline(name=name, parameters=[Parameter.string("Model", "none")], triggers=triggers)


def python(code: str) -> Callable[[QueuedStart], list[str]]:
    return lambda begun: [sys.executable, "-I", "-S", "-c", code, begun.name, json.dumps(dict(begun.parameters))]


def facts(id: str, pipeline: str) -> Facts:
    return Facts(id=id, pipeline=pipeline, region="us-east-1", account="000000000000", started=0.0)


class World:
    """A home with a registry, a server over it, and what it said."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        self.home.create()
        self.registry = open_registry(f"local:{self.home.ledger}")
        self.said: queue.Queue[str] = queue.Queue()
        self.servers: list[Server] = []

    def serve(self, *pipelines: Pipeline, code: str = "import sys; print(sys.argv[1:])", **options: Any) -> Server:
        served = [Served(one, (one.name,)) for one in pipelines]
        made = Server(served, self.registry, self.home, self.said.put, command=python(code), **options)
        self.servers.append(made)
        return made

    def approve(self, digit: str, execution: str | None = None) -> None:
        version, _ = self.registry.register(
            "digits", digit * 64, record_of({"ModelPackageGroupName": "digits"}), execution=execution
        )
        self.registry.set_status("digits", version, "Approved")

    def run(self, pipeline: str, status: Any) -> None:
        """An execution as the local runner enters it."""
        self.begin(pipeline, id := f"run-{pipeline}-{status}")
        self.finish(pipeline, id, status)

    def begin(self, pipeline: str, *ids: str) -> None:
        with LedgerWriter(self.home) as ledger:
            for id in ids:
                ledger.facts = facts(id, pipeline)
                ledger.begin(id, pipeline, definition_hash="d", request_hash="r", parameters={}, steps=())

    def finish(self, pipeline: str, id: str, status: Any) -> None:
        with LedgerWriter(self.home) as ledger:
            ledger.facts = facts(id, pipeline)
            ledger.finish(id, status, None)

    def find(self, *findings: Finding, group: str = "digits") -> None:
        """Write what check_served found."""
        place = place_of(self.registry, group, None, SERVED)
        assert place is not None
        change_evidence(place, lambda kept: packed(FoundInServed(findings=findings)))

    def next(self) -> str:
        return self.said.get(timeout=WAIT_S)

    def started(self) -> list[str]:
        path = self.home.root / "serving" / FILE
        return [json.loads(line)["name"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for server in made.servers:
        server.stop()


def test_an_approval_starts_a_run(world: World) -> None:
    world.approve("a")  # before anybody looked
    server = world.serve(pipeline(APPROVED))
    server.poll()
    assert world.started() == []
    world.approve("b")
    server.poll()
    (name,) = world.started()
    assert world.next() == f"retrain / approved starts {name}"
    log = world.home.root / "serving" / f"{name}.log"
    assert world.next() == f"retrain / {name} succeeded: {log}"
    arn = "arn:aws:sagemaker:us-east-1:000000000000:model-package/digits/2"
    assert f'\'{{"Model": "{arn}"}}\'' in log.read_text()
    server.poll()
    assert len(world.started()) == 1


@pytest.mark.parametrize("region", ["us-east-1", "cn-north-1", "us-gov-west-1"])
def test_the_loop_guard_knows_this_machines_executions_of_any_region(world: World, region: str) -> None:
    here = pipeline(APPROVED).model_copy(update={"deployment": Deployment(targets={"sagemaker": {"region": region}})})
    server = world.serve(here)
    own = Facts(id="abc", pipeline="retrain", region=region, account="000000000000", started=0.0)
    world.approve("a", execution=own.execution_arn)
    server.poll()
    assert world.started() == []
    world.approve("b")
    server.poll()
    assert len(world.started()) == 1


def test_every_decision_is_a_change_of_its_own(world: World) -> None:
    server = world.serve(pipeline(APPROVED))
    world.approve("a")
    world.registry.set_status("digits", 1, "Rejected")
    world.registry.set_status("digits", 1, "Approved")
    server.poll()
    assert len(set(world.started())) == 2


def test_own_models_start_nothing_and_this_is_reported(world: World) -> None:
    server = world.serve(pipeline(APPROVED))
    world.approve("a", execution=OWN)
    server.poll()
    assert world.next().startswith("retrain / approved does not start: loop guard")
    assert world.started() == []


def test_a_limit_holds_over_a_restart(world: World) -> None:
    limited = APPROVED.model_copy(update={"limit": Limit(starts=1, every="1 day")})
    first = world.serve(pipeline(limited))
    world.approve("a")
    first.poll()
    assert "starts" in world.next() and "succeeded" in world.next()
    first.stop()
    second = world.serve(pipeline(limited))
    world.approve("b")
    second.poll()
    assert len(world.started()) == 1
    lines = [world.next() for _ in range(world.said.qsize())]
    assert any("rate limit: 1 starts in the last 86,400 s" in line for line in lines)


def test_another_pipelines_end_starts_a_run(world: World) -> None:
    server = world.serve(pipeline(PipelineFinished(name="features", pipeline="Features")))
    world.run("features", "Succeeded")
    world.run("features2", "Succeeded")
    world.run("features", "Failed")
    server.poll()
    (name,) = world.started()
    assert world.next() == f"retrain / features starts {name}"
    server.poll()
    assert len(world.started()) == 1


def test_earlier_ends_are_no_events_and_new_ends_are_reported_once(world: World) -> None:
    world.run("features", "Succeeded")
    server = world.serve(pipeline(PipelineFinished(name="after", pipeline="features")))
    server.poll()
    assert world.started() == [] and world.said.empty()
    world.run("features", "Failed")  # another run, which the trigger does not wait for
    world.run("more", "Succeeded")
    server.poll()
    assert world.started() == []
    late = pipeline(PipelineFinished(name="after", pipeline="extra"))
    server.stop()
    server = world.serve(late)
    world.run("extra", "Succeeded")
    server.poll()
    assert "starts" in world.next() and "succeeded" in world.next()
    server.poll()
    assert len(world.started()) == 1 and world.said.empty()


def test_the_end_of_a_long_run_is_reported_after_later_starts(world: World) -> None:
    world.begin("features", "long")
    server = world.serve(pipeline(PipelineFinished(name="after", pipeline="features")))
    world.begin("other", *(f"short-{number}" for number in range(101)))
    world.finish("features", "long", "Succeeded")
    server.poll()
    assert len(world.started()) == 1


def test_an_end_is_reported_after_the_clock_was_set_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    server = world.serve(pipeline(PipelineFinished(name="after", pipeline="features")))
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() - 3_600)
    world.run("features", "Succeeded")
    server.poll()
    server.poll()
    assert len(world.started()) == 1


def finding(told_at: float, **more: Any) -> Finding:
    kind: Any = {"kind": DATA_DRIFT, "columns": ("age", "income")} | more
    return Finding(group="digits", version=1, day="2026-11-30", told_at=told_at, **kind)


def test_a_finding_starts_a_run_each_time_that_it_is_told(world: World) -> None:
    old, drift, told_again = finding(3e9), finding(2e9), finding(1e9)  # the clock was set back
    world.find(old)  # before anybody looked
    column: Any = {"Model": "$.detail.columns[0]"}
    trigger = DataDrift(name="drift", group="digits", columns=("age",), parameters=column, limit=Limit(starts=2))
    server = world.serve(pipeline(trigger, QualityDrop(name="drop", group="digits", metric="accuracy")))
    for found, starts in (
        ((old,), 0),
        ((old, drift), 1),
        ((old, drift), 1),
        ((old, told_again), 2),
        ((old, told_again, finding(4e9, columns=("income",))), 2),
        ((old, told_again, finding(5e9)), 2),  # beyond the limit
        ((finding(6e9, kind=QUALITY_DROP, columns=(), metric="auc"),), 2),
        ((finding(7e9, kind=QUALITY_DROP, columns=(), metric="accuracy"),), 3),
    ):
        world.find(*found)
        server.poll()
        assert len(world.started()) == starts, found
    first, second, third = world.started()
    assert first.startswith("drift-") and second.startswith("drift-") and third.startswith("drop-")
    while not world.next().startswith(f"retrain / {first} succeeded"):
        pass
    assert '{"Model": "age"}' in (world.home.root / "serving" / f"{first}.log").read_text()


def test_damaged_findings_are_told_before_the_server_begins(world: World) -> None:
    place = place_of(world.registry, "digits", None, SERVED)
    assert place is not None
    change_evidence(place, lambda kept: b"{")
    with pytest.raises(UserError, match=r"digits-served\.json is damaged"):
        world.serve(pipeline(DataDrift(name="drift", group="digits")))


def test_findings_that_are_damaged_later_hide_no_other_groups(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    place = place_of(world.registry, "a", None, SERVED)
    assert place is not None
    triggers = [DataDrift(name=f"of-{group}", group=group) for group in ("a", "digits")]
    server = world.serve(pipeline(*triggers))
    change_evidence(place, lambda kept: b"{")
    world.find(finding(1e9))
    server.poll()
    server.poll()
    assert [name.rpartition("-")[0] for name in world.started()] == ["of-digits"]
    assert capsys.readouterr().out.count("a-served.json is damaged") == 1


@pytest.mark.parametrize(
    ("trigger", "seen"),
    [
        (APPROVED, True),
        (RegistryEvent(name="any", group="digits", changed=()), True),
        (RegistryEvent(name="both", group="digits", stage="Production"), True),
        (RegistryEvent(name="promoted", group="digits", status=None, stage="Production"), False),
        (RegistryEvent(name="card", group="digits", changed=("ModelCard",)), False),
        (PipelineFinished(name="after", pipeline="features"), True),
        (Schedule(name="daily", rate="1 day"), True),
        (Upload(name="data", bucket="arrivals"), False),
        (DataDrift(name="drift", group="digits"), True),
        (QualityDrop(name="drop", group="digits"), True),
        (Alarm(name="drift", alarm="d"), False),
    ],
)
def test_events_that_can_occur_locally(trigger: Trigger, seen: bool) -> None:
    assert is_seen(trigger) is seen


def test_decisions_produce_the_observed_changes(world: World) -> None:
    world.approve("a")
    world.registry.set_status("digits", 1, "Rejected", reason="blurred")
    assert {field for event in world.registry.events() for field in event.updated_fields} == CHANGES


def test_a_run_has_a_session_of_its_own(world: World) -> None:
    """An interrupt typed at the terminal reaches the server alone, which ends its runs in order."""
    server = world.serve(pipeline(APPROVED), code="import os; print(os.getsid(0) == os.getpid())")
    world.approve("a")
    server.poll()
    world.next()
    assert Path(world.next().rpartition(": ")[2]).read_text() == "True\n"


def test_a_machine_that_slept_starts_what_it_missed_within_the_hour(world: World) -> None:
    server = world.serve(pipeline(Schedule(name="daily", rate="1 day")))
    server.start()
    (job,) = (job for job in server._scheduler.get_jobs() if job.name == "daily")  # type: ignore[reportPrivateUsage]
    assert (job.misfire_grace_time, job.coalesce) == (3_600, True)


def test_a_start_is_on_disk_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append((tmp_path / FILE).read_text()))
    history = History(tmp_path)
    history.add("p", "t-1", datetime.now(UTC), {})
    history.forget("p", "t-1")
    assert [text.count("\n") for text in synced] == [1, 2]


def test_failures_of_a_run_are_reported(world: World) -> None:
    server = world.serve(pipeline(APPROVED), code="import sys; sys.exit('no data')")
    world.approve("a")
    server.poll()
    assert "starts" in world.next()
    said = world.next()
    assert "ended with exit code 1" in said
    assert Path(said.rpartition(": ")[2]).read_text() == "no data\n"


def test_a_home_is_served_once(world: World) -> None:
    server = world.serve(pipeline(APPROVED))
    with pytest.raises(UserError, match="is being served already"):
        world.serve(pipeline(APPROVED))
    server.stop()
    world.serve(pipeline(APPROVED))


class Soon:
    """A clock that runs once, just after it is asked for the first time."""

    def __init__(self, trigger: Schedule) -> None:
        self._asked = False

    def next_times(self, after: datetime) -> Iterator[datetime]:
        if not self._asked:
            self._asked = True
            yield after + timedelta(milliseconds=50)


def test_by_the_clock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through APScheduler itself: a schedule that is due runs once, with its parameters; one that is off does not."""
    from drivetrain.serve import server as module

    monkeypatch.setattr(module, "clock", Soon)
    once = Schedule(name="once", rate="1 day", parameters={"Model": "m"})
    off = Schedule(name="off", rate="1 day", enabled=False)
    server = world.serve(pipeline(once, off))
    server.start()
    assert world.next().startswith("retrain / once starts once-")
    assert "succeeded" in (ended := world.next())
    assert '{"Model": "m"}' in Path(ended.rpartition(": ")[2]).read_text()
    assert len(world.started()) == 1


def test_the_server_polls_by_itself(world: World) -> None:
    server = world.serve(pipeline(APPROVED), poll_s=0.05)
    server.start()
    world.approve("a")
    assert "approved starts" in world.next()


class WrongClock(datetime):
    """What APScheduler takes for the time."""

    ahead = timedelta()

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime.now(tz) + cls.ahead


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Moves the time that APScheduler sees."""
    import apscheduler.schedulers.base

    monkeypatch.setattr(apscheduler.schedulers.base, "datetime", WrongClock)
    monkeypatch.setattr(WrongClock, "ahead", timedelta())
    return lambda ahead: monkeypatch.setattr(WrongClock, "ahead", ahead)


def test_the_server_keeps_polling_when_the_clock_is_set_back(
    world: World, set_clock: Callable[[timedelta], None]
) -> None:
    server = world.serve(pipeline(APPROVED), poll_s=0.02)
    server.start()
    world.approve("a")
    assert "approved starts" in world.next() and "succeeded" in world.next()
    set_clock(timedelta(hours=-1))
    world.approve("b")
    assert "approved starts" in world.next()


def test_a_clock_jump_does_not_delay_a_schedule(world: World, set_clock: Callable[[timedelta], None]) -> None:
    """As after a sleep of the machine, which no wait for a number of seconds notices."""
    server = world.serve(pipeline(Schedule(name="daily", rate="1 day")), poll_s=0.02)
    server.start()
    set_clock(timedelta(days=1, seconds=10))
    assert "daily starts" in world.next()


def test_a_closed_output_does_not_stop_the_server(world: World) -> None:
    """Neither the run that is said to start, nor those after one that is said to have ended."""

    def to_nobody(line: str) -> None:
        world.said.put(line)
        raise BrokenPipeError(32, "Broken pipe")

    served = [Served(pipeline(APPROVED), ())]
    server = Server(served, world.registry, world.home, to_nobody, command=python("print('ran')"))
    world.servers.append(server)
    for digit in "ab":
        world.approve(digit)
        server.poll()
        assert "starts" in world.next()
        said = world.next()
        assert "succeeded" in said and Path(said.rpartition(": ")[2]).read_text() == "ran\n"


def test_an_unopenable_lock_does_not_delay_other_runs(tmp_path: Path) -> None:
    ended: queue.Queue[tuple[str, Any]] = queue.Queue()
    runs = Runs(tmp_path, lambda one, code, log: ended.put((one.name, code)), python(""))
    (lock := tmp_path / "p.lock").mkdir()
    try:
        runs.start(begun("bad"))
        name, code = ended.get(timeout=WAIT_S)
        assert name == "bad" and isinstance(code, IsADirectoryError)
        lock.rmdir()
        runs.start(begun("good"))
        assert ended.get(timeout=WAIT_S) == ("good", 0)
    finally:
        runs.stop()


def failing_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception) -> None:
    """Let a function fail the first time."""
    right = getattr(owner, name)

    def fails(*arguments: Any) -> Any:
        monkeypatch.setattr(owner, name, right)
        raise error

    monkeypatch.setattr(owner, name, fails)


def test_an_approval_with_an_unreadable_model_is_retried(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.registry.register("digits", "a" * 64, record_of({"ModelPackageGroupName": "digits"}))
    server = world.serve(pipeline(APPROVED))
    world.approve("a")
    failing_once(monkeypatch, world.registry, "version", RegistryError("locked"))
    with pytest.raises(RegistryError):
        server.poll()
    server.poll()
    assert len(world.started()) == 1


@pytest.mark.parametrize("what", ["an approval", "an end"])
def test_an_event_whose_start_was_not_recorded_is_retried(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    server = world.serve(pipeline(APPROVED, PipelineFinished(name="after", pipeline="features")))
    if what == "an approval":
        world.approve("a")
    else:
        world.run("features", "Succeeded")
    failing_once(monkeypatch, os, "fsync", OSError(28, "No space left on device"))
    with pytest.raises(OSError, match="No space"):
        server.poll()
    assert world.started() == [] and world.said.empty()
    server.poll()
    server.poll()
    (name,) = world.started()
    assert [one.name for one in History(world.home.root / "serving").of("retrain")] == [name]


def test_an_event_that_fails_for_one_pipeline_reaches_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from drivetrain.serve import server as module

    right = module.replay

    def fails(of: Pipeline, *arguments: Any, **options: Any) -> Any:
        if of.name == "bad":
            raise KeyError("detail")
        return right(of, *arguments, **options)

    monkeypatch.setattr(module, "replay", fails)
    server = world.serve(pipeline(APPROVED, name="bad"), pipeline(APPROVED, name="good"))
    world.approve("a")
    server.poll()
    failed = [world.next() for _ in range(2)]  # of the registration, and of the approval
    assert all(said.startswith("failed: KeyError: 'detail'") for said in failed)
    assert world.next().startswith("good / approved starts") and "succeeded" in world.next()
    server.poll()
    assert len(world.started()) == 1 and world.said.empty()


def test_a_repeated_error_is_reported_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    server = world.serve(pipeline(APPROVED), poll_s=0.01)
    looks: queue.Queue[None] = queue.Queue()

    def fails() -> None:
        looks.put(None)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(server, "poll", fails)
    server.start()
    for _ in range(4):
        looks.get(timeout=WAIT_S)
    server.stop()
    assert "No space" in world.next() and world.said.empty()


def test_errors_are_reported(world: World) -> None:
    server = world.serve(pipeline(APPROVED), poll_s=0.05)
    (world.home.root / "serving" / FILE).mkdir()
    server.start()
    world.approve("a")
    said = world.next()
    assert said.startswith("failed: IsADirectoryError") and "in _begin" in said


def test_the_apscheduler_interface_of_the_clock() -> None:
    trigger = ClockTrigger(clock(Schedule(name="s", cron="30 1 * * ? *", timezone="America/New_York")))
    now = datetime(2026, 10, 31, 12, tzinfo=UTC)
    first = trigger.get_next_fire_time(None, now)
    second = trigger.get_next_fire_time(first, now)
    assert [str(time) for time in (first, second)] == ["2026-11-01 05:30:00+00:00", "2026-11-02 06:30:00+00:00"]
    assert ClockTrigger(clock(Schedule(name="s", at="2026-01-01T00:00:00"))).get_next_fire_time(None, now) is None


def test_the_event_of_a_decision(world: World) -> None:
    world.approve("a", execution=OWN)
    created, approved = world.registry.events()
    version = world.registry.version("digits", 1)
    event = package_event(version, approved)
    assert event["detail"]["UpdatedModelPackageFields"] == ["ModelApprovalStatus"]
    assert event["detail"]["ModelApprovalStatus"] == "Approved"
    assert event["detail"]["MetadataProperties"] == {"GeneratedBy": OWN}
    assert (event["account"], event["region"]) == ("000000000000", "us-east-1")
    assert event["resources"] == [event["detail"]["ModelPackageArn"]] == [version.arn]
    before = package_event(version, created)
    assert before["detail"]["ModelApprovalStatus"] == "PendingManualApproval"  # as it was then
    assert before["detail"]["UpdatedModelPackageFields"] == [] and before["id"] != event["id"]
    assert package_event(version, approved) == event


def test_the_command_of_a_start() -> None:
    served = Served(pipeline(), ("again.py", "--home", "h"))
    command = run_command(QueuedStart(served, "t", "t-1", {"Model": "a b", "X": "-1"}))
    assert command[1:] == [
        *("-m", "drivetrain.cli.main", "run", "again.py", "--home", "h"),
        *("--param", "Model=a b", "--param", "X=-1"),
    ]


def test_the_first_start_of_each_pipeline_is_fresh_on_request(world: World) -> None:
    flags: list[bool] = []
    first = world.serve(pipeline(APPROVED), fresh=True)
    first._runs.start = lambda begun: flags.append(begun.fresh)
    for digit in "ab":
        world.approve(digit)
        first.poll()
    assert flags == [True, False]
    assert world.next().endswith(" (--fresh)") and not world.next().endswith(" (--fresh)")
    served = Served(pipeline(), ("again.py",))
    assert run_command(QueuedStart(served, "t", "t-1", fresh=True))[-1] == "--fresh"
    assert "--fresh" not in run_command(QueuedStart(served, "t", "t-1"))


def begun(name: str, of: str = "p") -> QueuedStart:
    return QueuedStart(Served(pipeline(name=of), ()), "t", name)


def test_runs_of_one_pipeline_are_sequential(tmp_path: Path) -> None:
    ended: queue.Queue[str] = queue.Queue()
    code = (
        "import os, sys\n"
        "os.close(os.open('working', os.O_CREAT | os.O_EXCL))\n"  # fails while another one works
        "print(sys.argv[1])\n"
        "os.unlink('working')\n"
    )
    runs = Runs(
        tmp_path,
        lambda one, code, log: ended.put(f"{one.name} {code}"),
        python(f"import os; os.chdir({str(tmp_path)!r})\n{code}"),
    )
    try:
        for place in range(4):
            runs.start(begun(f"r{place}"))
        assert [ended.get(timeout=WAIT_S) for _ in range(4)] == [f"r{place} 0" for place in range(4)]
    finally:
        runs.stop()


def test_stop_leaves_no_process_and_starts_none(tmp_path: Path) -> None:
    ended: queue.Queue[tuple[str, int | OSError]] = queue.Queue()
    code = (
        "import os, signal, sys, time\n"
        f"open({str(tmp_path)!r} + '/' + sys.argv[1], 'w').write(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    runs = Runs(tmp_path, lambda one, code, log: ended.put((one.name, code)), python(code))
    runs.start(begun("first"))
    runs.start(begun("waits"))
    runs.start(begun("other", of="q"))
    deadline = time.monotonic() + WAIT_S
    while not all((tmp_path / name).exists() and (tmp_path / name).read_text() for name in ("first", "other")):
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    runs.stop()
    assert sorted(ended.get_nowait()[0] for _ in range(2)) == ["first", "other"] and ended.empty()
    for name in ("first", "other"):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / name).read_text()), 0)
    runs.start(begun("late"))
    assert not (tmp_path / "late.log").exists() and not (tmp_path / "waits.log").exists()


def test_a_run_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    ended: queue.Queue[int | OSError] = queue.Queue()
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "time.sleep(600)\n"
    )
    runs = Runs(tmp_path, lambda one, code, log: ended.put(code), python(code))
    runs.start(begun("deaf"))
    deadline = time.monotonic() + WAIT_S
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    runs.stop(grace_s=0.1)
    assert ended.get_nowait() == -9


def test_a_run_that_cannot_start_does_not_delay_others(tmp_path: Path) -> None:
    ended: queue.Queue[tuple[str, Any]] = queue.Queue()

    def command(one: QueuedStart) -> list[str]:
        return ["/nonexistent/python"] if one.name == "bad" else [sys.executable, "-I", "-S", "-c", ""]

    runs = Runs(tmp_path, lambda one, code, log: ended.put((one.name, code)), command)
    try:
        runs.start(begun("bad"))
        runs.start(begun("good"))
        name, code = ended.get(timeout=WAIT_S)
        assert name == "bad" and isinstance(code, FileNotFoundError)
        assert ended.get(timeout=WAIT_S) == ("good", 0)
    finally:
        runs.stop()


def test_history(tmp_path: Path) -> None:
    times = [datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in range(3)]
    made = History(tmp_path)
    for place, moment in enumerate(times):
        made.add("p", f"t-{place}", moment, {"Token": "secret"})
    made.add("q", "t-9", times[0], {})
    assert "secret" not in (tmp_path / FILE).read_text()
    found = History(tmp_path).of("p")
    assert [one.name for one in found] == ["t-0", "t-1", "t-2"]
    assert all(one.started < two.started for one, two in pairwise(found))
    assert History(tmp_path).of("r") == ()


def test_an_unrecorded_start_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = History(tmp_path)
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    made.add("p", "t-0", moment, {})
    failing_once(monkeypatch, os, "fsync", OSError(28, "No space left on device"))
    with pytest.raises(OSError, match="No space"):
        made.add("p", "t-1", moment, {})
    made.add("p", "t-2", moment, {})
    for known in (made, History(tmp_path)):
        assert [one.name for one in known.of("p")] == ["t-0", "t-2"]


def test_history_after_a_crash_in_the_middle_of_a_line(tmp_path: Path) -> None:
    made = History(tmp_path)
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    made.add("p", "t-0", moment, {})
    with (tmp_path / FILE).open("a") as file:
        file.write('{"pipeline": "p", "na')
    again = History(tmp_path)
    again.add("p", "t-1", moment, {})
    assert [one.name for one in History(tmp_path).of("p")] == ["t-0", "t-1"]
    with (tmp_path / FILE).open("a") as file:
        file.write("[]\n")
    with pytest.raises(UserError, match="line 3: not a start"):
        History(tmp_path)


def until_told(folder: Path) -> tuple[str, Path]:
    """A program that tells by a pipe that it works, and then works until it is ended."""
    pipe = folder / "works"
    os.mkfifo(pipe)
    return f"import signal; open({str(pipe)!r}, 'w').close(); signal.pause()", pipe


def test_waiting_starts_are_reported_and_dropped_at_the_end(world: World, tmp_path: Path) -> None:
    code, pipe = until_told(tmp_path)
    server = world.serve(pipeline(APPROVED), code=code)
    world.approve("a")
    world.approve("b")
    server.poll()
    first, second = world.started()
    pipe.read_bytes()  # until the first works
    server.stop()
    said = [world.next() for _ in range(4)]
    assert said[2] == f"retrain / {first} ended with exit code -15: {world.home.root}/serving/{first}.log"
    assert said[3] == f"retrain / {second} is not run: it waited, and the server ends"
    assert not (world.home.root / "serving" / f"{second}.log").exists()
    assert [one.name for one in History(world.home.root / "serving").of("retrain")] == [first]


@pytest.mark.slow
def test_a_run_of_a_killed_server_is_waited_for(world: World) -> None:
    import fcntl

    server = world.serve(pipeline(APPROVED))
    with (world.home.root / "serving" / "retrain.lock").open("ab") as left:
        fcntl.flock(left, fcntl.LOCK_EX)
        world.approve("a")
        server.poll()
        (name,) = world.started()
        assert world.next() == f"retrain / approved starts {name}"
        assert world.next() == f"retrain / {name} waits for a run that an earlier server left behind"
    assert world.next().startswith(f"retrain / {name} succeeded")


def test_starts_waiting_for_a_leftover_run_are_dropped_at_the_end(world: World) -> None:
    import fcntl

    server = world.serve(pipeline(APPROVED))
    with (world.home.root / "serving" / "retrain.lock").open("ab") as left:
        fcntl.flock(left, fcntl.LOCK_EX)
        world.approve("a")
        server.poll()
        assert [world.next().split()[3] for _ in range(2)] == ["starts", "waits"]
        server.stop()
    assert "is not run" in world.next()


def test_a_run_holds_the_lock_of_its_pipeline_itself(world: World, tmp_path: Path) -> None:
    """The server's own hold on it ends with the server."""
    import fcntl

    code, pipe = until_told(tmp_path)
    server = world.serve(pipeline(APPROVED), code=code)
    world.approve("a")
    server.poll()
    pipe.read_bytes()
    with (world.home.root / "serving" / "retrain.lock").open("ab") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    server.stop()
    with (world.home.root / "serving" / "retrain.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
