"""Make the account what a plan says.

The order of writes lets a crash happen anywhere; applying again ends in the same state:

    1. the records of the definition and of what is      nothing refers to them yet
       beside it, under their hashes
    2. code and data, under their hashes                 nothing refers to them yet
       the lock (lock.py): others wait from here to 7    all is read again; it must be what the plan was made of
    3. tags `drivetrain:applying...` = those hashes      what is written from here on is known as ours
    4. the pipeline (a new one with its tags at once)    UpdatePipeline is one write: old or new, never between
    5. the user's tags; rules and schedules
    6. tags `drivetrain:applied...` = the hashes; then `applying...` go
    7. all is read again and compared

An error (not a crash) in 3 to 6 takes back what was written of them (rollback.py). The service has no If-Match, and
Studio knows no lock: the pipeline is read once more just before step 4, and where a version of somebody else came in
between all the same, it is put back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy import deployed as reading
from drivetrain.targets.sagemaker.deploy.applying.rollback import HalfDoneError, Rollback, Tell
from drivetrain.targets.sagemaker.deploy.applying.writing import Writer, differs, state
from drivetrain.targets.sagemaker.deploy.deployed import APPLIED, APPLYING, OWNER, Deployed
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.executions.executions import versions
from drivetrain.targets.sagemaker.deploy.lock import Lock, alone, last_written
from drivetrain.targets.sagemaker.deploy.objects import missing, put_once, size_of
from drivetrain.targets.sagemaker.deploy.planning import account_resources
from drivetrain.targets.sagemaker.deploy.planning import triggers as writing
from drivetrain.targets.sagemaker.deploy.planning.account_resources import APPLIED_AROUND, APPLYING_AROUND
from drivetrain.targets.sagemaker.deploy.planning.plan import DeploymentPlan
from drivetrain.targets.sagemaker.deploy.planning.planning import make_plan
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.refusals import ServiceError

__all__ = ["Applied", "HalfDoneError", "apply"]

LOOKS_AGAIN = (1.0, 2.0, 4.0)
"""Seconds before looking again whether tags, rules and schedules are what was written: of their lists nothing promises
that they are up to date at once."""


@dataclass
class Applied:
    """What apply did. `version` is the pipeline's new version where one was made and the service says its number."""

    arn: str
    version: int | None = None
    uploaded: tuple[str, ...] = ()
    done: list[str] = field(default_factory=list[str])
    is_empty: bool = False
    """Whether there was nothing to do."""


def apply(
    account: Account,
    wanted: Desired,
    plan: DeploymentPlan,
    *,
    tell: Tell = lambda line: None,
    pause: Callable[[float], None] = time.sleep,
) -> Applied:
    """Write what differs.

    Args:
        wanted: what the code says now; it must be what the plan was made of.
        tell: gets a line for each thing that was done.
        pause: waits for so many seconds.

    Raises:
        UserError: the plan is stale, or would undo edits of others (before anything is written).
        HalfDoneError: AWS refused something on the way.
    """
    alone_here = partial(
        alone,
        account,
        wanted.root,
        wanted.name,
        doing=f"applying definition {wanted.sha256[:12]}",
        definition=wanted.sha256,
        tell=tell,
        pause=pause,
    )
    try:
        there, fresh = _checked(account, wanted, plan)
    except StaleError:
        # What another one was writing at this moment may be taken back.
        with alone_here():
            there, fresh = _checked(account, wanted, plan)
    if fresh.is_empty and there is not None:
        return Applied(there.arn, is_empty=True)
    one = _Applying(account, wanted, tell, pause, again=f"drivetrain plan {plan.as_given}")
    one.keep_records()
    one.upload()
    with alone_here() as lock:
        there, fresh = _checked(account, wanted, plan)
        one.is_taken_over = fresh.owner is not None
        if there is None:
            # Somebody may have destroyed a pipeline of this folder meanwhile, and these with it.
            one.keep_records()
            one.upload()
        return one.run(there, lock)


def _checked(account: Account, wanted: Desired, plan: DeploymentPlan) -> tuple[Deployed | None, DeploymentPlan]:
    """What is there, and the plan for it.

    Raises:
        UserError: the plan is stale, or would undo edits of others.
    """
    there = reading.read(account, wanted.name)
    check(account, wanted, plan, there)
    # Of the plan, which is perhaps a file that somebody has edited, nothing is believed but what it lets be given up.
    fresh = make_plan(account, wanted, there, discarded=plan.discarded, adopted=plan.adopted, origin=plan.origin)
    if (refusal := fresh.refusal) is not None:
        raise UserError(refusal)
    return there, fresh


class StaleError(UserError):
    """The account is no longer as it was when the plan was made."""


def check(account: Account, wanted: Desired, plan: DeploymentPlan, there: Deployed | None) -> None:
    """Refuse a plan that is not of this code, this account or this state.

    Raises:
        UserError: naming what is different.
    """
    again = f"Make a new plan: drivetrain plan {plan.as_given}"
    if (plan.pipeline, plan.region, plan.account) != (wanted.name, account.region, account.number):
        raise UserError(
            f"The plan is for pipeline {plan.pipeline!r} in account {plan.account}, {plan.region}; this is "
            f"{wanted.name!r} in {account.number}, {account.region}."
        )
    if plan.code != wanted.fingerprint:
        raise UserError(f"The plan is stale: the code or its settings are not those it was made of. {again}")
    if plan.state != reading.fingerprint(there):
        digest = None if there is None else there.tags.get(APPLIED)
        who = last_written(account, wanted.root, wanted.name, digest)
        if who and digest == wanted.sha256:
            who += " It is the one of this plan."
        raise StaleError(f"The plan is stale: pipeline {wanted.name!r} was changed since it was made.{who} {again}")


class _Applying:
    """One apply."""

    def __init__(
        self,
        account: Account,
        wanted: Desired,
        tell: Tell,
        pause: Callable[[float], None],
        *,
        again: str,
    ) -> None:
        self.account = account
        self.wanted = wanted
        self.tell = tell
        self.pause = pause
        self.again = again
        """The command that plans it once more."""
        self.writer = Writer(account, wanted.name, wanted.root)
        self.about = self.writer.about
        self.rollback = Rollback(self.writer, wanted)
        self.is_taken_over = False
        """From another owner."""
        self.around = ""
        """Hash of the record of what is beside the definition."""
        self.result = Applied("")

    def run(self, there: Deployed | None, lock: Lock) -> Applied:
        """Steps 3 to 7."""
        self.writer.keep_lock = lock.keep
        try:
            if there is None:
                self.create()
            else:
                self.update(there)
        except (Exception, KeyboardInterrupt) as error:
            self.rollback.run(error, self.tell)
        lock.ends = "applied"
        try:
            if self.is_taken_over:
                # Cut short before it, the one who takes over is asked again.
                self.writer.keep_owner(self.wanted.owner, once=False)
            self.read_again()
        except ServiceError as error:
            self.done(f"Applied, but could not be checked: {error}")
        return self.result

    def keep_records(self) -> None:
        """Step 1. It comes before the uploads, so that destroying another pipeline does not take them for unused."""
        self.writer.keep_owner(self.wanted.owner, once=True)
        self.writer.keep_definition(self.wanted.text)
        self.around = self.writer.keep_surroundings(self.wanted.surroundings)

    def upload(self) -> None:
        """Step 2."""
        uploaded: list[str] = []
        for asset in missing(self.account, self.wanted.assets):
            if put_once(self.account, asset.uri, asset.content, asset.sha256):
                uploaded.append(asset.uri)
                self.done(f"uploaded {asset.uri} ({size_of(asset):,} bytes)")
        self.result.uploaded = tuple(uploaded)

    def create(self) -> None:
        """Steps 3 and 4 in one call, then the others."""
        wanted = self.wanted
        before = writing.stray_triggers(self.account, wanted.name, wanted.triggers)
        tags = {**wanted.tags, APPLIED: wanted.sha256, APPLIED_AROUND: self.around, OWNER: wanted.owner.tag}
        if has_more := bool(before or wanted.triggers):
            without = account_resources.record_of(
                account_resources.fields(replace(wanted, triggers=before), wanted.tags)
            )
            kept = self.writer.keep_surroundings(without)
            tags = {**tags, APPLIED_AROUND: kept, APPLYING_AROUND: self.around}
        try:
            self.result.arn = self.writer.create(self.writer.fields(wanted), tags)
        except BaseException as error:
            # Where it refused, what is there is another's.
            if not isinstance(error, ServiceError) or error.may_be_done:
                self.rollback.created()
            raise
        self.wanted = self.rollback.wanted = wanted.at(self.result.arn)
        self.rollback.created()
        self.done(f"created {self.about}")
        self.write_triggers(before)
        if has_more:
            self.writer.tag(self.result.arn, {APPLIED_AROUND: self.around})
            self.writer.untag(self.result.arn, [APPLYING_AROUND])

    def update(self, there: Deployed) -> None:
        """Steps 3 to 6, as far as something differs."""
        self.result.arn = there.arn
        wanted = self.wanted
        new = {key: value for key, value in wanted.tags.items() if there.tags.get(key) != value}
        self.rollback.tagged(there)
        if differs(there, wanted) or new or self.has_other_triggers(there):
            announced = {
                **self.held(there),
                APPLYING: wanted.sha256,
                APPLYING_AROUND: self.around,
                OWNER: wanted.owner.tag,
            }
            self.writer.tag(there.arn, announced)
            if differs(there, wanted):
                self.write_pipeline(there, announced)
            self.writer.tag(there.arn, new)
            self.write_triggers(there.triggers)
        else:
            announced = {}
        after = {APPLIED: wanted.sha256, APPLIED_AROUND: self.around, OWNER: wanted.owner.tag}
        held = {**there.tags, **announced}
        if any(held.get(key) != value for key, value in after.items()):
            self.writer.tag(there.arn, after)
        self.writer.untag(there.arn, [tag for tag in (APPLYING, APPLYING_AROUND) if tag in held])

    def write_pipeline(self, there: Deployed, announced: dict[str, str]) -> None:
        """Step 4."""
        before = self.latest_version()
        self.check_unchanged(there)
        # Before the call: it may fail on the way back, when the service has done it.
        self.rollback.updated(there, announced)
        said = self.writer.update(self.writer.fields(self.wanted))
        self.result.version = said.get("PipelineVersionId")
        self.check_next(there, before)
        self.done(f"updated {self.about}")

    def has_other_triggers(self, there: Deployed) -> bool:
        wanted = sorted(self.wanted.triggers, key=lambda trigger: trigger.key)
        return [trigger.current for trigger in there.triggers] != [trigger.current for trigger in wanted]

    def held(self, there: Deployed) -> dict[str, str]:
        """The tags of what the pipeline holds of ours, or was edited from, which is about to be written over.

        After a crash that is perhaps what `applying` says. Where nobody knows what apply wrote last, it is what is
        there: to apply all the same was decided with that in view.
        """
        there = there.as_foreign() if self.is_taken_over else there
        try:
            digest = reading.base_digest(self.account, there, self.wanted.root)
        except reading.LostError:
            digest = None
        base = account_resources.base_of(self.account, there, self.wanted.root, self.wanted.tags)
        if base is None:
            base = account_resources.fields(there, self.wanted.tags)
        record = account_resources.record_of(base)
        around = digest_of(record)
        if around not in (there.tags.get(APPLIED_AROUND), self.around):
            self.writer.keep_surroundings(record)
        return {
            APPLIED: self.writer.keep_definition(there.text) if digest is None else digest,
            APPLIED_AROUND: around,
        }

    def latest_version(self) -> int | None:
        return next((number for number, _, _ in versions(self.account, self.wanted.name)), None)

    def check_unchanged(self, there: Deployed) -> None:
        """Just before writing: uploads take minutes, and somebody may have saved an edit meanwhile.

        Raises:
            UserError: somebody has.
        """
        now = self.writer.read()
        if now is None or state(now) != state(there):
            raise UserError(
                f"{self.about} was changed while apply was at work; the change is left as it is. See it: {self.again}"
            )

    def check_next(self, there: Deployed, before: int | None) -> None:
        """Whether the version that was written follows the one that was read.

        Raises:
            UserError: somebody's version lies between them; `theirs` is then what is to be put back.
        """
        ours = self.result.version
        if before is None or ours is None or ours <= before + 1:
            return
        for number, _, _ in versions(self.account, self.wanted.name):
            if not before < number < ours:
                continue
            saved = reading.read_pipeline(self.account, self.wanted.name, number)
            if saved is not None and saved.text == self.wanted.text:
                continue  # a try of this call, whose answer was lost
            if saved is not None:
                self.rollback.theirs = replace(there, text=saved.text)
            raise UserError(
                f"{self.about}: somebody saved version {number} while apply wrote version {ours}. "
                f"See what they changed: {self.again}"
            )

    def write_triggers(self, there: tuple[AccountTrigger, ...]) -> None:
        """Step 5."""
        old = {trigger.key: trigger for trigger in there}
        for trigger in self.wanted.triggers:
            before = old.pop(trigger.key, None)
            if before is not None and before.current == trigger.current:
                continue
            self.rollback.triggered(trigger, before, self.result.arn)
            self.writer.write_trigger(trigger, before)
            self.done(f"{'created' if before is None else 'updated'} {trigger.described}")
        for gone in old.values():
            self.rollback.triggered(gone, gone, self.result.arn)
            self.writer.remove_trigger(gone)
            self.done(f"deleted {gone.described}")

    def read_again(self) -> None:
        """Step 7.

        Raises:
            UserError: it is not what was written.
        """
        wrong, late = self.wrong(reading.read(self.account, self.wanted.name))
        for seconds in LOOKS_AGAIN:
            if wrong or not late:
                break
            self.pause(seconds)
            wrong, late = self.wrong(reading.read(self.account, self.wanted.name))
        if wrong := [*wrong, *late]:
            raise UserError(
                f"{self.about} was written, but is no longer as written ({', '.join(wrong)}): somebody else is "
                f"changing it at the same time. See what differs: {self.again}"
            )

    def wrong(self, now: Deployed | None) -> tuple[list[str], list[str]]:
        """What is not as it was written, and what may only be late."""
        if now is None:
            return ["it is gone"], []
        found: list[str] = []
        late: list[str] = []
        if differs(now, self.wanted):
            found.append("the pipeline differs")
        wanted = self.wanted
        after = {**wanted.tags, APPLIED: wanted.sha256, APPLIED_AROUND: self.around, OWNER: wanted.owner.tag}
        late += [f"the tag {tag} differs" for tag, value in after.items() if now.tags.get(tag) != value]
        if self.has_other_triggers(now):
            late.append("its rules or schedules differ")
        found += [
            f"{asset.uri} is not there, or not as it was written"
            for asset in missing(self.account, self.wanted.assets)[:1]
        ]
        return found, late

    def done(self, line: str) -> None:
        self.result.done.append(line)
        self.tell(line)
