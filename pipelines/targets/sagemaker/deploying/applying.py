"""Make the account what a plan says.

The order of writes lets a crash happen anywhere; applying again ends in the same state:

    1. the record of the definition, under its hash     nothing refers to it yet
    2. code and data, under their hashes                 nothing refers to them yet
    3. tag `drivetrain:applying` = the hash              so that step 4 is known as ours if nothing after it happens
    4. the pipeline (a new one with its tags at once)    UpdatePipeline is one write: old or new, never between
    5. tags: `drivetrain:applied` = the hash, the user's; then `applying` goes
    6. rules and schedules, after what they start
    7. all is read again and compared

An error (not a crash) in 4 to 6 takes back what was written of them. The service has no If-Match: the pipeline is read
once more just before step 4, and where a version of somebody else came in between all the same, it is put back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from drivetrain.pipelines.definition.difference import differences
from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.spec import quotas
from drivetrain.pipelines.targets.sagemaker.deploying import deployed as reading
from drivetrain.pipelines.targets.sagemaker.deploying import triggers as writing
from drivetrain.pipelines.targets.sagemaker.deploying.account import Account
from drivetrain.pipelines.targets.sagemaker.deploying.deployed import APPLIED, APPLYING, Deployed, applied_uri
from drivetrain.pipelines.targets.sagemaker.deploying.desired import Desired
from drivetrain.pipelines.targets.sagemaker.deploying.executions import versions
from drivetrain.pipelines.targets.sagemaker.deploying.objects import missing, put_once, size_of, split
from drivetrain.pipelines.targets.sagemaker.deploying.planning import Plan
from drivetrain.pipelines.targets.sagemaker.deploying.refusals import ServiceError
from drivetrain.pipelines.targets.sagemaker.deploying.triggers import Trigger
from drivetrain.pipelines.targets.sagemaker.deploying.wire import digest_of

Tell = Callable[[str], None]


@dataclass
class Applied:
    """What apply did. `version` is the pipeline's new version where one was made and the service says its number."""

    arn: str
    version: int | None = None
    uploaded: tuple[str, ...] = ()
    done: list[str] = field(default_factory=list[str])


class HalfDoneError(UserError):
    """Apply failed on the way; the message says what was taken back and what was not."""


def apply(account: Account, wanted: Desired, plan: Plan, *, tell: Tell = lambda line: None) -> Applied:
    """Write what differs.

    Args:
        wanted: what the code says now; it must be what the plan was made of.
        tell: gets a line for each thing that was done.

    Raises:
        UserError: the plan is stale, or would undo edits of others (before anything is written).
        HalfDoneError: AWS refused something on the way.
    """
    there = reading.read(account, wanted.name)
    check(account, wanted, plan, there)
    if plan.is_empty:
        assert there is not None
        return Applied(there.arn)
    return _Applying(account, wanted, there, tell).run()


def check(account: Account, wanted: Desired, plan: Plan, there: Deployed | None) -> None:
    """Refuse a plan that is not of this code, this account or this state, or that would undo edits of others.

    Raises:
        UserError: naming what is different.
    """
    again = f"Make a new plan: drivetrain plan {(plan.origin or {}).get('target') or wanted.name}"
    if (plan.pipeline, plan.region, plan.account) != (wanted.name, account.region, account.number):
        raise UserError(
            f"The plan is for pipeline {plan.pipeline!r} in account {plan.account}, {plan.region}; this is "
            f"{wanted.name!r} in {account.number}, {account.region}."
        )
    if plan.code != wanted.fingerprint:
        raise UserError(f"The plan is stale: the code or its settings are not those it was made of. {again}")
    if plan.state != reading.fingerprint(there):
        raise UserError(f"The plan is stale: pipeline {wanted.name!r} was changed since it was made. {again}")
    if (refusal := plan.refusal()) is not None:
        raise UserError(refusal)


class _Applying:
    """One apply. `undo` takes back what was written, the latest first; each says whether there was anything to do."""

    def __init__(self, account: Account, wanted: Desired, there: Deployed | None, tell: Tell) -> None:
        self.account = account
        self.wanted = wanted
        self.there = there
        self.tell = tell
        self.about = f"pipeline {wanted.name!r}"
        self.undo: list[tuple[str, Callable[[], bool]]] = []
        self.theirs: Deployed | None = None
        """What somebody else saved in the moment of the write, to be put back instead of what was read."""
        self.keeps_tags = False
        """The pipeline holds what was written, or an edit of that: its tags go on saying what it is drift from."""
        self.result = Applied("")

    def run(self) -> Applied:
        self.keep_record()
        self.upload()
        try:
            if self.there is None:
                self.create()
            else:
                self.update(self.there)
            self.write_triggers(() if self.there is None else self.there.triggers)
        except (Exception, KeyboardInterrupt) as error:
            self.take_back(error)
        self.read_again()
        return self.result

    def keep_record(self) -> None:
        """Step 1. It comes before the uploads, so that destroying another pipeline does not take them for unused."""
        wanted = self.wanted
        uri = applied_uri(wanted.root, wanted.name, wanted.sha256)
        put_once(self.account, uri, wanted.text.encode(), wanted.sha256)

    def upload(self) -> None:
        """Step 2."""
        uploaded: list[str] = []
        for asset in missing(self.account, self.wanted.assets):
            if put_once(self.account, asset.uri, asset.content, asset.sha256):
                uploaded.append(asset.uri)
                self.done(f"uploaded {asset.uri} ({size_of(asset):,} bytes)")
        self.result.uploaded = tuple(uploaded)

    def create(self) -> None:
        """Steps 3 to 5 in one call."""
        tags = {**self.wanted.tags, APPLIED: self.wanted.sha256}
        try:
            made = self.account.call(
                "sagemaker",
                "create_pipeline",
                about=self.about,
                PipelineName=self.wanted.name,
                Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
                **self.fields(),
            )
        except BaseException as error:
            # Where no answer came the service may have done it; where it refused, what is there is another's.
            if not (isinstance(error, ServiceError) and error.code):
                self.undo.append(("the new pipeline", self.delete))
            raise
        self.result.arn = str(made["PipelineArn"])
        self.wanted = self.wanted.at(self.result.arn)
        self.undo.append(("the new pipeline", self.delete))
        self.done(f"created {self.about}")

    def delete(self) -> bool:
        """Delete what this apply made, but nothing that somebody has changed since.

        Raises:
            UserError: somebody has.
        """
        now = reading.read_pipeline(self.account, self.wanted.name)
        if now is None:
            return False
        if self.differs(now):
            raise UserError("somebody else changed it since; it is left as they have it.")
        self.account.call("sagemaker", "delete_pipeline", about=self.about, PipelineName=self.wanted.name)
        return True

    def update(self, there: Deployed) -> None:
        """Steps 3 to 5, as far as something differs."""
        self.result.arn = there.arn
        wanted = self.wanted
        if self.differs(there):
            self.undo.append(("the tags", lambda: self.restore_tags(there)))
            self.tag(there.arn, {**self.held(there), APPLYING: wanted.sha256})
            before = self.latest_version()
            self.check_unchanged(there)
            # Before the call: it may fail on the way back, when the service has done it.
            self.undo.append(("the pipeline", lambda: self.restore(self.theirs or there)))
            said = self.write(self.fields())
            self.result.version = said.get("PipelineVersionId")
            self.check_next(there, before)
            self.done(f"updated {self.about}")
        tags = {**wanted.tags, APPLIED: wanted.sha256}
        if any(there.tags.get(key) != value for key, value in tags.items()):
            if not self.undo:
                self.undo.append(("the tags", lambda: self.restore_tags(there)))
            self.tag(there.arn, {key: value for key, value in tags.items() if there.tags.get(key) != value})
        if self.differs(there) or APPLYING in there.tags:
            self.untag(there.arn, [APPLYING])

    def held(self, there: Deployed) -> dict[str, str]:
        """The tag of what the pipeline holds of ours, or was edited from.

        After a crash that is perhaps what `applying` says, which is about to say something else.
        """
        if APPLYING not in there.tags:
            return {APPLIED: there.tags[APPLIED]} if APPLIED in there.tags else {}
        digest = reading.base_digest(self.account, there, self.wanted.root)
        return {} if digest is None else {APPLIED: digest}

    def latest_version(self) -> int | None:
        return next((number for number, _, _ in versions(self.account, self.wanted.name)), None)

    def check_unchanged(self, there: Deployed) -> None:
        """Just before writing: uploads take minutes, and somebody may have saved an edit meanwhile.

        Raises:
            UserError: somebody has.
        """
        now = reading.read_pipeline(self.account, self.wanted.name)
        if now is None or (now.text, *_properties(now)) != (there.text, *_properties(there)):
            raise UserError(
                f"{self.about} was changed while apply was at work; the change is left as it is. "
                f"See it: drivetrain plan {self.wanted.name}"
            )

    def check_next(self, there: Deployed, before: int | None) -> None:
        """Whether the version that was written follows the one that was read.

        Raises:
            UserError: somebody's version lies between them; `theirs` is then what is to be put back.
        """
        ours = self.result.version
        if before is None or ours is None or ours <= before + 1:
            return
        between = [number for number, _, _ in versions(self.account, self.wanted.name) if before < number < ours]
        if not between:
            return
        saved = reading.read_pipeline(self.account, self.wanted.name, max(between))
        if saved is not None:
            self.theirs = replace(there, text=saved.text)
        raise UserError(
            f"{self.about}: somebody saved version {max(between)} while apply wrote version {ours}. "
            f"See what they changed: drivetrain plan {self.wanted.name}"
        )

    def differs(self, there: Deployed) -> bool:
        """Whether the pipeline itself, tags aside, is not what is wanted."""
        return _properties(there) != _properties(self.wanted) or bool(
            differences(there.definition, self.wanted.definition)
        )

    def fields(self) -> dict[str, Any]:
        """The arguments of CreatePipeline and UpdatePipeline alike."""
        wanted = self.wanted
        return {
            **self.definition(wanted.text, wanted.sha256),
            "PipelineDisplayName": wanted.display_name,
            "PipelineDescription": wanted.description,
            "RoleArn": wanted.role,
            "ParallelismConfiguration": {"MaxParallelExecutionSteps": wanted.max_parallel},
        }

    def fields_of(self, there: Deployed) -> dict[str, Any]:
        """As they were."""
        return {
            **self.definition(there.text, kept if (kept := digest_of(there.text)) in there.tags.values() else None),
            "PipelineDisplayName": there.display_name,
            "PipelineDescription": there.description,
            "RoleArn": there.role,
            "ParallelismConfiguration": {"MaxParallelExecutionSteps": there.max_parallel},
        }

    def definition(self, text: str, sha256: str | None) -> dict[str, Any]:
        """A definition that is longer than a request takes is read from where its record lies."""
        if len(text) <= quotas.MAX_DEFINITION_CHARACTERS or sha256 is None:
            return {"PipelineDefinition": text}
        bucket, key = split(applied_uri(self.wanted.root, self.wanted.name, sha256))
        return {"PipelineDefinitionS3Location": {"Bucket": bucket, "ObjectKey": key}}

    def restore(self, there: Deployed) -> bool:
        """Put the pipeline back, but only over what this apply wrote.

        Raises:
            UserError: somebody else wrote since.
        """
        now = reading.read_pipeline(self.account, self.wanted.name)
        if now is not None and (now.text, *_properties(now)) == (there.text, *_properties(there)):
            return False
        self.keeps_tags = True
        if now is None or self.differs(now):
            raise UserError("somebody else changed it since; it is left as they have it.")
        # First the tag: cut short after the write, the old definition must not look like an edit of the new one.
        self.tag(there.arn, {**self.held(there), APPLYING: self.wanted.sha256})
        self.write(self.fields_of(there))
        self.keeps_tags = False
        return True

    def write(self, fields: dict[str, Any]) -> dict[str, Any]:
        return self.account.call(
            "sagemaker", "update_pipeline", about=self.about, PipelineName=self.wanted.name, **fields
        )

    def tag(self, arn: str, tags: dict[str, str]) -> None:
        said = [{"Key": key, "Value": value} for key, value in tags.items()]
        self.account.call("sagemaker", "add_tags", about=f"tags of {self.about}", ResourceArn=arn, Tags=said)

    def untag(self, arn: str, names: list[str]) -> None:
        if names:
            self.account.call("sagemaker", "delete_tags", about=f"tags of {self.about}", ResourceArn=arn, TagKeys=names)

    def restore_tags(self, there: Deployed) -> bool:
        if self.keeps_tags:
            return False
        written = {APPLYING, APPLIED, *self.wanted.tags}
        if before := {name: there.tags[name] for name in sorted(written & set(there.tags))}:
            self.tag(there.arn, before)
        self.untag(there.arn, sorted(written - set(there.tags)))
        return True

    def write_triggers(self, there: tuple[Trigger, ...]) -> None:
        """Step 6."""
        old = {trigger.key: trigger for trigger in there}
        for trigger in self.wanted.triggers:
            before = old.pop(trigger.key, None)
            if before == trigger:
                continue
            self.undo.append((trigger.described, self.put_back(trigger, before)))
            writing.write(self.account, trigger, before)
            self.done(f"{'created' if before is None else 'updated'} {trigger.described}")
        for gone in old.values():
            self.undo.append((gone.described, self.put_back(gone, gone)))
            writing.remove(self.account, gone)
            self.done(f"deleted {gone.described}")

    def put_back(self, trigger: Trigger, before: Trigger | None) -> Callable[[], bool]:
        """What makes a rule or schedule again what it was. It may have been written in part, so it is read first."""

        def back() -> bool:
            now = {each.key: each for each in writing.read_triggers(self.account, self.wanted.name, self.result.arn)}
            there = now.get(trigger.key)
            if there == before:
                return False
            if before is not None:
                writing.write(self.account, before, there)
            elif there is not None:
                writing.remove(self.account, there)
            return True

        return back

    def take_back(self, error: BaseException) -> None:
        """Undo what was written, and say how far that went.

        Raises:
            HalfDoneError: always, unless the user interrupted.
        """
        undone: list[str] = []
        left: list[str] = []
        for what, back in reversed(self.undo):
            try:
                if back():
                    undone.append(what)
            except UserError as trouble:
                left.append(f"{what} ({trouble})")
        said = [f"Taken back: {', '.join(undone)}."] if undone else []
        if left:
            said.append(f"NOT taken back: {', '.join(left)} Apply again when this is mended.")
        if not isinstance(error, UserError):
            for line in said:
                self.tell(line)
            raise error
        raise HalfDoneError("\n".join([f"Applying failed: {error}", *said])) from error

    def read_again(self) -> None:
        """Step 7.

        Raises:
            UserError: it is not what was written.
        """
        now = reading.read(self.account, self.wanted.name)
        wrong: list[str] = []
        if now is None:
            wrong.append("it is gone")
        else:
            if self.differs(now):
                wrong.append("the pipeline is another")
            if now.tags.get(APPLIED) != self.wanted.sha256:
                wrong.append(f"the tag {APPLIED} is another")
            if now.triggers != tuple(sorted(self.wanted.triggers, key=lambda trigger: trigger.key)):
                wrong.append("its rules or schedules are others")
        lost = missing(self.account, self.wanted.assets)
        if lost:
            wrong.append(f"{lost[0].uri} is not there, or not as it was written")
        if wrong:
            raise UserError(
                f"{self.about} was written, but read again it is not what was written ({', '.join(wrong)}): somebody "
                f"else changes it at the same time. See what differs: drivetrain plan {self.wanted.name}"
            )

    def done(self, line: str) -> None:
        self.result.done.append(line)
        self.tell(line)


def _properties(of: Deployed | Desired) -> tuple[str, str, str, int]:
    """What the pipeline has beside its definition and its tags."""
    return of.role, of.display_name, of.description, of.max_parallel
