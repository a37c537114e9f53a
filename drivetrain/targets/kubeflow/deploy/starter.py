"""Start a deployed pipeline when a model changes in the registry, which tells nobody: it is asked every now and then.

    change seen -> kept as pending in the storage -> decided (drivetrain/triggers/starting.py) -> started -> forgotten

What is pending is kept before it is started, and each start has a token of its event, so that a process that is killed
loses no change and starts none twice. The first look at a group only remembers how its versions stand.

Between two looks only the last of several decisions about one version is seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from drivetrain.base.errors import InputError, UserError
from drivetrain.deploying.applying import Tell
from drivetrain.registry.registry import AbsentError as AbsentModelError
from drivetrain.registry.registry import ModelEvent, ModelVersion, Registry
from drivetrain.spec.pipeline import Pipeline, RegistryEvent
from drivetrain.targets.deployer import StartRequest
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.executions import executions as running
from drivetrain.targets.kubeflow.deploy.objects import Objects
from drivetrain.targets.kubeflow.deploy.rest import AbsentError, Api, ApiError
from drivetrain.triggers.package_events import package_event
from drivetrain.triggers.patterns import Where
from drivetrain.triggers.replay import Verdict, replay
from drivetrain.triggers.resources import request
from drivetrain.triggers.starting import Earlier, looked_back, start_name

# Patterns and tokens are spelled with the pipeline's ARN; there is no account here.
_WHERE = Where("us-east-1", "000000000000", "aws")
FORMAT = 1
Json = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A change that was seen of a version: its status, the one before (None for a new version), and when it was
    decided."""

    group: str
    version: int
    status: str
    before: str | None
    at: float


class Seen(NamedTuple):
    """How a version stood at a look, and when that was decided."""

    status: str
    at: float


class State:
    """How the versions stood at the last look, and the changes that are not dealt with yet; kept in the storage."""

    def __init__(self, objects: Objects, uri: str) -> None:
        """Read what was kept.

        Raises:
            UserError: the storage cannot be asked, or holds something else.
        """
        self._objects, self._uri = objects, uri
        content = objects.read(uri)
        said: Any = {"format": FORMAT, "seen": {}, "pending": []}
        try:
            said = said if content is None else json.loads(content)
            if said["format"] != FORMAT:
                raise ValueError(f"format {said['format']!r}")
            # By group and version: the status, and when that was decided.
            self.seen: dict[str, dict[str, Seen]] = {
                str(group): {str(version): Seen(*each) for version, each in of.items()}
                for group, of in said["seen"].items()
            }
            self.pending = [Change(**each) for each in said["pending"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{uri} is no state of a starter ({error}). Move it away to begin anew.") from None

    def keep(self) -> None:
        """Write it down, as one object."""
        said = {"format": FORMAT, "seen": self.seen, "pending": [asdict(each) for each in self.pending]}
        self._objects.write(self._uri, json.dumps(said, sort_keys=True).encode())


class Starter:
    """Serves the registry's triggers of one deployed pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        api: Api,
        objects: Objects,
        registry: Registry,
        start: Callable[[StartRequest], str],
        tell: Tell,
        *,
        root: str,
        experiment: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """
        Raises:
            UserError: the pipeline has no trigger of the registry, or the state cannot be read.
        """
        self._pipeline, self._api, self._registry, self._start, self._tell = pipeline, api, registry, start, tell
        self._experiment, self._now = experiment, now
        self._triggers = {each.name: each for each in pipeline.triggers if isinstance(each, RegistryEvent)}
        if not any(each.enabled for each in self._triggers.values()):
            raise UserError(
                f"Pipeline {pipeline.name!r} has no trigger of the registry that is switched on; its schedules are "
                "recurring runs, which the cluster starts itself. Declare one: RegistryEvent(name=..., group=...)."
            )
        self._state = State(objects, f"{root}/starting/state.json")
        self._arn = _WHERE.pipeline_arn(pipeline.name)
        self._is_new = False
        """True if the state holds what is not written down yet."""

    def poll(self) -> None:
        """Look once, and start what is to be started.

        Raises:
            UserError: registry, storage or API do not answer. What is pending comes again.
        """
        self._look()
        if self._is_new:
            self._state.keep()
            self._is_new = False
        for change in list(self._state.pending):
            self._deal_with(change)
            self._state.pending.remove(change)
            self._state.keep()

    def _look(self) -> None:
        """Changes since the last look become pending."""
        for name in sorted({each.group for each in self._triggers.values()}):
            try:
                versions = self._registry.versions(name)
            except AbsentModelError:
                versions = []  # nothing was registered yet
            known = self._state.seen.get(name)
            now = {str(each.version): Seen(each.status, each.modified_at) for each in versions}
            if known == now:
                continue
            if known is None:
                count = len(versions)
                self._tell(f"{self._pipeline.name}: group {name!r} has {count} versions; changes count from here on")
            else:
                for each in sorted(versions, key=lambda version: version.version):
                    before = _status_before(known.get(str(each.version)), each)
                    if before != each.status:
                        self._state.pending.append(Change(name, each.version, each.status, before, each.modified_at))
            self._state.seen[name] = now
            self._is_new = True

    def _deal_with(self, change: Change) -> None:
        try:
            version = self._registry.version(change.group, change.version)
        except AbsentModelError:
            self._tell(f"{change.group} version {change.version} is gone from the registry; nothing starts for it")
            return
        own = self._own_execution(version)
        fields = () if change.before is None else ("ModelApprovalStatus",)
        told = ModelEvent(
            id=change.version,
            group=change.group,
            version=change.version,
            at=change.at,
            status=cast("Any", change.status),
            previous_status=cast("Any", change.before),
            updated_fields=fields,
            reason=version.reason,
            by=None,
        )
        event = package_event(version, told, region=_WHERE.region, account=_WHERE.account, execution=own)
        now = self._now()
        for answer in replay(self._pipeline, event, earlier=self._earlier(now), now=now):
            if answer.trigger in self._triggers:
                self._answer(answer, f"{change.group} version {change.version}")

    def _answer(self, answer: Verdict, what: str) -> None:
        name = f"{self._pipeline.name} / {answer.trigger}"
        if not answer.starts:
            if answer.matched:
                self._tell(f"{name} does not start for {what}: {answer.reasons[0]}")
            return
        assert answer.token is not None
        called = start_name(answer.trigger, answer.token)
        try:
            self._start(StartRequest(parameters=answer.parameters, name=called, token=answer.token))
        except (ApiError, InputError):
            raise  # it does not answer now, and comes again
        except UserError as error:  # it would be the same the next time
            self._tell(f"{name} cannot start for {what}: {error}")
            return
        self._tell(f"{name} started {called} for {what}")

    def _own_execution(self, version: ModelVersion) -> str | None:
        """The ARN by which the loop guard knows that an execution of this pipeline made the version."""
        if not version.execution:
            return None
        try:
            run = service.get_run(self._api, version.execution)
        except AbsentError:
            return None
        there = running.required(self._api, self._pipeline.name)
        is_own = running.is_of(run, self._pipeline.name, there.id)
        return f"{self._arn}/execution/{version.execution}" if is_own else None

    def _earlier(self, now: datetime) -> list[Earlier]:
        """The executions that limits and duplicates are counted of."""
        since = max(looked_back(request(self._pipeline, each, self._arn)) for each in self._triggers.values())
        found: list[Earlier] = []
        for run in running.runs_of(self._api, self._pipeline.name, self._experiment):
            started = datetime.fromtimestamp(service.seconds(run.get("created_at")) or 0.0, UTC)
            if now - started > since:
                break
            found.append(Earlier(str(run.get("display_name") or ""), started))
        return found


def _status_before(seen: Seen | None, version: ModelVersion) -> str | None:
    """The status that a version had before its last decision; its present status if nothing was decided since.

    A version that was decided on and put back between two looks had another status meanwhile.
    """
    if seen is None:
        return None if version.modified_at == version.created_at else "PendingManualApproval"
    if seen.status == version.status and seen.at != version.modified_at:
        return "PendingManualApproval" if version.status != "PendingManualApproval" else "Rejected"
    return seen.status
