"""What people do with checkpoints works alike wherever they are kept: run for each kind of place."""

from __future__ import annotations

import importlib.util
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from drivetrain.training.checkpointing.places import kinds, open_place
from drivetrain.training.checkpointing.store.lock import Lock
from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.checkpointing.tensors.index import Chunk, Index, TensorEntry
from drivetrain.training_scripts import checkpoints

LOCATIONS = Path(__file__).parent / "places"
NUMBERS = [float(n) for n in range(12)]


@pytest.fixture(params=kinds())
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    spec = importlib.util.spec_from_file_location(f"place_{request.param}", LOCATIONS / f"{request.param}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.location(tmp_path) as given:
        yield given


def save(uri: str, step: int) -> str:
    """A tensor of 3 x 4 cut by columns over two files; gives the folder's name."""
    store = Store(open_place(uri))
    folder = store.begin(step)
    rows = [NUMBERS[start : start + 4] for start in (0, 4, 8)]
    left = b"head" + struct.pack("<3f", *(row[0] for row in rows))
    right = b"head" + struct.pack("<9f", *(n for row in rows for n in row[1:]))
    chunks = (Chunk((0, 0), (3, 1), "rank-0", 4, 12), Chunk((0, 1), (3, 3), "rank-1", 4, 36))
    files = {
        "rank-0": left,
        "rank-1": right,
        "index.json": Index({"model/w": TensorEntry("float32", (3, 4), chunks)}).to_bytes(),
        "state.json": json.dumps({"description": {"recipe": "digits_cnn"}}).encode(),
    }
    listed = [FileEntry(name, len(data), store.place.write(f"{folder}/{name}", data)) for name, data in files.items()]
    values = {"saved_at": "2026-11-20T12:00:00+00:00", "world_size": 2, "strategy": {"name": "tp"}}
    store.commit(Manifest(step=step, files=tuple(listed), values=values))
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    found = checkpoints.run([*map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    assert found == code, (found, out, err)
    return json.loads(out) if out else err


@pytest.mark.slow_cases("s3")
def test_list_show_verify_export(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = f"{uri}/1f2e-3d4c"
    for step in (9, 10):
        save(training, step)
    with Lock(open_place(training), "digits"):
        (listed,) = run(capsys, "list", uri)
    assert listed["training"] == "1f2e-3d4c" and listed["at_work"]["who"] == "digits"
    assert [(row["step"], row["state"], row["newest"]) for row in listed["rows"]] == [
        (10, "good", True),
        (9, "good", False),
    ]
    assert run(capsys, "list", training)[0]["at_work"] is None
    assert run(capsys, "show", uri, "9")["tensors"][0]["parts"] == 2
    assert [verdict["state"] for verdict in run(capsys, "verify", uri, "--all")] == ["good", "good"]
    out = tmp_path / "exported"
    run(capsys, "export", uri, "--out", out)
    assert load_file(out / "model.safetensors")["w"].ravel().tolist() == NUMBERS
    assert json.loads((out / "model.json").read_text())["recipe"] == "digits_cnn"
    # Nothing of all this has left anything behind, or is in the way of whoever writes there.
    assert [open_place(training).retire(f"step-000000{step}") for step in ("09", "10")] == [True, True]


@pytest.mark.parametrize(
    "uri",
    [pytest.param(kind, marks=pytest.mark.slow if kind == "s3" else []) for kind in kinds()],
    indirect=True,
)
def test_a_damaged_one(uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(uri, 1)
    folder = save(uri, 2)
    place = open_place(uri)
    data = bytearray(place.read(f"{folder}/rank-1"))
    data[-1] ^= 1
    place.write(f"{folder}/rank-1", bytes(data))
    (verdict,) = run(capsys, "verify", uri, code=1)
    assert verdict["state"] == "damaged" and [each["file"] for each in verdict["problems"]] == ["rank-1"]
    assert "rank-1" in run(capsys, "export", uri, "--out", tmp_path / "out", code=1)
    assert not (tmp_path / "out").exists()
    (verdict,) = run(capsys, "verify", uri, "--quarantine", code=1)
    assert verdict["quarantined"] == "quarantine/step-00000002.1"
    assert run(capsys, "verify", uri)[0]["step"] == 1


def test_upload_lag_is_shown_if_known(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    save(uri, 1)
    lag = run(capsys, "list", uri)[0]["arrival_seconds"]
    # It was saved, as it says, long before it came to be there.
    assert (lag is not None and lag > 3600) if hasattr(open_place(uri), "arrived_at") else lag is None


def test_a_place_without_checkpoints(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "list", f"{uri}/none", code=2).startswith("error: ")


def test_a_scripts_own_files_are_listed(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = open_place(uri)
    for name in ("step-9.npz", "step-10/weights.npz", "step-10/deep/er.npz", "step-10/er.npz.sagemaker-uploaded"):
        place.write(name, b"1234")
    (listed,) = run(capsys, "list", uri)
    own = listed["own"]
    assert [(each["name"], each["files"], each["bytes"]) for each in own] == [("step-10/", 2, 8), ("step-9.npz", 1, 4)]
    assert all(each["modified"] > 1.7e9 for each in own)
    assert "The 2 entries there are another program's" in run(capsys, "verify", uri, code=2)
