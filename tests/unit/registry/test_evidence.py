"""The evidence of a group, kept with its registry: in a folder beside the ledger, or in a bucket."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drivetrain.aws.s3 import Client, DeniedError
from drivetrain.base.errors import InputError
from drivetrain.registry.evidence import change_evidence, place_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import RegistryError, open_registry
from tests.fixtures.s3_server import make_bucket, s3_server, variables


@pytest.fixture(params=[True, False], ids=["may list", "may not list"])
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    endpoint = s3_server(may_list=request.param)
    for name, value in variables(endpoint).items():
        monkeypatch.setenv(name, value)
    return make_bucket(endpoint)


def kept_at(place: str) -> bytes:
    found: list[bytes] = []

    def look(kept: bytes) -> bytes:
        found.append(kept)
        return kept

    change_evidence(place, look)
    return found[0]


def add(letter: bytes) -> Callable[[bytes], bytes]:
    return lambda kept: kept + letter


def test_concurrent_local_changes_are_all_kept(tmp_path: Path) -> None:
    place = str(tmp_path / "evidence" / "digits.npz")
    assert kept_at(place) == b"" and not os.path.exists(place)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: change_evidence(place, add(b"x")), range(40)))
    assert kept_at(place) == b"x" * 40 and os.listdir(tmp_path / "evidence") == ["digits.npz"]


def test_concurrent_changes_in_s3_are_all_kept(bucket: str) -> None:
    place = f"s3://{bucket}/drivetrain-evidence/digits.npz"
    change_evidence(place, add(b"a"))
    seen: list[bytes] = []

    def overtaken(kept: bytes) -> bytes:
        seen.append(kept)
        if len(seen) == 1:
            change_evidence(place, add(b"b"))
        return kept + b"c"

    change_evidence(place, overtaken)
    assert (seen, kept_at(place)) == ([b"a", b"ab"], b"abc")


def test_two_first_nights_at_the_same_moment_are_both_kept(bucket: str) -> None:
    place = f"s3://{bucket}/drivetrain-evidence/digits.npz"
    seen: list[bytes] = []

    def overtaken(kept: bytes) -> bytes:
        seen.append(kept)
        if len(seen) == 1:
            change_evidence(place, add(b"b"))
        return kept + b"c"

    change_evidence(place, overtaken)
    assert (seen, kept_at(place)) == ([b"", b"b"], b"bc")


def test_unreadable_evidence_is_not_replaced(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"s3://{bucket}/drivetrain-evidence/digits.npz"
    change_evidence(place, add(b"a"))

    def denied(self: Client, key: str) -> Any:
        raise DeniedError(
            f"S3 does not read {key}: 403 AccessDenied (Access Denied)", status=403, reason="403 AccessDenied"
        )

    with monkeypatch.context() as patched:
        patched.setattr(Client, "fetch", denied)
        with pytest.raises(RegistryError, match=r"403 AccessDenied.*Allow the role s3:GetObject and s3:PutObject on"):
            change_evidence(place, add(b"b"))
    assert kept_at(place) == b"a"


def test_a_place_that_refuses_is_an_error(bucket: str, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match='nights="bonferroni"'):
        change_evidence(f"s3://{bucket}-none/drivetrain-evidence/digits.npz", add(b"x"))
    (tmp_path / "evidence").write_text("a file")
    with pytest.raises(RegistryError, match="earlier comparisons"):
        change_evidence(str(tmp_path / "evidence" / "digits.npz"), add(b"x"))


def test_an_error_of_the_change_is_passed_on(tmp_path: Path) -> None:
    def refuse(_: bytes) -> bytes:
        raise InputError("damaged")

    with pytest.raises(InputError, match=r"^damaged$"):
        change_evidence(str(tmp_path / "digits.npz"), refuse)


def test_evidence_is_stored_beside_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry: Any = open_registry(f"local:{tmp_path / 'ledger.db'}")
    registry.register("digits", "a" * 64, ModelRecord(artifact="s3://models/digits/model.tar.gz"), approval="Approved")
    champion = registry.champion("digits")
    assert place_of(registry, "digits", champion) == str(tmp_path / "evidence" / "digits.npz")

    class Far:
        objects = None

    far: Any = Far()
    assert place_of(far, "digits", champion) is None, "nobody says where a role of SageMaker's jobs may write"
    monkeypatch.setenv("DRIVETRAIN_EVIDENCE", "s3://mine/pipelines/drivetrain-evidence")
    assert place_of(far, "digits", champion) == "s3://mine/pipelines/drivetrain-evidence/digits.npz"
    monkeypatch.delenv("DRIVETRAIN_EVIDENCE")
    champion = replace(champion, arn="models:/digits/1")
    assert place_of(far, "digits", champion) == "s3://models/drivetrain-evidence/digits.npz"
    monkeypatch.setenv("DRIVETRAIN_EVIDENCE", "s3://mine/pipelines/drivetrain-evidence")
    monkeypatch.setenv("DRIVETRAIN_OBJECT_STORE", str(tmp_path / "s3"))
    assert place_of(far, "digits", champion) is None, "its models are files of this machine"
