"""How a pipeline is written to an account; the flow of an apply is in deploying/applying.py.

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

An error (not a crash) in 3 to 6 takes back what was written of them (writing.py). The service has no If-Match, and
Studio knows no lock: the pipeline is read once more just before step 4. If a version of another user came in between
all the same, it is restored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from drivetrain.assets.uploads import size_of
from drivetrain.base.errors import UserError
from drivetrain.deploying import applying
from drivetrain.deploying.applying import Applied, Journal, Left, Tell, Written
from drivetrain.deploying.plan import Plan, Terms
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy import deployed as reading
from drivetrain.targets.sagemaker.deploy.applying.writing import Rollback, Writer, differs, state
from drivetrain.targets.sagemaker.deploy.deployed import APPLIED, APPLYING, OWNER, Deployed
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.executions.executions import versions
from drivetrain.targets.sagemaker.deploy.lock import Lock, alone, last_written
from drivetrain.targets.sagemaker.deploy.objects import missing, put_once
from drivetrain.targets.sagemaker.deploy.planning import account_resources
from drivetrain.targets.sagemaker.deploy.planning import triggers as writing
from drivetrain.targets.sagemaker.deploy.planning.account_resources import APPLIED_AROUND, APPLYING_AROUND
from drivetrain.targets.sagemaker.deploy.planning.planning import make_plan
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.refusals import ServiceError

LOOKS_AGAIN = (1.0, 2.0, 4.0)
"""Seconds before looking again whether tags, rules and schedules are what was written: of their lists nothing promises
that they are up to date at once."""


def apply(
    account: Account,
    wanted: Desired,
    plan: Plan,
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
    return applying.apply(PipelineInAccount(account, wanted, plan, tell, pause), plan)


class PipelineInAccount:
    """A pipeline of an account, as one apply writes it: a `Place` of deploying/applying.py."""

    unanswered: type[UserError] = ServiceError

    def __init__(
        self, account: Account, wanted: Desired, plan: Plan, tell: Tell, pause: Callable[[float], None]
    ) -> None:
        self.account = account
        self.wanted = wanted
        self.where = account.where
        self.journal = Journal(tell)
        self.pause = pause
        self.again = f"drivetrain plan {plan.as_given}"
        """The command that plans it once more."""
        self.writer = Writer(account, wanted.name, wanted.root)
        self.about = self.writer.about
        self.rollback = Rollback(self.writer, wanted, self.journal)
        self.is_taken_over = False
        """From another owner."""
        self.around = ""
        """Hash of the record of what is beside the definition."""
        self.lock: Lock | None = None

    def read(self) -> Deployed | None:
        return reading.read(self.account, self.wanted.name)

    def state_of(self, there: Deployed | None) -> str:
        return reading.fingerprint(there)

    def plan(self, there: Deployed | None, terms: Terms) -> Plan:
        return make_plan(self.account, self.wanted, there, terms)

    def changed_by(self, there: Deployed | None) -> str:
        digest = None if there is None else there.tags.get(APPLIED)
        who = last_written(self.account, self.wanted.root, self.wanted.name, digest)
        return f"{who} It is the one of this plan." if who and digest == self.wanted.sha256 else who

    @contextmanager
    def alone(self) -> Generator[None]:
        wanted = self.wanted
        with alone(
            self.account,
            wanted.root,
            wanted.name,
            doing=f"applying definition {wanted.sha256[:12]}",
            definition=wanted.sha256,
            tell=self.journal.tell,
            pause=self.pause,
        ) as self.lock:
            self.writer.keep_lock = self.lock.keep
            yield

    def upload(self, plan: Plan) -> None:
        """Steps 1 and 2. The records come before the uploads, so that destroying another pipeline does not take these
        for unused."""
        wanted = self.wanted
        if plan.owner is None:
            self.writer.keep_owner(wanted.owner, once=True)
        self.writer.keep_definition(wanted.text)
        self.around = self.writer.keep_surroundings(wanted.surroundings)
        for asset in missing(self.account, wanted.assets):
            if put_once(self.account, asset.uri, asset.content, asset.sha256):
                self.journal.add(f"uploaded {asset.uri} ({size_of(asset):,} bytes)")

    def write(self, there: Deployed | None, plan: Plan) -> Written:
        """Steps 3 to 6."""
        self.is_taken_over = plan.owner is not None
        written = self.create() if there is None else self.update(there)
        assert self.lock is not None, "it is written within `alone`"
        self.lock.ends = "applied"
        return written

    def create(self) -> Written:
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
            arn = self.writer.create(self.writer.fields(wanted), tags)
        except BaseException as error:
            # Where it refused, what is there is another's.
            if not isinstance(error, ServiceError) or error.may_be_done:
                self.rollback.created()
            raise
        self.wanted = self.rollback.wanted = wanted.at(arn)
        self.rollback.created()
        self.journal.add(f"created {self.about}")
        self.write_triggers(before, arn)
        if has_more:
            self.writer.tag(arn, {APPLIED_AROUND: self.around})
            self.writer.untag(arn, [APPLYING_AROUND])
        return Written(arn, {"arn": arn})

    def update(self, there: Deployed) -> Written:
        """Steps 3 to 6, as far as something differs."""
        version = None
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
                version = self.write_pipeline(there, announced)
            self.writer.tag(there.arn, new)
            self.write_triggers(there.triggers, there.arn)
        else:
            announced = {}
        after = {APPLIED: wanted.sha256, APPLIED_AROUND: self.around, OWNER: wanted.owner.tag}
        held = {**there.tags, **announced}
        if any(held.get(key) != value for key, value in after.items()):
            self.writer.tag(there.arn, after)
        self.writer.untag(there.arn, [tag for tag in (APPLYING, APPLYING_AROUND) if tag in held])
        return Written(there.arn, there.ids, version)

    def write_pipeline(self, there: Deployed, announced: dict[str, str]) -> int | None:
        """Step 4; gives the new version where the service says its number."""
        before = self.latest_version()
        self.check_unchanged(there)
        # Before the call: it may fail on the way back, when the service has done it.
        self.rollback.updated(there, announced)
        said = self.writer.update(self.writer.fields(self.wanted))
        version = said.get("PipelineVersionId")
        self.check_next(there, before, version)
        self.journal.add(f"updated {self.about}")
        return version

    def has_other_triggers(self, there: Deployed) -> bool:
        wanted = sorted(self.wanted.triggers, key=lambda trigger: trigger.key)
        return [trigger.current for trigger in there.triggers] != [trigger.current for trigger in wanted]

    def held(self, there: Deployed) -> dict[str, str]:
        """The tags of what the pipeline holds of ours, or was edited from, which is about to be written over.

        After a crash that may be the definition in `applying`. If it is unknown what apply wrote last, it is what is
        there: the user decided to apply with that in view.
        """
        there = there.as_foreign() if self.is_taken_over else there
        try:
            applied = reading.applied_last(self.account, there, self.wanted.root)
        except reading.LostError:
            applied = None
        base = account_resources.base_of(self.account, there, self.wanted.root, self.wanted.tags)
        if base is None:
            base = account_resources.fields(there, self.wanted.tags)
        record = account_resources.record_of(base)
        around = digest_of(record)
        if around not in (there.tags.get(APPLIED_AROUND), self.around):
            self.writer.keep_surroundings(record)
        return {
            APPLIED: self.writer.keep_definition(there.text) if applied is None else applied[0],
            APPLIED_AROUND: around,
        }

    def latest_version(self) -> int | None:
        return next((number for number, _, _ in versions(self.account, self.wanted.name)), None)

    def check_unchanged(self, there: Deployed) -> None:
        """Check just before writing: uploads take minutes, and another user may have saved an edit meanwhile.

        Raises:
            UserError: it has changed.
        """
        now = self.writer.read()
        if now is None or state(now) != state(there):
            raise UserError(
                f"{self.about} was changed while apply was at work; the change is left as it is. See it: {self.again}"
            )

    def check_next(self, there: Deployed, before: int | None, ours: int | None) -> None:
        """Check that the version that was written follows the one that was read.

        Raises:
            UserError: another user's version lies between them; `theirs` is then to be restored.
        """
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
                f"{self.about}: another user saved version {number} while apply wrote version {ours}. "
                f"See what they changed: {self.again}"
            )

    def write_triggers(self, there: tuple[AccountTrigger, ...], arn: str) -> None:
        """Step 5."""
        old = {trigger.key: trigger for trigger in there}
        for trigger in self.wanted.triggers:
            before = old.pop(trigger.key, None)
            if before is not None and before.current == trigger.current:
                continue
            self.rollback.triggered(trigger, before, arn)
            self.writer.write_trigger(trigger, before)
            self.journal.add(f"{'created' if before is None else 'updated'} {trigger.described}")
        for gone in old.values():
            self.rollback.triggered(gone, gone, arn)
            self.writer.remove_trigger(gone)
            self.journal.add(f"deleted {gone.described}")

    def half_done(self, error: UserError | None, undone: Sequence[str], left: Sequence[Left]) -> str:
        said = [] if error is None else [f"Applying failed: {error}"]
        said += [f"Taken back: {', '.join(undone)}."] if undone else []
        kept = ", ".join(f"{what} ({why})" for what, why in left)
        said += [f"NOT taken back: {kept} Apply again when this is mended."] if left else []
        return "\n".join(said)

    def read_again(self) -> list[str]:
        """Step 7."""
        if self.is_taken_over:
            # Cut short before it, the one who takes over is asked again.
            self.writer.keep_owner(self.wanted.owner, once=False)
        wrong, late = self.wrong(self.read())
        for seconds in LOOKS_AGAIN:
            if wrong or not late:
                break
            self.pause(seconds)
            wrong, late = self.wrong(self.read())
        return [*wrong, *late]

    def wrong(self, now: Deployed | None) -> tuple[list[str], list[str]]:
        """List the differences from what was written, then those that may only be late."""
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
