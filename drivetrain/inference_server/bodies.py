"""The body of a request, read as RFC 9112 says, and not beyond its limit."""

from __future__ import annotations

import io
import re
from email.message import Message

_PIECE_BYTES = 1 << 20
_LONGEST_LINE, _MOST_TRAILERS = 1 << 12, 100
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r?\n", re.DOTALL)
_LENGTH = re.compile(r"[0-9]{1,18}")


class BodyError(Exception):
    """A request whose end cannot be known, or that is too long: it is refused, and its connection closed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def read_body(stream: io.BufferedIOBase, headers: Message, most: int) -> bytes:
    """The body of a request: of its Content-Length, in chunks, or none (RFC 9112, sections 6 and 7).

    Raises:
        BodyError: its length is not a number, given twice, or more than `most`; or the body ends before it.
    """
    lengths, codings = headers.get_all("Content-Length", []), headers.get_all("Transfer-Encoding", [])
    if codings:
        if lengths:
            raise BodyError(400, "the request has Content-Length and Transfer-Encoding. Send one of them.")
        coding = ", ".join(codings).strip()
        if coding.lower() != "chunked":
            raise BodyError(501, f"Transfer-Encoding {coding!r:.60} is not taken. Allowed: chunked.")
        return _chunked(stream, most)
    if not lengths:
        return b""
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0].strip()):
        raise BodyError(400, f"Content-Length is {', '.join(lengths)!r:.60}. Allowed: one whole number from 0.")
    return _exactly(stream, _allowed(int(lengths[0]), most))


def _allowed(length: int, most: int) -> int:
    if length > most:
        raise BodyError(413, f"the body has {length:,} bytes or more. Allowed: {most:,}.")
    return length


def _chunked(stream: io.BufferedIOBase, most: int) -> bytes:
    body = bytearray()
    while True:
        size = _CHUNK_SIZE.fullmatch(stream.readline(_LONGEST_LINE))
        if size is None:
            raise BodyError(400, "the body has a chunk without a valid size.")
        length = int(size[1], 16)
        if not length:
            break
        _allowed(len(body) + length, most)
        body += _exactly(stream, length)
        if stream.readline(2) not in (b"\r\n", b"\n"):
            raise BodyError(400, "the body has a chunk that does not end where its size says.")
    for _ in range(_MOST_TRAILERS):
        line = stream.readline(_LONGEST_LINE)
        if line in (b"\r\n", b"\n"):
            return bytes(body)
        if not line.endswith(b"\n") or b":" not in line:
            break
    raise BodyError(400, "the body does not end after its last chunk.")


def _exactly(stream: io.BufferedIOBase, length: int) -> bytes:
    """Read in pieces: memory is taken for what comes, not for what a header says."""
    body = bytearray()
    while len(body) < length:
        piece = stream.read(min(_PIECE_BYTES, length - len(body)))
        if not piece:
            raise BodyError(400, f"the body ends after {len(body):,} of {length:,} bytes.")
        body += piece
    return bytes(body)
