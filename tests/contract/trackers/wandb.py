"""A folder for W&B's offline runs, read back as its own messages (wandb_internal.proto)."""

import json
import struct
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from drivetrain.run_store.told import Told
from tests.contract.trackers.seen import Seen

WRONG = ({"mode": "sometimes"}, "local.trackers.wandb.mode")


@contextmanager
def place(folder: Path) -> Generator[Mapping[str, Any]]:
    with mock.patch.dict("os.environ", {"WANDB_ERROR_REPORTING": "false", "WANDB_API_KEY": ""}):
        yield {"project": "shop", "mode": "offline", "folder": str(folder / "offline")}


def away(folder: Path) -> Mapping[str, Any]:
    return {"project": "shop", "mode": "online"}  # nobody has logged in


def read(settings: Mapping[str, Any], told: Told) -> Seen:
    import wandb
    from wandb.proto import wandb_internal_pb2

    # finish() returns before W&B's service has written its file; a follower waits for the service as its process ends.
    wandb.teardown()
    config: dict[str, Any] = {}
    metrics: dict[str, list[tuple[int, float]]] = {}
    summary: dict[str, float] = {}
    artifacts: set[str] = set()
    ended: int | None = None
    for file in sorted(Path(settings["folder"]).glob("wandb/offline-run-*/*.wandb")):
        for data in _records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            if kind in ("config", "run"):
                for item in (record.config if kind == "config" else record.run.config).update:
                    config[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
            if kind == "run":
                assert record.run.run_id == told.id and record.run.project == "shop"
            if kind == "history":
                row = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item
                }
                for name, value in row.items():
                    if "/" in name and not name.endswith("/step"):
                        metrics.setdefault(name, []).append((round(row[f"{name.split('/')[0]}/step"]), value))
            if kind == "summary":
                values = {item.key: json.loads(item.value_json) for item in record.summary.update if item.key}
                summary |= {name: value for name, value in values.items() if "/" not in name and name[0] != "_"}
            if kind == "request" and record.request.WhichOneof("request_type") == "log_artifact":
                artifacts |= _files(record.request.log_artifact.artifact)
            if kind == "artifact":
                artifacts |= _files(record.artifact)
            if kind == "exit":
                ended = record.exit.exit_code
    return Seen(
        parameters=config,
        metrics=metrics,
        results=summary,
        artifacts=frozenset(artifacts),
        run=config["drivetrain.run"],
        page=config["drivetrain.page"],
        succeeded=None if ended is None else ended == 0,
    )


def _records(content: bytes) -> Generator[bytes]:
    """The records of a file: seven bytes, then LevelDB's log format in blocks of 32 KiB
    (https://github.com/google/leveldb/blob/main/doc/log_format.md)."""
    assert content[:4] == b":W&B"
    place, whole = 7, b""
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        whole = (whole if kind in (3, 4) else b"") + content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield whole


def _files(artifact: Any) -> set[str]:
    return {
        entry.path if entry.path == artifact.name else f"{artifact.name.replace('-', '/', 1)}/{entry.path}"
        for entry in artifact.manifest.contents
    }
