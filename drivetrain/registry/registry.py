"""Registries of models. One file a kind: backends/local.py opens `local:.drivetrain/ledger.db`.

    registry = open_registry("local:.drivetrain/ledger.db")
    version, created = registry.register("digits", content_hash(model), record, approval="PendingManualApproval")

A group holds the versions 1, 2, 3, ... of one model, and a content once: registering the same files again, after a
crash or by a repeated step, gives the version that is there. The local registry keeps every change of a version as an
event, so that pipelines can start on an approval; the others have their own places for that (`keeps_history`).

A new kind is a file in backends/ with a function `connect(location) -> Registry`; the contract tests find it. Files
whose names begin with `_` are shared by several kinds.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

from drivetrain.base.bounds import is_number
from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.base.errors import shown as brief
from drivetrain.registry.record import ModelRecord

Approval = Literal["PendingManualApproval", "Approved", "Rejected"]
APPROVALS: tuple[Approval, ...] = get_args(Approval)

_GROUP = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_HASH = re.compile(r"[0-9a-f]{64}")
_TAG_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}")
_TAG_TEXT = re.compile(r"[a-zA-Z0-9 _.:/=+@-]{0,256}")

COMPARISONS = "drivetrain.comparisons"
"""The tag of a group that comparisons.py keeps: `@TESTS SET=NUMBER ...`."""
BEST_APPROVED = "drivetrain.best_approved"
"""The tag of a group that drivetrain/decision/anchor.py keeps: `METRIC=VERSION.VERSION ...`."""
KEPT_TAGS = (COMPARISONS, BEST_APPROVED)
"""Tags of a group that `compare` writes; its role may write no others."""

# What `open_registry("auto")` opens; the local runner and compiled definitions set it for every job.
REGISTRY_VARIABLE = "DRIVETRAIN_REGISTRY"


class RegistryError(InputError):
    """A registry cannot be reached, or refuses: the message says which, what it answered and what to do.

    After a `register` that raised it, the version is there whole or not at all; registering again is always right.
    """


class AbsentError(InputError):
    """There is no such group or version. `there` has the groups of the registry, where it has no such group."""

    there: tuple[str, ...] = ()


class NotAllowedError(RegistryError):
    """A registry refuses one request for want of a permission."""


@dataclass(frozen=True, kw_only=True)
class ModelVersion:
    """One version of a group. Times are seconds since 1970 (UTC); `reason` is that of the last decision.

    `record` is what its maker said of it (a registry may have added what it keeps there itself: the content's hash, a
    card with the metrics); `execution` the run that made it (an id or ARN); `repeated_by` the runs that registered the
    same content later (told by `version` and `versions` of the local registry; empty in others).
    """

    group: str
    version: int
    arn: str
    content_hash: str
    status: Approval
    reason: str | None
    record: ModelRecord = field(repr=False)
    metrics: Mapping[str, float]
    execution: str | None
    created_at: float
    modified_at: float
    repeated_by: tuple[str, ...] = field(default=(), compare=False)

    @property
    def artifact(self) -> str:
        """The URI of the model's folder or archive: file://, s3://; "" where it is not known."""
        return self.record.artifact

    @property
    def lineage(self) -> dict[str, str]:
        """The origin of the model: data, code, config (hashes), execution, ..."""
        execution = self.record.made_by or self.execution
        return {**({"execution": execution} if execution else {}), **self.record.lineage}

    @property
    def decision(self) -> dict[str, Any] | None:
        """The record of the decision to register it, or the part of it that the registry keeps; None without one."""
        return self.record.whole_decision

    @property
    def card(self) -> dict[str, Any] | None:
        """The model card, in SageMaker's model card schema; None without one."""
        return None if self.record.card is None else dict(self.record.card)


@dataclass(frozen=True, kw_only=True)
class ModelGroup:
    """A group: how many versions it has, the newest of them, and the newest approved one."""

    name: str
    num_versions: int
    latest: ModelVersion
    approved: int | None
    created_at: float


@dataclass(frozen=True, kw_only=True)
class ModelEvent:
    """A change of a version, in the order of `id`. The first has no previous status and no updated fields.

    `updated_fields` is what EventBridge calls UpdatedModelPackageFields; `by` says who decided, where that is known.
    """

    id: int
    group: str
    version: int
    at: float
    status: Approval
    previous_status: Approval | None
    updated_fields: tuple[str, ...]
    reason: str | None
    by: str | None


class Registry(Protocol):
    """The methods of every registry. All raise InputError for what the user can mend (names, statuses), and its
    RegistryError when the registry cannot be reached or refuses."""

    @property
    def keeps_history(self) -> bool:
        """True if `events` can be asked."""
        ...

    @property
    def objects(self) -> Path | None:
        """The folder that stands for S3 where its versions' files lie on this machine; None where they do not."""
        ...

    @property
    def caller(self) -> str | None:
        """The caller, as the backend knows it; None if it knows nobody."""
        ...

    def register(
        self,
        group: str,
        content_hash: str,
        record: ModelRecord,
        *,
        metrics: Mapping[str, float] | None = None,
        execution: str | None = None,
        approval: str = "PendingManualApproval",
    ) -> tuple[int, bool]:
        """The version of this content in the group, and whether this call made it.

        Registering the same content again changes nothing; but if a version's files in the local registry are damaged
        or gone, it points to the new files from then on. Concurrent calls get the same version; more than one may
        report that it made it."""
        ...

    def groups(self) -> list[ModelGroup]:
        """Every group, by name."""
        ...

    def versions(self, group: str) -> list[ModelVersion]:
        """Every version of a group, the newest first."""
        ...

    def version(self, group: str, which: int | str = "latest") -> ModelVersion:
        """One version: a number, `latest`, or `approved` (the newest approved one)."""
        ...

    def champion(self, group: str) -> ModelVersion | None:
        """The newest approved version; None where there is no such group, or none of its versions is approved.

        A registry that cannot be asked is an error, never None.
        """
        ...

    def approved(self, group: str) -> list[ModelVersion]:
        """Every approved version, the newest first; the first is the champion."""
        ...

    def find(self, group: str, content_hash: str) -> ModelVersion | None:
        """The version of a content; None where there is no such group, or the content is not in it."""
        ...

    def set_status(
        self, group: str, version: int, status: str, *, reason: str | None = None, by: str | None = None
    ) -> ModelVersion:
        """Approve, reject or put back a version. Repeating a decision with its reason changes nothing."""
        ...

    def tags(self, group: str) -> dict[str, str]:
        """The tags of a group, name -> text: those that `change_tag` has set, and those of others. Empty if there
        is no such group."""
        ...

    def change_tag(self, group: str, name: str, change: Callable[[str], str]) -> None:
        """Keep a text with a group: the result of `change` for the present text, which is empty at first. Of concurrent
        changes SageMaker and MLflow may lose some; Kubeflow calls `change` again.

        Raises:
            InputError: there is no such group; a name or text that SageMaker would not take.
        """
        ...

    def events(self, group: str | None = None, *, after: int = 0) -> list[ModelEvent]:
        """The events of one group or all, oldest first, since the event with id `after`.

        Raises:
            InputError: of a registry that keeps no history, with the place where changes are told.
        """
        ...


def open_registry(url: str) -> Registry:
    """The registry at `KIND:LOCATION`, such as `local:PATH`; `local` alone is the one of this folder's runs, and `auto`
    what $DRIVETRAIN_REGISTRY names, else `local`.

    Nothing is read or created yet.

    Raises:
        InputError: no such kind, with the closest match.
    """
    url = named(url)
    kind = checked_kind(url)
    location = url.partition(":")[2]
    return cast("Registry", importlib.import_module(f"{__package__}.backends.{kind}").connect(location))


def checked_kind(url: str) -> str:
    """The kind of registry that a URL names.

    Raises:
        InputError: no such kind, with the closest match.
    """
    kind, colon, _ = url.partition(":")
    available = kinds()
    if kind not in available:
        if not colon and ("/" in url or "." in url):
            raise InputError(f"registry {shown(url)!r} names no kind. Write it as local:{shown(url)}.")
        raise InputError(
            f"registry {shown(url)!r}: unknown kind {shown(kind)!r}. {did_you_mean(kind, [*available, 'auto'])}"
        )
    return kind


def named(url: str) -> str:
    """The URL that `auto` stands for here; any other URL as it is."""
    return os.environ.get(REGISTRY_VARIABLE) or "local" if url == "auto" else url


def kind_of(url: str) -> str:
    """The kind of the registry that `open_registry` opens."""
    return named(url).partition(":")[0]


def kinds() -> list[str]:
    """The kinds of registry, by file name, sorted."""
    return sorted(path.stem for path in Path(__file__).parent.glob("backends/*.py") if path.stem[0] != "_")


def shown(url: str) -> str:
    """A registry's URL as records and messages may hold it: without what can be a password, in the authority or the
    query. A password may hold characters that a URL does not allow there, so rather too much is left out."""
    scheme, slashes, rest = url.partition("//")
    place, *more = re.split(r"[?#]", rest if slashes else url, maxsplit=1)
    if more and "@" in more[0]:  # the query's, or the password's
        place = "..."
    return f"{scheme}//{place.rpartition('@')[2]}" if slashes else place


def checked_group(group: str) -> str:
    """A group's name.

    Raises:
        InputError: when SageMaker would not take it.
    """
    if not _GROUP.fullmatch(group):
        raise InputError(
            f"group {group[:80]!r} is not a legal name. Use up to 63 letters, digits and hyphens, beginning and ending "
            "with a letter or digit."
        )
    return group


def checked_hash(content_hash: str) -> str:
    """A content's hash.

    Raises:
        InputError: when it is no SHA-256 in hex.
    """
    if not _HASH.fullmatch(content_hash):
        raise InputError(f"content hash {content_hash[:80]!r} is not a SHA-256 of 64 lower-case hex digits.")
    return content_hash


def checked_approval(status: str) -> Approval:
    """An approval status.

    Raises:
        InputError: when there is no such status.
    """
    if status not in APPROVALS:
        raise InputError(f"unknown approval status {status!r}. {did_you_mean(status, APPROVALS)}")
    return status


def checked_tag(name: str, text: str) -> None:
    """A group's tag.

    Raises:
        InputError: when SageMaker would not take it.
    """
    if not (_TAG_NAME.fullmatch(name) and _TAG_TEXT.fullmatch(text)):
        raise InputError(
            f"tag {name[:80]!r} = {text[:80]!r} cannot be kept. Use up to 128 letters, digits and ._- for the name, "
            "and up to 256 letters, digits, spaces and _.:/=+-@ for the text."
        )


def checked_metrics(metrics: Mapping[str, Any] | None) -> dict[str, float]:
    """Named numbers.

    Raises:
        InputError: for a value that is no finite number; a decision cannot be taken on NaN.
    """
    for name, value in (metrics or {}).items():
        if not is_number(value):
            raise InputError(f"metric {name!r} is {brief(value, 60)}. Allowed: a finite number.")
    return dict(metrics or {})


def checked_request(group: str, record: ModelRecord) -> dict[str, Any]:
    """A record as CreateModelPackage's request, in which registries keep it whole.

    Raises:
        InputError: it cannot be written as JSON, or its card is too long.
    """
    import json

    from drivetrain.registry.package_mapping import request_of

    try:
        request = request_of(record)
        json.dumps(request, allow_nan=False)
    except InputError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the record of a model in group {group!r} cannot be written as JSON: {error}.") from None
    return request
