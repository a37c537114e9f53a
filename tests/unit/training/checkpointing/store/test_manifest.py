from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.store.manifest import (
    FORMAT,
    DamagedError,
    FileEntry,
    Manifest,
    check_name,
    is_leftover,
)

VALUES = {"consumed": 960, "config": {"lr": 0.1, "é": [None, True]}, "metrics": {"loss": 1e-7}, "finished": False}
WHOLE = Manifest(
    step=120, files=(FileEntry("rank-00000.safetensors", 512, 0xFFFFFFFF), FileEntry("a/b", 0, 0)), values=VALUES
)


def signed(body: Any) -> bytes:
    """A manifest that is whole, whatever it says."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b'{"sha256":"%s",\n"manifest":%s}\n' % (hashlib.sha256(text).hexdigest().encode(), text)


def body(**changes: Any) -> dict[str, Any]:
    return {"format": FORMAT, "step": 1, "files": [{"name": "a", "size": 1, "crc32": 2}], "values": {}} | changes


def test_round_trip() -> None:
    data = WHOLE.to_bytes()
    assert Manifest.from_bytes(data) == WHOLE
    assert Manifest.from_bytes(data).to_bytes() == data
    assert json.loads(data)["manifest"]["step"] == 120  # people and their programs read it as JSON
    assert WHOLE.size == 512 and WHOLE.file("a/b").size == 0
    with pytest.raises(KeyError):
        WHOLE.file("b")


def test_every_flipped_bit_is_noticed() -> None:
    data = WHOLE.to_bytes()
    for position in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(DamagedError):
            Manifest.from_bytes(bytes(damaged))


def test_every_other_length_is_noticed() -> None:
    data = WHOLE.to_bytes()
    for length in range(len(data)):
        with pytest.raises(DamagedError):
            Manifest.from_bytes(data[:length])
    for more in (b"\0", b"\n", b" ", data):
        with pytest.raises(DamagedError):
            Manifest.from_bytes(data + more)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"null",
        signed(b""),
        signed(b"null"),
        signed(b"[]"),
        signed(b"[" * 200_000 + b"]" * 200_000),
        signed(b'{"a":' * 200_000 + b"1" + b"}" * 200_000),
        signed(b'{"format": ' + b"9" * 5000 + b"}"),
        signed(b'{"format": 1, "step": 1, "files": [], "values": {"loss": NaN}}'),
        signed(b'{"format": 1, "step": 1, "files": [], "values": {"loss": \xff}}'),
        signed({}),
        signed(body(format="1")),
        signed(body(format=True)),
        signed(body(step=-1)),
        signed(body(step=1.0)),
        signed(body(step=True)),
        signed(body(step=2**63)),
        signed(body(values=[])),
        signed(body(files={"a": 1})),
        signed(body(files=None)),
        signed(body(files=["a"])),
        signed(body(files=[{"name": "a", "size": 1}])),
        signed(body(files=[{"name": "a", "size": -1, "crc32": 0}])),
        signed(body(files=[{"name": "a", "size": 1, "crc32": 2**32}])),
        signed(body(files=[{"name": "a", "size": 1, "crc32": "0"}])),
        signed(body(files=[{"name": "a", "size": 1, "crc32": 0}, {"name": "a", "size": 1, "crc32": 0}])),
    ],
    ids=lambda content: repr(content[85:125]),
)
def test_impossible_manifests_are_damage(content: bytes) -> None:
    with pytest.raises(DamagedError) as caught:
        Manifest.from_bytes(content)
    assert caught.value.file == "manifest.json" and len(str(caught.value)) < 400


BAD_NAMES = [
    *("", "/", "/etc/passwd", "..", "../a", "a/../../b", "a/..", ".", "./a", "a//b", "a/", "\\", "..\\a", "C:\\a"),
    *("a\0", "a\n", "\x1b[31m", "\u202egnp.exe", "\ud800", "a" * 241, "a/" * 500 + "a"),
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a plain relative name"):
        check_name(name)
    with pytest.raises(DamagedError, match="not what a training writes"):
        Manifest.from_bytes(signed(body(files=[{"name": name, "size": 1, "crc32": 0}])))
    with pytest.raises(ValueError, match="is not a plain relative name"):
        Manifest(step=1, files=(FileEntry(name, 1, 0),)).to_bytes()


@pytest.mark.parametrize("name", ["manifest.json", "a.partial", "a/b.sagemaker-uploading", "b.sagemaker-uploaded"])
def test_files_that_cannot_be_a_part_of_a_checkpoint(name: str) -> None:
    with pytest.raises(DamagedError, match="cannot be a file of a checkpoint"):
        Manifest.from_bytes(signed(body(files=[{"name": name, "size": 1, "crc32": 0}])))
    assert is_leftover(name) == (name != "manifest.json")


@pytest.mark.parametrize("name", ["a", "a.b-c_d", "rank 1", "é/ü", "a/b/c", "..a", "...", "x" * 240])
def test_plain_names(name: str) -> None:
    assert check_name(name) == name


def test_unreadable_manifests_are_not_written() -> None:
    for bad in (
        replace(WHOLE, values={"loss": float("nan")}),
        replace(WHOLE, step=-1),
        replace(WHOLE, files=WHOLE.files * 2),
    ):
        with pytest.raises(ValueError):
            bad.to_bytes()


def test_a_later_format_is_not_damage() -> None:
    """It would be set aside by an older version, which cannot read it, and be lost for the newer one."""
    with pytest.raises(InputError, match=r"has format 2; this version reads formats up to 1\. Go on with"):
        Manifest.from_bytes(signed({"format": 2, "what": "ever"}))
