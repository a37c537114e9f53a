"""Start a deployed pipeline when a model changes in the registry, or something is found in the data that it serves.
Nobody tells of these, so both are looked at every now and then.

    change seen -> kept as pending in the storage -> decided (drivetrain/triggers/starting.py) -> started -> forgotten

What is pending is kept before it is started, and each start has a token of its event, so that a process that is killed
loses no change and starts none twice. The first look at a group only remembers how its versions stand, and what was
found before. Findings lie with the registry's evidence, so they need not be kept as pending.

Between two looks only the last of several decisions about one version is seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from drivetrain.base.errors import InputError, UserError
from drivetrain.decision.served_findings import Finding, unpacked
from drivetrain.deploying.applying import Tell
from drivetrain.registry.evidence import SERVED, place_of
from drivetrain.registry.registry import AbsentError as AbsentModelError
from drivetrain.registry.registry import ModelEvent, ModelVersion, Registry
from drivetrain.spec.pipeline import GroupTrigger, Pipeline, RegistryEvent
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
    """How the versions stood at the last look, the changes that are not dealt with yet, and the findings that are; kept
    in the storage."""

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
            # By group: ids. States of earlier releases have none.
            self.findings: dict[str, list[str]] = {
                str(group): list(ids) for group, ids in said.get("findings", {}).items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{uri} is no state of a starter ({error}). Move it away to begin anew.") from None

    def keep(self) -> None:
        """Write it down, as one object."""
        pending = [asdict(each) for each in self.pending]
        said = {"format": FORMAT, "seen": self.seen, "pending": pending, "findings": self.findings}
        self._objects.write(self._uri, json.dumps(said, sort_keys=True).encode())


class Starter:
    """Serves the triggers of one deployed pipeline that are about model groups."""

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
            UserError: the pipeline has no trigger about a model group, or the state cannot be read.
        """
        self._pipeline, self._api, self._registry, self._start, self._tell = pipeline, api, registry, start, tell
        self._experiment, self._now = experiment, now
        self._triggers = {each.name: each for each in pipeline.triggers if isinstance(each, GroupTrigger)}
        if not any(each.enabled for each in self._triggers.values()):
            raise UserError(
                f"Pipeline {pipeline.name!r} has no trigger about a model group that is switched on; its schedules are "
                "recurring runs, which the cluster starts itself. Declare one: RegistryEvent(name=..., group=...), "
                "DataDrift or QualityDrop."
            )
        self._objects, self._state = objects, State(objects, f"{root}/starting/state.json")
        self._without_place: set[str] = set()
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
        for group in self._groups(findings=True):
            self._look_at_findings(group)

    def _look(self) -> None:
        """Changes since the last look become pending."""
        for name in self._groups(findings=False):
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
        self._deal_with_event(event, f"{change.group} version {change.version}")

    def _groups(self, *, findings: bool) -> list[str]:
        """Those whose served data are waited for, or those whose versions are."""
        triggers = self._triggers.values()
        return sorted({each.group for each in triggers if isinstance(each, RegistryEvent) is not findings})

    def _look_at_findings(self, group: str) -> None:
        """Start what is to be started by findings since the last look."""
        found = self._findings(group)
        if found is None:
            return
        known, ids = self._state.findings.get(group), [each.id for each in found]
        for finding in found:
            if known is not None and finding.id not in known:
                event = finding.event(region=_WHERE.region, account=_WHERE.account)
                self._deal_with_event(event, f"{finding.kind.removeprefix('Drivetrain ').lower()} of {group}")
        if known != ids:
            self._state.findings[group] = ids
            self._state.keep()

    def _findings(self, group: str) -> tuple[Finding, ...] | None:
        """Kept findings; None where the registry has no place for them that pods share."""
        place = place_of(self._registry, group, self._registry.champion(group), SERVED)
        if place is not None and place.startswith("s3://"):
            return unpacked(self._objects.read(place) or b"", place).findings
        if group not in self._without_place:
            self._without_place.add(group)
            self._tell(
                f"{self._pipeline.name}: findings in the served data of {group!r} cannot be seen: they lie beside the "
                "approved version in Kubeflow Model Registry or MLflow, and it has none with files in S3"
            )
        return None

    def _deal_with_event(self, event: Json, what: str) -> None:
        now = self._now()
        for answer in replay(self._pipeline, event, earlier=self._earlier(now), now=now):
            if answer.trigger in self._triggers:
                self._answer(answer, what)

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
