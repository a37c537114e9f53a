"""What S3 can do with objects, also where requests fail."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from drivetrain.aws.s3 import Patience, ServiceError
from drivetrain.training.checkpointing.places._s3_objects import Objects
from drivetrain.training.checkpointing.store.manifest import DamagedError
from tests.faults.harness.s3_proxy import ALL, DONE, S3Proxy

DATA = memoryview(bytes(range(256)) * 1000)  # four parts


def put(objects: Objects) -> None:
    objects.put("a", b"x")
    assert objects.get("a")[0] == b"x"


def create(objects: Objects) -> None:
    objects.put("a", b"x", condition={"IfNoneMatch": "*"})
    with pytest.raises(FileExistsError):
        objects.put("a", b"x", condition={"IfNoneMatch": "*"})


def swap(objects: Objects) -> None:
    tag = objects.put("a", b"x")
    new = objects.put("a", b"y", condition={"IfMatch": tag})
    assert objects.get("a") == (b"y", new)
    with pytest.raises(FileExistsError):
        objects.put("a", b"z", condition={"IfMatch": tag})


def upload(objects: Objects) -> None:
    assert objects.upload("a", DATA) == zlib.crc32(DATA)
    into = memoryview(bytearray(len(DATA)))
    size, tag = objects.look("a")
    assert size == len(DATA) and objects.get_into("a", into, tag=tag) == zlib.crc32(DATA)
    assert into == DATA and objects.uploads("") == []


def remove(objects: Objects) -> None:
    objects.put("a", b"x")
    objects.delete("a")
    objects.delete("a")
    assert objects.list("")[0] == []


VERBS = [put, create, swap, upload, remove]


@pytest.mark.slow_cases(
    "409-put",
    "409-upload",
    "429-put",
    "429-create",
    "429-swap",
    "429-upload",
    "429-remove",
    "500-upload",
    "502-create",
    "503-upload",
    "504-upload",
    "dropped-swap",
    "dropped-upload",
    "answer lost-upload",
    "answer cut-upload",
    "done and 500-upload",
    "409-create",
    "409-swap",
    "409-remove",
    "500-create",
    "500-swap",
    "500-remove",
    "503-create",
    "503-swap",
    "503-remove",
    "504-create",
    "504-swap",
    "504-remove",
    "dropped-create",
    "dropped-remove",
    "answer lost-create",
    "answer lost-swap",
    "answer lost-remove",
    "answer cut-create",
    "answer cut-swap",
    "answer cut-remove",
    "done and 500-create",
    "done and 500-swap",
    "done and 500-remove",
)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fault", [fault for fault in ALL if "stalled" not in fault])
def test_a_failed_request_is_retried(
    verb: Callable[[Objects], None], fault: str, objects: Objects, faults: Any
) -> None:
    """Above all: what was done, though the answer to it was lost, is not taken for another's deed."""
    faults.ahead = [fault]
    verb(objects)
    assert not faults.ahead


@pytest.mark.parametrize("fault", [fault for fault in DONE if "stalled" not in fault])
@pytest.mark.parametrize("condition", ["IfNoneMatch", "IfMatch"])
def test_a_lost_answer_is_distinguished_from_another_writer(
    fault: str, condition: str, objects: Objects, faults: Any
) -> None:
    """Ours was written, and then replaced by another's before the answer could be asked for again."""
    tag = objects.put("a", b"first")
    if condition == "IfNoneMatch":
        objects.delete("a")
    faults.ahead = [fault]
    other = Objects(objects.bucket, part=objects.part)
    sent = 0

    def before_it_is_sent(**_: object) -> None:
        nonlocal sent
        sent += 1
        if sent == 2:
            other.put("a", b"another's")

    objects.client._opened().meta.events.register("before-send.s3.PutObject", before_it_is_sent)
    wanted = {"IfNoneMatch": "*"} if condition == "IfNoneMatch" else {"IfMatch": tag}
    with pytest.raises(FileExistsError, match="another process"):
        objects.put("a", b"ours", condition=wanted)
    assert objects.get("a")[0] == b"another's"


@pytest.mark.parametrize("fault", ["answer lost", "done and 500"])
def test_a_completion_with_a_lost_answer_succeeds(fault: str, objects: Objects, faults: Any) -> None:
    faults.methods, faults.holding, faults.ahead = ("POST",), "uploadId", [fault]
    upload(objects)
    assert not faults.ahead


@pytest.mark.slow_cases(but=["503"])
@pytest.mark.parametrize("fault", ["answer cut", "answer half stalled", "503"])
def test_content_that_breaks_off_is_fetched_again(fault: str, objects: Objects, faults: Any, proxy: S3Proxy) -> None:
    objects.upload("a", DATA)
    _, tag = objects.look("a")
    into = memoryview(bytearray(len(DATA)))
    before = len(proxy.passed)
    faults.methods, faults.ahead = ("GET",), [fault, "", fault]
    assert objects.get_into("a", into, tag=tag) == zlib.crc32(DATA) and into == DATA
    assert len(proxy.passed) - before == 6  # four parts


@pytest.mark.parametrize("at", ["partNumber=3", "uploadId"], ids=["a part", "its completion"])
def test_an_upload_that_fails_is_ended(at: str, objects: Objects, faults: Any, proxy: S3Proxy) -> None:
    objects.client.patience = Patience(seconds=0.3)
    faults.methods, faults.holding, faults.always = ("PUT", "POST"), at, "503"
    with pytest.raises(ServiceError, match=rf"s3://{objects.bucket}/some/a: given up after"):
        objects.upload("some/a", DATA)
    assert objects.uploads("") == [] and objects.list("")[0] == []


def test_an_upload_that_cannot_even_be_ended_is_found_later(objects: Objects, faults: Any) -> None:
    objects.client.patience = Patience(seconds=0.3)
    faults.methods, faults.holding, faults.always = ("PUT", "DELETE"), "uploadId", "500"
    with pytest.raises(ServiceError) as caught:
        objects.upload("some/a", DATA)
    assert "could not be ended" in caught.value.__notes__[0]
    faults.always = ""
    (left,) = objects.uploads("some/")
    assert left.key == "some/a"
    objects.end(left)
    objects.end(left)
    assert objects.uploads("") == []


def test_every_listing_is_read_to_its_end(objects: Objects) -> None:
    keys = [f"a/{number:04d}" for number in range(5)]
    for key in keys:
        objects.put(key, b"x")
    events = objects.client._opened().meta.events
    events.register("provide-client-params.s3.ListObjectsV2", lambda params, **_: {**params, "MaxKeys": 2})
    assert [entry.key for entry in objects.list("a/")[0]] == keys


def test_an_object_replaced_during_a_read_is_not_mixed(objects: Objects) -> None:
    objects.upload("a", DATA)
    _, tag = objects.look("a")
    objects.upload("a", memoryview(bytes(len(DATA))))
    with pytest.raises(DamagedError, match="replaced while it was read"):
        objects.get_into("a", memoryview(bytearray(len(DATA))), tag=tag)


def test_a_copy_in_parts(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivetrain.training.checkpointing.places._s3_objects._LARGEST_COPY", 1 << 17)
    objects.upload("späte r+=%/a", DATA)
    objects.copy("späte r+=%/a", len(DATA), "b")
    assert objects.get("b")[0] == DATA
