"""`drivetrain checkpoints` on what is no checkpoint, is another tool's, or was made to do harm."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.checkpointing.tensors.index import Chunk, Index, TensorEntry
from tests.contract.bad_input.place import Place, Ran

# What is refused may start a program that trainings bring along.
MOST_CPU_S = 2.0


def save(folder: Path, step: int, files: dict[str, bytes], **values: Any) -> Path:
    """Commit these files."""
    store = Store(open_place(folder))
    name = store.begin(step)
    listed = [FileEntry(file, len(data), store.place.write(f"{name}/{file}", data)) for file, data in files.items()]
    store.commit(Manifest(step=step, files=tuple(listed), values=values))
    return folder / name


def weights(folder: Path, step: int, *, file: str = "rank-00000-of-00001.safetensors") -> Path:
    """A checkpoint of one tensor."""
    index = Index({"model/w": TensorEntry("float32", (2,), (Chunk((0,), (2,), file, 0, 8),))})
    return save(folder, step, {"rank-00000-of-00001.safetensors": bytes(8), "index.json": index.to_bytes()})


def refused(place: Place, ran: Ran, *words: str) -> None:
    place.error_of(ran, *words)
    assert ran.out == "" and ran.cpu_s <= MOST_CPU_S


class Poison:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("owned",)


@pytest.mark.slow_cases("step_10/.metadata-torch.distributed.checkpoint")
@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["step_10/.metadata", "step_10/__0_0.distcp"], ("torch.distributed.checkpoint", "dcp_to_torch")),
        (["lightning_logs/epoch=3-step=120.ckpt"], ("Lightning", "`weights`")),
        (["checkpoint-500/trainer_state.json", "checkpoint-500/optimizer.pt"], ("Hugging Face's Trainer",)),
        (["config.json", "pytorch_model.bin"], ("Hugging Face's transformers",)),
        (["global_step100/mp_rank_00_model_states.pt", "latest"], ("DeepSpeed", "zero_to_fp32.py")),
        (["last.pt"], ("torch.save", "`weights`")),
        (["model.json", "model.safetensors"], ("a model that a training handed on",)),
        (["weights.keras"], ("Keras",)),
        (["notes.txt"], ("holds no checkpoint", "--checkpoints")),
        ([], ("is empty",)),
    ],
    ids=lambda value: value[0] if value else "nothing",
)
def test_the_folder_of_another_tool(place: Place, files: list[str], words: tuple[str, ...]) -> None:
    """It is named, and none of its files is opened: each is a pickle that would leave a mark."""
    (place.folder / "theirs").mkdir()
    for name in files:
        place.write(f"theirs/{name}", pickle.dumps(Poison()))
    ran = place.drivetrain("checkpoints", "verify", "theirs")
    refused(place, ran, *words)
    assert not list(place.folder.rglob("owned"))


def test_the_file_of_another_tool(place: Place) -> None:
    place.write("last.ckpt", pickle.dumps(Poison()))
    refused(place, place.drivetrain("checkpoints", "show", "./last.ckpt"), "Lightning", "no pickle is read")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "build/checkpoint"], ("Did you mean 'checkpoints'?",)),
        (["list", "no/such/folder"], ("there is no folder no/such/folder",)),
        (["list", "gs://bucket/key"], ("gs://bucket/key", "s3://")),
        (["list", "s3://B/x"], ("names no bucket",)),
        (["list", "20261120"], ("No execution '20261120'",)),
        (["show", "build/checkpoints", "121"], ("no checkpoint of step 121", "The closest is 120", "120, 100")),
        (["show", "build/checkpoints", "9" * 5000], ("no checkpoint of step", "The closest is 120")),
        (["show", "build/checkpoints", "-1"], ("-1",)),
        (["show", "build/checkpoints", "best"], ("no checkpoint", "metric")),
        (["show", "build/checkpoints", "\x1b]0;owned\x07"], ("is no checkpoint",)),
        (["verify", "build/checkpoints", "120", "--all"], ("Give one of the two",)),
        (["list", "build/checkpoints", "--step", "train"], ("--step names a step of a run",)),
        (["export", "build/checkpoints"], ("--out",)),
        (["export", "build/checkpoints", "--out", "no/such/w.safetensors"], ("there is no folder",)),
        (["export", "build/checkpoints", "--out", "build"], ("holds checkpoints",)),
        (["export", "build/checkpoints", "--out", "/dev/null/model"], ("/dev/null",)),
        (["export", "build/checkpoints", "--out", "model", "--optimizer"], ("writes one file",)),
        (["export", "build/checkpoints", "--out", "w.safetensors", "--best", "--optimizer"], ("exclude each other",)),
        (["export", "build/checkpoints", "--out", "w.safetensors", "--best"], ("keep_best",)),
        (["export", "build/checkpoints", "--out", "model"], ("--out NAME.safetensors",)),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_invalid_requests_are_refused(place: Place, arguments: list[str], words: tuple[str, ...]) -> None:
    for step in (100, 120):
        weights(place.folder / "build/checkpoints", step)
    before = place.files()
    ran = place.drivetrain("checkpoints", *arguments)
    refused(place, ran, *words)
    assert "\x1b" not in ran.err
    assert place.files() == before


def test_a_damaged_one_is_named_and_nothing_is_written(place: Place) -> None:
    folder = weights(place.folder / "ck", 5)
    (folder / "rank-00000-of-00001.safetensors").write_bytes(bytes(7) + b"1")
    before = place.files()
    for arguments in (["verify", "./ck"], ["export", "./ck", "--out", "w.safetensors"]):
        ran = place.drivetrain("checkpoints", *arguments)
        assert ran.code == 1 and "rank-00000-of-00001.safetensors has the checksum" in ran.out + ran.err, ran
        assert "Traceback" not in ran.err
    assert place.files() == before


@pytest.mark.slow_cases(but=["'/etc/passwd'"])
@pytest.mark.parametrize(
    "name", ["../../secret", "/etc/passwd", "a/../../../secret", "manifest.json", "x\x1b[31m"], ids=ascii
)
def test_a_manifest_with_outside_paths_is_refused(place: Place, name: str) -> None:
    """A manifest with a hash that fits its body is still read as what anybody may have written."""
    place.write("secret", "top secret")
    folder = weights(place.folder / "ck", 5)
    manifest = folder / "manifest.json"
    _rewrite(manifest, lambda body: body["files"].append({"name": name, "size": 10, "crc32": 1}))
    for command in ("verify", "show"):
        ran = place.drivetrain("checkpoints", command, "./ck")
        assert ran.code in (1, 2) and "Traceback" not in ran.err and "top secret" not in ran.out + ran.err, ran
        assert "\x1b" not in ran.out + ran.err
    ran = place.drivetrain("checkpoints", "list", "./ck")
    assert ran.code == 0 and "damaged" in ran.out


def _rewrite(manifest: Path, change: Any) -> None:
    """Change a manifest's body, and let its hash fit."""
    import hashlib

    body = json.loads(manifest.read_bytes())["manifest"]
    change(body)
    text = json.dumps(body).encode()
    manifest.write_bytes(b'{"sha256":"%s",\n"manifest":%s}\n' % (hashlib.sha256(text).hexdigest().encode(), text))


@pytest.mark.slow_cases(but=["../../secret"])
@pytest.mark.parametrize("file", ["../../secret", "../step-00000004/rank-00000-of-00001.safetensors", "no-such-file"])
def test_an_index_with_outside_paths_is_refused(place: Place, file: str) -> None:
    place.write("secret", "topsecret")
    weights(place.folder / "ck", 5, file=file)
    ran = place.drivetrain("checkpoints", "export", "./ck", "--out", "w.safetensors")
    assert ran.code in (1, 2) and "Traceback" not in ran.err, ran
    assert not (place.folder / "w.safetensors").exists()
    assert place.drivetrain("checkpoints", "verify", "./ck").code == 1


@pytest.mark.slow_cases(but=['{"format": 1, "tensors": []}-state.json'])
@pytest.mark.parametrize("name", ["index.json", "state.json"])
@pytest.mark.parametrize(
    "content", [b"[" * 200_000, b'{"format": 1, "tensors": []}', b"\xff\xfe", b'{"tensors": {"x": {"shape": [-1]}}}']
)
def test_invalid_json_is_refused(place: Place, name: str, content: bytes) -> None:
    """The manifest vouches for it, and it is still not believed."""
    index = Index({"model/w": TensorEntry("float32", (2,), (Chunk((0,), (2,), "f", 0, 8),))}).to_bytes()
    save(place.folder / "ck", 5, {"f": bytes(8), "index.json": index, "state.json": b"{}", name: content})
    for arguments in (["show", "./ck"], ["verify", "./ck"], ["export", "./ck", "--out", "m"], ["list", "./ck"]):
        ran = place.drivetrain("checkpoints", *arguments)
        assert ran.code in (0, 1, 2) and "Traceback" not in ran.err and ran.cpu_s < 5, ran
    assert not (place.folder / "m").exists()


@pytest.mark.parametrize("link", ["manifest.json", "rank-00000-of-00001.safetensors"])
def test_a_link_is_not_followed(place: Place, link: str) -> None:
    folder = weights(place.folder / "ck", 5)
    secret = place.write("secret", bytes(8))
    (folder / link).unlink()
    (folder / link).symlink_to(secret)
    ran = place.drivetrain("checkpoints", "verify", "./ck")
    assert ran.code in (1, 2) and "Traceback" not in ran.err, ran
    assert place.drivetrain("checkpoints", "export", "./ck", "--out", "w.safetensors").code in (1, 2)
    assert not (place.folder / "w.safetensors").exists()
