"""The calls that write a pipeline, with the arguments that are said each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drivetrain.aws.s3 import split
from drivetrain.catalog import quotas
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy import deployed as reading
from drivetrain.targets.sagemaker.deploy.deployed import Deployed, applied_uri
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.objects import put, put_once
from drivetrain.targets.sagemaker.deploy.ownership import Owner
from drivetrain.targets.sagemaker.deploy.planning import triggers
from drivetrain.targets.sagemaker.deploy.planning.account_resources import record_uri
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.document.difference.difference import differences

Json = dict[str, Any]


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
        """Keep the record of who deploys it; `once` leaves another one's."""
        uri, content = owner.uri(self.name), owner.record.encode()
        if once:
            put_once(self.account, uri, content, digest_of(owner.record))
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
