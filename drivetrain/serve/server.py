"""The local equivalent of rules and schedules: a scheduler for the clocks, a look at what happened every second."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import logging
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.catalog import EXECUTION_EVENT
from drivetrain.run_store.home import hold, write_whole
from drivetrain.run_store.reader import Ledger
from drivetrain.serve.history import History
from drivetrain.serve.local_events import Watch, is_seen
from drivetrain.serve.runs import QueuedStart, Runs, Served
from drivetrain.spec.pipeline import DataDrift, EventTrigger, QualityDrop, Schedule
from drivetrain.targets.sagemaker.run.options import region_of
from drivetrain.triggers.replay import replay
from drivetrain.triggers.resources import text
from drivetrain.triggers.starting import start_name
from drivetrain.triggers.timing import Clock, clock, when

if TYPE_CHECKING:
    from pathlib import Path

    from drivetrain.registry.registry import Registry
    from drivetrain.run_store.home import Home

POLL_S = 1.0
LATE_S = 3_600
"""A machine that slept starts what it missed, once, if it is not later than the service would be."""


class ClockTrigger:
    """A schedule as APScheduler asks for it (it is registered as one of its triggers)."""

    def __init__(self, read: Clock) -> None:
        self._read = read

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        found = next(self._read.next_times(previous or now), None)
        return None if found is None else found.astimezone(UTC)


class Server:
    """Serves the triggers of some pipelines until it is stopped."""

    def __init__(
        self,
        served: Sequence[Served],
        registry: Registry,
        home: Home,
        say: Callable[[str], None],
        *,
        poll_s: float = POLL_S,
        fresh: bool = False,
        command: Callable[[QueuedStart], Sequence[str]] | None = None,
    ) -> None:
        """Read what was started before; from here on events count.

        Args:
            fresh: let the first start of each pipeline use nothing of earlier runs.

        Raises:
            UserError: APScheduler is not installed, the registry keeps no history, findings in served data are
                damaged, or the home is served already.
        """
        if not registry.keeps_history:
            raise UserError("This registry tells nothing of its changes, so events cannot be served. Give a local one.")
        self._scheduler = _scheduler(self._failed)
        self._served = tuple(served)
        self._home = home
        self._to_be_fresh = {one.pipeline.name for one in served} if fresh else set[str]()
        self._tell = say
        folder: Path = home.root / "serving"
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(folder)
        self._history = History(folder)
        self._watch = Watch(registry, home, _groups(self._served))
        self._runs = Runs(folder, self._ended, waits=self._waits, **({} if command is None else {"command": command}))
        for one in self._served:
            for trigger in one.pipeline.triggers:
                if isinstance(trigger, Schedule) and trigger.enabled:
                    self._scheduler.add_job(
                        self._by_clock, ClockTrigger(clock(trigger)), args=(one, trigger), name=trigger.name
                    )
        self._serving = folder / "served.json"
        write_whole(self._serving, json.dumps([of_pipeline(one) for one in self._served]))
        self._ending = threading.Event()
        self._looks = threading.Thread(target=self._look, args=(poll_s,), name="look at what happened", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._scheduler.start()
        self._looks.start()

    def stop(self) -> None:
        """End: no start after this, and no run left when it returns."""
        self._ending.set()
        if self._looks.ident is not None:  # it was begun
            self._looks.join()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)
        for begun in self._runs.stop():
            name = begun.served.pipeline.name
            self._history.forget(name, begun.name)
            self._say(f"{name} / {begun.name} is not run: it waited, and the server ends")
        self._serving.unlink(missing_ok=True)
        self._lock.close()

    def poll(self) -> None:
        """Look at what happened since the last time, and start what it fires.

        One of these is at work at a time. A schedule may start meanwhile: its starts have names of their own, so that
        no limit or duplicate of an event's trigger hangs on them.

        Raises:
            OSError: a start could not be kept; its event comes again, and what it has started counts as a duplicate.
        """
        for event in self._watch.events():
            for one in self._served:
                try:
                    self._by_event(one, event)
                except OSError:
                    raise
                except Exception as error:  # it would be the same the next time, and keep back all that comes after
                    self._failed(error, traceback.format_exc())

    def _look(self, poll_s: float) -> None:
        """Poll until the end; a job of the scheduler would rest until a clock that was set back has caught up."""
        before = None
        while not self._ending.wait(poll_s):
            # Until a schedule is due it waits for seconds, which are not counted while the machine sleeps.
            self._scheduler.wakeup()
            try:
                self.poll()
                before = None
            except Exception as error:
                if str(error) != before:  # a full disk is full each second
                    self._failed(error, traceback.format_exc())
                before = str(error)

    def _by_event(self, one: Served, event: Any) -> None:
        pipeline = one.pipeline
        if event["detail-type"] != EXECUTION_EVENT:
            # The local registry is of no region; that of the pipeline is in the ARNs of its executions.
            event = {**event, "region": region_of(pipeline.deployment)}
        now = datetime.now(UTC)
        for answer in replay(pipeline, event, earlier=self._history.of(pipeline.name), now=now):
            trigger = next(given for given in pipeline.triggers if given.name == answer.trigger)
            if answer.starts:
                assert answer.token is not None
                self._begin(
                    QueuedStart(one, answer.trigger, start_name(answer.trigger, answer.token), answer.parameters), now
                )
            elif isinstance(trigger, EventTrigger) and answer.matched:
                self._say(f"{pipeline.name} / {answer.trigger} does not start: {answer.reasons[0]}")

    def _by_clock(self, one: Served, trigger: Schedule) -> None:
        now = datetime.now(UTC)
        digest = hashlib.sha256(f"{one.pipeline.name}/{trigger.name}/{now.isoformat()}".encode()).hexdigest()
        given = {name: text(value) for name, value in trigger.parameters.items()}
        self._begin(QueuedStart(one, trigger.name, start_name(trigger.name, digest), given), now)

    def _begin(self, begun: QueuedStart, now: datetime) -> None:
        name = begun.served.pipeline.name
        begun = replace(begun, fresh=name in self._to_be_fresh)
        self._to_be_fresh.discard(name)
        self._history.add(name, begun.name, now, begun.parameters)
        self._say(f"{name} / {begun.trigger} starts {begun.name}" + (" (--fresh)" if begun.fresh else ""))
        self._runs.start(begun)

    def _say(self, line: str) -> None:
        # Who reads it may be gone (serve | logger), or the disk behind it full. What was begun goes on all the same.
        with contextlib.suppress(OSError):
            self._tell(line)

    def _failed(self, error: BaseException, trace: str) -> None:
        self._say(f"failed: {type(error).__name__}: {error}\n{trace}")

    def _waits(self, begun: QueuedStart) -> None:
        self._say(f"{begun.served.pipeline.name} / {begun.name} waits for a run that an earlier server left behind")

    def _ended(self, begun: QueuedStart, code: int | OSError, log: Path) -> None:
        how = self._success(begun) if code == 0 else f"ended with exit code {code}"
        if isinstance(code, OSError):
            how = f"could not be started ({code})"
        self._say(f"{begun.served.pipeline.name} / {begun.name} {how}: {log}")

    def _success(self, begun: QueuedStart) -> str:
        """The line about a run that succeeded, which is the pipeline's latest."""
        with Ledger(self._home) as ledger:
            latest = ledger.executions(1, begun.served.pipeline.name)
            found = latest[0].nothing_new_since if latest else None
        return f"found nothing new since {found}" if found else "succeeded"


def _groups(served: Iterable[Served]) -> Iterator[str]:
    """The model groups in whose served data findings are waited for."""
    for trigger in (trigger for one in served for trigger in one.pipeline.triggers):
        if isinstance(trigger, DataDrift | QualityDrop):
            yield trigger.group


def of_pipeline(one: Served) -> dict[str, Any]:
    """For displays of what is served and when it starts next."""
    triggers = one.pipeline.triggers
    return {
        "pipeline": one.pipeline.name,
        "triggers": [trigger.model_dump(mode="json") for trigger in triggers],
        "waits": {each.name: when(each) + ("" if is_seen(each) else " (not seen here)") for each in triggers},
    }


def _locked(folder: Path) -> IO[bytes]:
    """A file that this process alone has: two servers of one home would start everything twice."""
    import fcntl

    file = (folder / "lock").open("ab")
    try:
        hold(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB, folder.parent)
    except BlockingIOError:
        file.close()
        raise UserError(
            f"{folder.parent} is being served already. End that, or give another folder by --home."
        ) from None
    return file


def _scheduler(failed: Callable[[BaseException, str], None]) -> Any:
    """APScheduler, which tells `failed` of the error of a job, with its traceback."""

    def told(event: Any) -> None:
        failed(event.exception, event.traceback)

    try:
        background: Any = importlib.import_module("apscheduler.schedulers.background")
        base: Any = importlib.import_module("apscheduler.triggers.base")
        events: Any = importlib.import_module("apscheduler.events")
    except ImportError:
        raise UserError("Serving triggers needs APScheduler. Install it: pip install 'drivetrain[serve]'.") from None
    base.BaseTrigger.register(ClockTrigger)
    # What fails is said by the server; without a handler Python would print it a second time.
    logging.getLogger("apscheduler").addHandler(logging.NullHandler())
    made = background.BackgroundScheduler(
        timezone=UTC, job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": LATE_S}
    )
    made.add_listener(told, events.EVENT_JOB_ERROR)
    return made
