"""Records of an input file, batches of records, and one output file out of many answers.

SplitType None sends a file whole; Line splits at newlines; TFRecord and RecordIO at their frames, which SingleRecord
takes off and MultiRecord leaves on. https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_TransformInput.html
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final

NONE: Final = "None"
LINE: Final = "Line"
TF_RECORD: Final = "TFRecord"
RECORD_IO: Final = "RecordIO"
SPLIT_TYPES = (NONE, LINE, TF_RECORD, RECORD_IO)
SINGLE: Final = "SingleRecord"
MULTI: Final = "MultiRecord"
STRATEGIES = (MULTI, SINGLE)
# MXNet's dmlc-core, recordio.h: a magic word, three bits of a flag and 29 of the length, the data, padding to 4 bytes.
_MAGIC = 0xCED7230A
_LENGTH = (1 << 29) - 1


class RecordError(ValueError):
    """A file that does not split, or a record that is too large."""


def split(content: bytes, split_type: str, *, bare: bool) -> list[bytes]:
    """The records of a file; `bare` leaves the frames of binary formats out.

    Raises:
        RecordError: a torn frame.
    """
    if split_type == NONE:
        return [content]
    if split_type == LINE:
        lines = content.split(b"\n")
        if lines[-1] == b"":  # what ends with a newline has no empty line after it
            lines.pop()
        return [line.removesuffix(b"\r") for line in lines]
    frames = _tf_records if split_type == TF_RECORD else _record_io
    return [data if bare else framed for framed, data in frames(content)]


def batches(
    records: Iterable[bytes], strategy: str, most_bytes: int | None, separator: bytes, payload: Callable[[bytes], bytes]
) -> Iterator[tuple[list[bytes], bytes]]:
    """Records as they were, and the body of their request: as many as fit, or one.

    Args:
        most_bytes: of a body; None for any number.
        separator: between two records of one body.
        payload: what is sent of a record.

    Raises:
        RecordError: a record alone is larger.
    """
    taken: list[bytes] = []
    bodies: list[bytes] = []
    size = 0
    for number, record in enumerate(records, start=1):
        body = payload(record)
        if most_bytes is not None and len(body) > most_bytes:
            raise RecordError(
                f"record {number} has {len(body):,} bytes, more than MaxPayloadInMB allows ({most_bytes:,}). Split the "
                "input (SplitType), or raise MaxPayloadInMB (at most 100)"
            )
        more = len(body) + (len(separator) if bodies else 0)
        if bodies and (strategy == SINGLE or (most_bytes is not None and size + more > most_bytes)):
            yield taken, separator.join(bodies)
            taken, bodies, size, more = [], [], 0, len(body)
        taken.append(record)
        bodies.append(body)
        size += more
    if bodies:
        yield taken, separator.join(bodies)


def assembled(answers: Iterable[bytes], assemble_with: str) -> bytes:
    """One file: answers one after the other, or each ended by a newline (one, where the server ended it already)."""
    if assemble_with == LINE:
        return b"".join(answer.removesuffix(b"\n") + b"\n" for answer in answers)
    return b"".join(answers)


def _tf_records(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(content):
        head = content[at : at + 12]  # the length and its checksum
        end = at + 12 + (struct.unpack("<Q", head[:8])[0] if len(head) == 12 else 0) + 4
        if len(head) < 12 or end > len(content):
            raise RecordError(f"the TFRecord frame at byte {at} is torn")
        yield content[at:end], content[at + 12 : end - 4]
        at = end


def _record_io(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(content):
        head = content[at : at + 8]
        if len(head) < 8:
            raise RecordError(f"the RecordIO frame at byte {at} is torn")
        magic, length = struct.unpack("<II", head)
        if magic != _MAGIC or length >> 29:
            raise RecordError(f"no complete RecordIO record begins at byte {at}")
        length &= _LENGTH
        end = at + 8 + (length + 3) // 4 * 4
        if end > len(content):
            raise RecordError(f"the RecordIO frame at byte {at} is torn")
        yield content[at:end], content[at + 8 : at + 8 + length]
        at = end
