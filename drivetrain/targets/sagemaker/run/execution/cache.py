"""Step caching as SageMaker does it, and a plain account of why a step hit or missed.

A step's result is taken from an earlier execution of the same pipeline in which the step of that name succeeded with
equal key attributes and not too long ago. What lies behind a URI does not count, nor do outputs, instance types or the
role: that is the service's rule, and what ran here must run alike there. What it overlooks is said in warnings.
https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-caching.html and pipelines-default-keys.html there
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.masking import Masking
from drivetrain.base.records import dataclass
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.objects import ObjectStore, StoredObject, digest_of, sha256_of, stamp_of, stored
from drivetrain.run_store.schema import ObjectEntry
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.step_types import key_fields, key_of, step_type

if TYPE_CHECKING:
    from drivetrain.run_store.reader import Ledger
    from drivetrain.targets.sagemaker.run.execution.cache_differences import Difference
    from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope
    from drivetrain.targets.sagemaker.run.options import Options


# A training's result that is offered to no other run (ledger: start_step).
_CHANGED_ON_ITS_WAY = """
    SELECT execution FROM steps WHERE pipeline = ? AND name = ? AND status = 'Succeeded' AND cache_key IS NULL
    AND cache_fields IS NOT NULL ORDER BY ended DESC LIMIT 1
"""


@dataclass(frozen=True)
class Explanation:
    """Why a step was taken from the cache or has to run.

    `fields` are the key attributes that differ from the latest success; `reasons` say the same in few words;
    `warnings` name differences that the cache does not look at. `earlier` has an equal key; without a hit it is too
    old, or what it wrote is gone or changed.
    """

    hit: bool
    reasons: tuple[str, ...] = ()
    fields: tuple[Difference, ...] = ()
    warnings: tuple[str, ...] = ()
    earlier: StepRun | None = None


def look_up(
    step: StepNode,
    arguments: Mapping[str, Any],
    *,
    execution: str,
    pipeline: str,
    ledger: Ledger,
    store: ObjectStore,
    masking: Masking,
) -> Explanation:
    """Find the result of an earlier execution, or say why there is no such result.

    Args:
        arguments: the step's, resolved.
        execution: the present one, for naming upstream steps that ran again.
    """
    if step.type == "Transform":
        # It asks a model of the same execution (step_types/transform.py), which the service gives a new name each time.
        return Explanation(False, ("its model is created anew in each execution",))
    fields = key_fields(step.type, arguments)
    if fields is None:
        return Explanation(False, (f"steps of type {step.type} are not cached",))
    key = key_of(step.type, fields)
    earlier = ledger.earlier_success(pipeline, step.name, key)
    if earlier is None:
        return _missed(step, fields, execution, pipeline, ledger, store, masking)
    if is_too_old(step, earlier.ended or 0.0):
        given = step.raw["CacheConfig"]["ExpireAfter"]
        return Explanation(False, (f"the result of {earlier.execution} is older than {given}",), earlier=earlier)
    for uri in damaged(earlier.execution, step.name, ledger, store):
        return Explanation(False, (gone_or_changed(uri, earlier.execution),), earlier=earlier)
    from drivetrain.targets.sagemaker.run.execution.cache_differences import overlooked

    warnings = (
        *overlooked(step_type(step.type).key or (), earlier.arguments, masking(arguments)),
        *changed_bytes(earlier.execution, step.name, ledger, store),
    )
    return Explanation(True, (f"all key attributes equal those of {earlier.execution}",), (), warnings, earlier)


def is_too_old(step: StepNode, ended: float) -> bool:
    """True where a result of a step is older than its cache allows."""
    limit = step.cache.expire_after_seconds
    return limit is not None and time.time() - ended > limit


def why_not_asked(step: StepNode, options: Options, scope: ExecutionScope) -> tuple[str, ...]:
    """Why a step runs for which the cache is not asked; nothing of a stub, which does not run."""
    if step.name in options.stubs:
        return ()
    if scope.fresh:
        return ("--fresh",)
    if not options.cache:
        return ("the cache is off",)
    if step.name in options.uncached:
        return (options.uncached[step.name],)
    return ("it has no cache",) if not step.cache.enabled else ("--interrupt",)


def damaged(execution: str, step: str, ledger: Ledger, store: ObjectStore) -> Iterator[str]:
    """The URIs that a step wrote whose content is gone or changed."""
    settled: list[ObjectEntry] = []
    for written in ledger.written(execution, step):
        found = _as_written(written, store.place(written.uri))
        if found is None:
            yield written.uri
        elif found.ctime_ns != written.ctime_ns:
            settled.append(replace(written, mtime_ns=found.mtime_ns, ctime_ns=found.ctime_ns))
    if settled and isinstance(ledger, LedgerWriter):
        with ledger.transaction() as db:
            ObjectEntry.enter(db, settled, execution, step)


def hold_outputs(steps: Iterable[StepRun], ledger: Ledger, store: ObjectStore) -> None:
    """Let the run see the outputs of steps whose results it has, too, below paths that are given with --data."""
    for step in steps if store.elsewhere else ():
        for written in ledger.written(step.cache_of or step.execution, step.name):
            store.hold(written.uri)


def gone_or_changed(uri: str, execution: str) -> str:
    """As it is said to people."""
    return f"{uri}, which {execution} wrote, is gone or changed"


def _missed(
    step: StepNode,
    fields: Mapping[str, Any],
    execution: str,
    pipeline: str,
    ledger: Ledger,
    store: ObjectStore,
    masking: Masking,
) -> Explanation:
    latest = ledger.earlier_success(pipeline, step.name)
    if latest is None:
        changed = ledger.rows(_CHANGED_ON_ITS_WAY, pipeline, step.name)
        why = f"{changed[0][0]} was resumed with other settings" if changed else "no earlier result"
        return Explanation(False, (why,))
    from drivetrain.targets.sagemaker.run.execution.cache_differences import (
        changed_code,
        differences,
        new_data,
        reasons,
    )

    found = differences(latest.key_fields, masking(fields))

    def ran_again(uri: str) -> str | None:
        writer_execution, writer_step = ledger.writer_of(uri)
        return writer_step if writer_execution == execution else None

    told = reasons(
        found,
        ran_again,
        lambda: changed_code(latest.key_fields, fields, store),
        lambda difference: new_data(step, fields, difference, lambda look: ledger.step(execution, look).arguments),
    ) or ("a value that is not kept, since it looks like a secret, has changed",)
    return Explanation(False, tuple(map(masking.message, told)), found)


def _as_written(written: ObjectEntry, path: Path) -> StoredObject | None:
    """A file that is as a step wrote it; None where it is gone or changed. It is read only if a time differs."""
    try:
        found = stored(path.name, written.uri, path)
        if not path.is_file() or found.bytes != written.bytes:
            return None
        times = found.mtime_ns, found.ctime_ns
        return found if times == (written.mtime_ns, written.ctime_ns) or sha256_of(path) == written.sha256 else None
    except OSError:
        return None


def changed_bytes(execution: str, step: str, ledger: Ledger, store: ObjectStore) -> tuple[str, ...]:
    """Inputs with other bytes than the step of an earlier execution read."""
    found: list[str] = []
    for name, uri, stamp, digest in ledger.inputs_read(execution, step):
        objects = store.find(uri)
        if _is_as_read(objects, stamp, digest):
            continue
        from drivetrain.targets.sagemaker.run.jobs.manifests import listed_or_none

        behind = listed_or_none(objects, store)
        if behind is None or not _is_as_read(behind, stamp, digest):
            found.append(
                f"input {name}: the bytes under {uri} have changed since {execution} read them; the cache compares "
                "only the URI"
            )
    return tuple(found)


def _is_as_read(objects: Sequence[StoredObject], stamp: str, digest: str) -> bool:
    """Only where size or time of a file differ the bytes are read."""
    return stamp_of(objects) == stamp or digest_of((item.name, sha256_of(item.path)) for item in objects) == digest
