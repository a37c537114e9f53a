"""Copies a command's output to its log and masks secrets (standard library only; used by the guard of a host).

The command writes to a pipe, which the guard reads. The guard outlives the runner and all writers, so the last output
before a kill arrives, and no write fails when the runner dies.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import sys

import ending

TYPE_CHECKING = False  # typing itself would cost a tenth of the start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_AT_ONCE = 1 << 16
# The kernel keeps as much while nobody reads; a command that prints a lot waits less often.
_PIPE_BYTES = 1 << 20
# Of a line, or of a private key, is held back until its end is seen.
_LONGEST = 64 * 1024
_KEY_BEGINS = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY")
_KEY_ENDS = re.compile(rb"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
# As much of a beginning may be there without its end.
_KEY_HEADER = b"-----BEGIN "
_KEY_HEADER_BYTES = 80


class Scribe:
    """A pipe from a command to its log. `write` is the command's end."""

    def __init__(self, secrets: Iterable[str], log: int = 2) -> None:
        self.read, self.write = os.pipe()
        self._log = log
        self._lines = MaskedLines(secrets)
        self._lost, self._in_new_line = 0, True
        os.set_blocking(self.read, False)
        try:
            fcntl.fcntl(self.write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            return  # the user has many pipes already; a small one does it, too

    def copy_until_end(self, other: int) -> bytes:
        """Copy output to the log until the pipe `other` ends; returns what `other` carried."""
        poll = select.poll()
        poll.register(other, select.POLLIN)
        poll.register(self.read, select.POLLIN)
        told = b""
        self._lines.load()
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self.read:
                    if self._copy() == b"":
                        poll.unregister(self.read)
                elif chunk := os.read(other, _AT_ONCE):
                    told += chunk
                else:
                    return told

    def finish(self) -> None:
        """Copy the rest to the log, without waiting for processes that may still hold the other end."""
        left = 2 * _PIPE_BYTES
        while left > 0 and (data := self._copy()):
            left -= len(data)
        self._put(self._lines.rest())
        self._say_lost()
        if self._lines.masked:
            from drivetrain.base.masking import SAID

            self._put(f"{'' if self._in_new_line else chr(10)}{SAID}".encode())

    def _copy(self) -> bytes | None:
        """Copy and return what can be read now; None if there is nothing."""
        try:
            data = os.read(self.read, _AT_ONCE)
        except BlockingIOError:
            return None
        self._put(self._lines.feed(data))
        return data

    def _put(self, data: bytes) -> None:
        if data and self._lost:
            self._say_lost()
        self._in_new_line = data.endswith(b"\n") if data else self._in_new_line
        while data:
            try:
                data = data[os.write(self._log, data) :]
            except OSError:  # a full disk must not change how the job ends
                self._lost += len(data)
                return

    def _say_lost(self) -> None:
        lost = f"drivetrain: {self._lost:,} bytes of this log could not be written\n"
        if self._lost and ending.write(lost, self._log):
            self._lost = 0


class MaskedLines:
    """Returns fed lines without secrets, as soon as no secret can continue in the following text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        each = tuple(secrets)
        # A terminal's lines end in two characters.
        self._secrets = (*(one.replace("\n", "\r\n") for one in each if "\n" in one), *each)
        self._bytes = [secret.encode("utf-8", "surrogateescape") for secret in self._secrets]
        # Beginnings of secrets of several lines, each up to the end of a line.
        self._beginnings = [one[: end + 1] for one in self._bytes for end in range(len(one) - 1) if one[end] in b"\r\n"]
        self._held = bytearray()
        self._masking: Callable[[bytes], tuple[bytes, int]] | None = None
        self.masked = 0
        """How many values were masked."""

    def load(self) -> Callable[[bytes], tuple[bytes, int]]:
        """Load what masks."""
        self._masking = self._masking or log_masking(self._secrets)
        return self._masking

    def feed(self, data: bytes) -> bytes:
        """Give the part that can be written now."""
        self._held += data
        # A carriage return ends a line, too: that is how progress bars write over themselves.
        if len(self._held) < _LONGEST and b"\n" not in data and b"\r" not in data:
            return b""
        return self._take(self._cut())

    def rest(self) -> bytes:
        """Give the part that was held back, at the end."""
        return self._take(len(self._held))

    def _cut(self) -> int:
        held = self._held
        cut = max(held.rfind(b"\n"), held.rfind(b"\r")) + 1
        if not cut and len(held) >= _LONGEST:
            cut = self._cut_in_a_line()
        key = self._open_key(cut)
        if key is not None and len(held) - key < _LONGEST:
            cut = key
        begun = [len(one) for one in self._beginnings if held.endswith(one, 0, cut)]
        return cut - max(begun) if begun and len(held) < 2 * _LONGEST else cut

    def _open_key(self, cut: int) -> int | None:
        """The start of a private key whose end has not come yet."""
        ended = max((match.end() for match in _KEY_ENDS.finditer(self._held, 0, cut)), default=0)
        begun = _KEY_BEGINS.search(self._held, ended, cut)
        return None if begun is None else begun.start()

    def _cut_in_a_line(self) -> int:
        """A place to cut a very long line without dividing a secret, even if only the secret's beginning has
        arrived."""
        size = len(self._held)
        held = bytes(self._held)
        end = size - max((_overlap(held, one) for one in self._bytes), default=0)
        key = held.rfind(_KEY_HEADER, max(0, size - _KEY_HEADER_BYTES))
        begun = [size - _overlap(held, _KEY_HEADER), key if key >= 0 else size, self._open_key(size)]
        end = min(end, *(place for place in begun if place is not None)) or size
        masking = self.load()
        whole, _ = masking(held[:end])
        for place in (held.rfind(b" ", 0, end) + 1, end - _LONGEST // 16, end - _LONGEST // 8):
            if place > end // 2 and masking(held[:place])[0] + masking(held[place:end])[0] == whole:
                return place
        return end

    def _take(self, cut: int) -> bytes:
        data = bytes(self._held[:cut])
        del self._held[:cut]
        if not data:
            return b""
        text, masked = self.load()(data)
        self.masked += masked
        return text


def _overlap(held: bytes, secret: bytes) -> int:
    """How many bytes at the end are a beginning of the secret, but not all of it."""
    return next((size for size in range(len(secret) - 1, 0, -1) if held.endswith(secret[:size])), 0)


def log_masking(secrets: Iterable[str]) -> Callable[[bytes], tuple[bytes, int]]:
    """The function that masks a piece of a log; loaded by the first call, while the command is still starting."""
    if "drivetrain" not in sys.modules:  # its own __init__ is not needed
        folder = __file__
        for _ in range(2):
            folder = os.path.dirname(folder)
        package = sys.modules["drivetrain"] = type(sys)("drivetrain")
        package.__path__ = [folder]
    from drivetrain.base.masking import LogMasking

    return LogMasking(secrets)
