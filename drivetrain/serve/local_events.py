"""Local happenings as the events that EventBridge would deliver: registered models, ended executions, findings in
served data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import InputError, warn
from drivetrain.decision.served_findings import Finding, kept_findings
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.statuses import ACCOUNT, REGION
from drivetrain.spec.pipeline import DataDrift, PipelineFinished, QualityDrop, RegistryEvent, Schedule, Trigger
from drivetrain.triggers.package_events import package_event

if TYPE_CHECKING:
    from drivetrain.registry.registry import Registry
    from drivetrain.run_store.home import Home

CHANGES = frozenset(("ModelApprovalStatus", "ApprovalDescription"))
"""The fields of a version that a decision in the local registry changes."""


class Watch:
    """The events since it was made, each once. Not for several threads.

    They are known by their numbers, findings by their ids: a clock may be set back, and what is ended now may have
    begun long ago.
    """

    def __init__(self, registry: Registry, home: Home, groups: Iterable[str]) -> None:
        """
        Args:
            groups: the model groups in whose served data findings are events.

        Raises:
            InputError: kept findings are damaged. Of a group where they become so later none is told, with a warning.
        """
        self._registry = registry
        self._home = home
        self._groups = sorted(set(groups))
        self._warned: set[str] = set()
        kept = [kept_findings(registry, group).findings for group in self._groups]
        self._seen_findings = {finding.id for findings in kept for finding in findings}
        self._last_model = max((event.id for event in registry.events()), default=0)
        with self._ledger() as ledger:
            self._last_execution = ledger.last_event()

    def events(self) -> Iterator[Mapping[str, Any]]:
        """The events since the last call: models first, then executions, then findings, each in their order.

        An event is told when the next one is asked for: one on which the caller raises comes again.
        """
        for change in self._registry.events(after=self._last_model):
            yield package_event(self._registry.version(change.group, change.version), change)
            self._last_model = change.id
        with self._ledger() as ledger:
            ended = ledger.execution_events(after=self._last_execution)
        for told in ended:
            yield told.event
            self._last_execution = told.number
        for finding in self._findings():
            if finding.id not in self._seen_findings:
                yield finding.event(region=REGION, account=ACCOUNT)
                self._seen_findings.add(finding.id)

    def _findings(self) -> Iterator[Finding]:
        for group in self._groups:
            try:
                yield from kept_findings(self._registry, group).findings
            except InputError as error:
                if str(error) not in self._warned:
                    warn(str(error))
                    self._warned.add(str(error))

    def _ledger(self) -> Ledger:
        return Ledger(self._home)


def is_seen(trigger: Trigger) -> bool:
    """Return True if what a trigger waits for can happen here."""
    if isinstance(trigger, RegistryEvent):
        wanted = trigger.changes()
        return not wanted or not CHANGES.isdisjoint(wanted)
    return isinstance(trigger, Schedule | PipelineFinished | DataDrift | QualityDrop)
