"""The calls that write a pipeline, and those that take back what an apply wrote, when a part of it was refused.

Later changes of others are kept: the earlier content is restored only over what this apply wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drivetrain.aws.s3 import split
from drivetrain.base.errors import UserError
from drivetrain.catalog import quotas
from drivetrain.deploying.applying import Journal
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy import deployed as reading
from drivetrain.targets.sagemaker.deploy.deployed import ALL_OURS, Deployed, applied_uri
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.objects import get_text, put, put_once
from drivetrain.targets.sagemaker.deploy.ownership import Owner
from drivetrain.targets.sagemaker.deploy.planning import triggers
from drivetrain.targets.sagemaker.deploy.planning.account_resources import record_uri
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.document.difference.difference import differences

Json = dict[str, Any]
_CHANGED = "another user changed it since; their version is kept."


class Writer:
    """Writes one pipeline of an account, and the records of what apply writes."""

    def __init__(self, account: Account, name: str, root: str) -> None:
        self.account = account
        self.name = name
        self.root = root
        self.about = f"pipeline {name!r}"
        self.keep_lock: Callable[[], None] = lambda: None
        """Called before each write; it raises where the lock was lost (lock.py)."""
        self.tagged: dict[str, set[str | None]] = {}
        """Name of a tag -> the values that this writer gave it or began to, None where it took the tag away."""

    def create(self, fields: Json, tags: dict[str, str]) -> str:
        """Gives the ARN."""
        self.keep_lock()
        self._note(tags)
        said = self.account.call(
            "sagemaker", "create_pipeline", about=self.about, PipelineName=self.name, Tags=_listed(tags), **fields
        )
        return str(said["PipelineArn"])

    def update(self, fields: Json) -> Json:
        self.keep_lock()
        return self.account.call("sagemaker", "update_pipeline", about=self.about, PipelineName=self.name, **fields)

    def delete(self) -> None:
        self.keep_lock()
        self.account.call("sagemaker", "delete_pipeline", about=self.about, PipelineName=self.name)

    def tag(self, arn: str, tags: dict[str, str]) -> None:
        if tags:
            self.keep_lock()
            self._note(tags)
            about = f"tags of {self.about}"
            self.account.call("sagemaker", "add_tags", about=about, ResourceArn=arn, Tags=_listed(tags))

    def untag(self, arn: str, names: list[str]) -> None:
        if names:
            self.keep_lock()
            self._note(dict.fromkeys(names))
            about = f"tags of {self.about}"
            self.account.call("sagemaker", "delete_tags", about=about, ResourceArn=arn, TagKeys=names)

    def _note(self, tags: Mapping[str, str | None]) -> None:
        for name, value in tags.items():
            self.tagged.setdefault(name, set()).add(value)

    def keep_owner(self, owner: Owner, *, once: bool) -> None:
        """Keep the record of who deploys it; `once` leaves another one's.

        Raises:
            UserError: with `once`, another owner's record is there.
        """
        uri, content = owner.uri(self.name), owner.record.encode()
        if once:
            if put_once(self.account, uri, content, digest_of(owner.record)):
                return
            if other := owner.other_of(get_text(self.account, uri)):
                raise UserError(
                    f"{self.about} became another project's while apply was at work: it belongs to {other}. Nothing "
                    "was written."
                )
        else:
            self.keep_lock()
            put(self.account, uri, content)

    def keep_definition(self, text: str) -> str:
        """Keep the record of a definition; gives its hash."""
        sha256 = digest_of(text)
        put_once(self.account, applied_uri(self.root, self.name, sha256), text.encode(), sha256)
        return sha256

    def keep_surroundings(self, text: str) -> str:
        """Keep the record of what is beside a definition; gives its hash."""
        sha256 = digest_of(text)
        put_once(self.account, record_uri(self.root, self.name, sha256), text.encode(), sha256)
        return sha256

    def write_trigger(self, trigger: AccountTrigger, before: AccountTrigger | None) -> None:
        """Make a rule or schedule what it should be; `before` is what is there."""
        self.keep_lock()
        triggers.write(self.account, trigger, before)

    def remove_trigger(self, trigger: AccountTrigger) -> None:
        self.keep_lock()
        triggers.remove(self.account, trigger)

    def tags(self, arn: str) -> dict[str, str]:
        """The pipeline's tags as they are now."""
        return reading.read_tags(self.account, self.name, arn)

    def read(self) -> Deployed | None:
        """The pipeline as it is now, without tags and triggers."""
        return reading.read_pipeline(self.account, self.name)

    def fields(self, of: Deployed | Desired) -> Json:
        """The arguments of CreatePipeline and UpdatePipeline alike, for what is wanted and for what was there.

        A definition that is longer than a request takes is read from its record, which is kept where none is.
        """
        said: Json = {"PipelineDefinition": of.text}
        if len(of.text) > quotas.MAX_DEFINITION_CHARACTERS:
            bucket, key = split(applied_uri(self.root, self.name, self.keep_definition(of.text)))
            said = {"PipelineDefinitionS3Location": {"Bucket": bucket, "ObjectKey": key}}
        return {
            **said,
            "PipelineDisplayName": of.display_name,
            "PipelineDescription": of.description,
            "RoleArn": of.role,
            "ParallelismConfiguration": {"MaxParallelExecutionSteps": of.max_parallel},
        }


def _listed(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def state(of: Deployed) -> tuple[str, Json]:
    """The exact values that one UpdatePipeline writes."""
    return of.text, of.properties


def differs(there: Deployed, wanted: Desired) -> bool:
    """Return True if the pipeline itself, tags aside, differs from what is wanted."""
    return there.properties != wanted.properties or bool(differences(there.definition, wanted.definition))


class Rollback:
    """How each thing that one apply is about to write is taken back."""

    def __init__(self, writer: Writer, wanted: Desired, journal: Journal) -> None:
        self.writer = writer
        self.wanted = wanted
        self.theirs: Deployed | None = None
        """A pipeline that another writer saved in the moment of the write, to be put back instead of what was read."""
        self._can_undo = journal.can_undo
        self._keeps_tags = False
        """The pipeline holds what was written, or an edit of that: its tags go on saying what it is drift from."""

    def created(self) -> None:
        self._can_undo("the new pipeline", self._delete)

    def tagged(self, there: Deployed) -> None:
        self._can_undo("the tags", lambda: self._restore_tags(there))

    def updated(self, there: Deployed, announced: dict[str, str]) -> None:
        """`announced` are the tags that went before the write."""
        self._can_undo("the pipeline", lambda: self._restore(self.theirs or there, announced))

    def triggered(self, trigger: AccountTrigger, before: AccountTrigger | None, arn: str) -> None:
        self._can_undo(trigger.described, lambda: self._put_back(trigger, before, arn))

    def _delete(self) -> bool:
        """Delete what this apply made.

        Raises:
            UserError: another user has changed it since.
        """
        now = self.writer.read()
        if now is None:
            return False
        if differs(now, self.wanted) or self._tagged_by_others(now.arn, {}):
            raise UserError(_CHANGED)
        self.writer.delete()
        return True

    def _restore(self, there: Deployed, announced: dict[str, str]) -> bool:
        """Put the pipeline back.

        Raises:
            UserError: another user wrote since.
        """
        self._keeps_tags = True
        now = self.writer.read()
        if now is not None and state(now) == state(there):
            self._keeps_tags = False
            return False
        if now is None or differs(now, self.wanted) or self._tagged_by_others(there.arn, there.tags):
            raise UserError(_CHANGED)
        # First the tags: cut short after the write, the old definition must not look like an edit of the new one.
        self.writer.tag(there.arn, announced)
        self.writer.update(self.writer.fields(there))
        self._keeps_tags = False
        return True

    def _tagged_by_others(self, arn: str, before: Mapping[str, str]) -> bool:
        """Return True if a tag that says what was applied is neither as this apply wrote it nor as it was (a list may
        be late): another one is at work."""
        now, wrote = self.writer.tags(arn), self.writer.tagged
        return any(name in wrote and now.get(name) not in wrote[name] | {before.get(name)} for name in ALL_OURS)

    def _restore_tags(self, there: Deployed) -> bool:
        """Put back each tag that still has a value of this apply.

        Raises:
            UserError: another user wrote one since.
        """
        if self._keeps_tags:
            return False
        now, wrote = self.writer.tags(there.arn), dict(self.writer.tagged)
        other = {name for name in wrote if now.get(name) != there.tags.get(name)}
        ours = {name for name in other if now.get(name) in wrote[name]}
        self.writer.tag(there.arn, {name: there.tags[name] for name in sorted(ours & set(there.tags))})
        self.writer.untag(there.arn, sorted(ours - set(there.tags)))
        if left := sorted(other - ours):
            raise UserError(f"{', '.join(left)}: {_CHANGED}")
        return bool(ours)

    def _put_back(self, trigger: AccountTrigger, before: AccountTrigger | None, arn: str) -> bool:
        """Make a rule or schedule again what it was. It may have been written in part, so it is read first.

        Raises:
            UserError: another user wrote it since.
        """
        account = self.writer.account
        now = {each.key: each for each in triggers.read_triggers(account, self.wanted.name, arn)}
        there = now.get(trigger.key)
        if there == before:
            return False
        was_removed = trigger == before
        if (there is None and not was_removed) or (there is not None and not there.is_between(before, trigger)):
            raise UserError(_CHANGED)
        if before is not None:
            self.writer.write_trigger(before, there)
        elif there is not None:
            self.writer.remove_trigger(there)
        return True
