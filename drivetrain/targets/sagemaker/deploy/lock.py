"""One writer of a pipeline at a time: a lock in the bucket, beside the records of what was applied.

SageMaker has no conditional update, S3 has conditional writes. The lock is the object
`{root}/{pipeline}/applied/lock.json`. It says who holds it, or who wrote last and what. It is taken, kept and given
back by conditional writes, which succeed only if the object has not changed since it was read. Its age is by S3's clock
alone.

A holder that was killed cannot give it back. On the same machine the next writer sees that the process is gone, and
takes it; elsewhere after LASTS_S seconds without a sign of life. A holder that comes back after that learns so before
its next write. Those who deploy one pipeline with different buckets or prefixes have no lock in common.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal, cast

from drivetrain.aws.s3 import split
from drivetrain.base.errors import UserError
from drivetrain.base.formatting import moment_with_zone
from drivetrain.base.json_text import object_in
from drivetrain.base.process_identity import boot_id, process_table, start_time
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.objects import delete
from drivetrain.targets.sagemaker.refusals import AbsentError, ConditionError, ConflictError, DeniedError

LASTS_S = 600.0
"""Longer than RENEWED_AFTER_S and one call with all its tries (account.py) take together."""
RENEWED_AFTER_S = 200.0
WAITS_S = 60.0
"""How long a writer waits for another one to end."""
LOOKS_EVERY_S = 1.0
Json = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """The lock as it was read. `age_s` is in seconds."""

    said: Json
    etag: str
    age_s: float

    @property
    def is_held(self) -> bool:
        return self.said.get("state") == "held" and self.age_s < LASTS_S and not _has_ended(self.said)

    @property
    def who(self) -> str:
        return f"{self.said.get('by')!s:.200}, {self.said.get('doing')!s:.200}"


def lock_uri(root: str, pipeline: str) -> str:
    """The URI of a pipeline's lock."""
    return f"{root}/{pipeline}/applied/lock.json"


def look(account: Account, uri: str) -> Found | None:
    """The lock as it is; None where nobody ever took it.

    Raises:
        ServiceError: AWS refuses.
    """
    bucket, key = split(uri)
    got = account.find("s3", "get_object", about=uri, Bucket=bucket, Key=key)
    if got is None:
        return None
    text = account.body(got["Body"], about=uri).decode(errors="replace")
    try:
        said: Any = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    date = str(got["ResponseMetadata"]["HTTPHeaders"].get("date", ""))
    now = parsedate_to_datetime(date) if date else got["LastModified"]
    age_s = (now - got["LastModified"]).total_seconds()
    return Found(cast("Json", said) if isinstance(said, dict) else {}, str(got["ETag"]), age_s)


def last_written(account: Account, root: str, pipeline: str, digest: str | None) -> str:
    """Say who applied the definition of this hash, in words that begin with a space; empty if the lock does not
    tell."""
    try:
        found = look(account, lock_uri(root, pipeline))
    except DeniedError:  # of a lock that is not there, too, where listing is bound to a prefix
        return ""
    last = object_in(found.said, "applied") if found else {}
    if digest is None or last.get("definition") != digest:
        return ""
    return f" {last.get('by')!s:.200} applied definition {digest[:12]} at {last.get('at')!s:.40}."


def _this_process() -> Json:
    """The identity of this process, which no later one shares; empty if there is no /proc."""
    pid = os.getpid()
    if not (boot := boot_id()):
        return {}
    return {"boot": boot, "namespace": process_table(), "pid": pid, "start": start_time(pid)}


def _has_ended(said: Json) -> bool:
    """Return True if the holder was a process of this machine that is gone, or has gone on to other things."""
    holder, here = object_in(said, "process"), _this_process()
    if not here or (holder.get("boot"), holder.get("namespace")) != (here["boot"], here["namespace"]):
        return False
    if holder == here:
        return said.get("token") not in _HELD_HERE
    pid = holder.get("pid")
    return isinstance(pid, int) and start_time(pid) != holder.get("start")


_HELD_HERE: set[str] = set()
"""Tokens of the locks that this process holds, or is about to."""


class Lock:
    """Held by this process. Make it with `alone`."""

    def __init__(self, account: Account, uri: str, doing: str, definition: str) -> None:
        self.account = account
        self.uri = uri
        self.ends: Literal["applied", "failed", "gone"] = "failed"
        """The outcome, told when the lock is given back; `gone` takes the lock away."""
        self._definition = definition
        self.token = secrets.token_hex(8)
        self._said: Json = {"format": 1, "doing": doing, "token": self.token, "process": _this_process()}
        self._etag: str | None = None
        self._renewed = 0.0
        self._is_tried = False

    def take(self, tell: Callable[[str], None], pause: Callable[[float], None]) -> None:
        """Wait for the holder's end, and take it.

        Raises:
            UserError: another one still holds it.
        """
        self._said["by"] = self.account.caller
        found: Found | None = None
        for number in range(round(WAITS_S / LOOKS_EVERY_S) + 1):
            if found is None or not found.is_held:
                self._is_tried = True
                self._said["applied"] = object_in(found.said, "applied") if found else {}
                # The first write comes before any reading: who may list below a prefix alone is answered 403 for an
                # object that is not there.
                if self._write("held", found.etag if found else None):
                    return
            else:
                if number == 1:
                    tell(f"waiting for another writer of this pipeline: {found.who}")
                pause(LOOKS_EVERY_S)
            found = look(self.account, self.uri)
        raise UserError(self._busy(found))

    def keep(self) -> None:
        """Before each write: whether it is still ours.

        Raises:
            UserError: this process slept for so long that another one took it.
        """
        if time.monotonic() - self._renewed > RENEWED_AFTER_S and not self._write("held", self._etag):
            found = look(self.account, self.uri)
            taken = f" ({found.who})" if found else ""
            raise UserError(
                f"Another writer took over the lock {self.uri}{taken}: this one gave no sign of life for a while. It "
                "writes nothing more. Look what is there, with a new plan."
            )

    def give_back(self) -> None:
        """Say what came of it. A lock that another one took meanwhile stays theirs.

        Raises:
            ServiceError: AWS refuses.
        """
        # It is read, since an interruption may have come between a write and its answer.
        found = look(self.account, self.uri) if self._is_tried else None
        if found is None or found.said.get("token") != self.token:
            return
        if self.ends == "applied":
            at = moment_with_zone(time.time())
            self._said["applied"] = {"by": self._said["by"], "definition": self._definition, "at": at}
        if self._write("free", found.etag) and self.ends == "gone":
            delete(self.account, [self.uri])

    def _write(self, state: str, over: str | None) -> bool:
        """Write it in place of the one of that ETag, or where none is; gives whether that one was there."""
        bucket, key = split(self.uri)
        condition = {"IfNoneMatch": "*"} if over is None else {"IfMatch": over}
        body = json.dumps({**self._said, "state": state}).encode()
        renewed = time.monotonic()
        try:
            said = self.account.call("s3", "put_object", about=self.uri, Bucket=bucket, Key=key, Body=body, **condition)
            self._etag, self._renewed = str(said["ETag"]), renewed
        except (ConditionError, ConflictError, AbsentError) as error:
            if isinstance(error, AbsentError) and error.code == "NoSuchBucket":
                raise
            # A try whose answer was lost has written it all the same.
            found = look(self.account, self.uri)
            if found is None or (found.said.get("token"), found.said.get("state")) != (self.token, state):
                return False
            self._etag, self._renewed = found.etag, renewed
        return True

    def _busy(self, found: Found | None) -> str:
        who = f"{found.who}; last sign of life {found.age_s:.0f} s ago" if found else "one after the other"
        return (
            f"Another user is writing this pipeline: {who}. The pipeline was left as it is. Wait until they are done, "
            f"then make a new plan. If their process was killed, the lock ends {LASTS_S / 60:.0f} minutes after its "
            f"last sign of life, or at once: aws s3 rm {self.uri}"
        )


@contextmanager
def alone(
    account: Account,
    root: str,
    pipeline: str,
    *,
    doing: str,
    definition: str = "",
    tell: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
) -> Generator[Lock]:
    """While it lasts nobody else who has the same bucket and prefix writes the pipeline.

    Args:
        doing: for those who meet it: `applying definition 1a2b3c4d5e6f`.
        definition: hash of what is being applied.
        tell: gets a line where it waits, and one where the lock cannot be given back.

    Raises:
        UserError: another one holds it, and went on doing so; AWS refuses.
    """
    lock = Lock(account, lock_uri(root, pipeline), doing, definition)
    _HELD_HERE.add(lock.token)
    try:
        lock.take(tell, pause)
        yield lock
    finally:
        try:
            lock.give_back()
        except UserError as error:
            tell(
                f"note: the lock {lock.uri} was not given back; for writers on other machines it ends in "
                f"{LASTS_S / 60:.0f} minutes. {error}"
            )
        finally:
            _HELD_HERE.discard(lock.token)
