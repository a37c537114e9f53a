"""Take back what an apply wrote, when a part of it was refused.

Nothing is taken back that somebody else has written since: what this apply wrote is put back over what it wrote alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from drivetrain.base.errors import UserError
from drivetrain.deploying.applying import Journal
from drivetrain.targets.sagemaker.deploy.applying.writing import Writer, differs, state
from drivetrain.targets.sagemaker.deploy.deployed import ALL_OURS, Deployed
from drivetrain.targets.sagemaker.deploy.desired import Desired
from drivetrain.targets.sagemaker.deploy.planning import triggers as writing
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger

_CHANGED = "somebody else changed it since; it is left as they have it."


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
            UserError: somebody has changed it since.
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
            UserError: somebody else wrote since.
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
            UserError: somebody else wrote one since.
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
            UserError: somebody else wrote it since.
        """
        account = self.writer.account
        now = {each.key: each for each in writing.read_triggers(account, self.wanted.name, arn)}
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
