"""A host gets its checkpoints back from the agent that copies them: in any order, in part, with the agent's leftovers
among them, with what retention had removed, and all of it on every host. Whoever looks in between loads nothing torn
and destroys nothing; whoever looks afterwards loads the newest one that came whole."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from unittest import mock

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from tests.faults.harness.families import Found, Trial
from tests.faults.harness.made_checkpoints import Files, draw_files, load_newest, save

FAULT = "restored by a sync agent in any order, in part, with leftovers: newest whole one, the rest cleaned up"
TRIALS, QUICK, AT_ONCE = 400, 6, 2
_LEFTOVERS = (".sagemaker-uploading", ".sagemaker-uploaded", ".0123abcd.partial")


@mock.patch("os.fsync")  # this machine will not lose its power
def trial(given: Trial, shared: None, fsync: mock.Mock) -> Found:
    draw = given.draw
    bucket, saved, kept = _first_host(given)
    did: Counter[str] = Counter()
    # The job was stopped before the last uploads were through.
    late = {name for name in bucket if name.startswith(_folder(max(saved))) and draw.random() < 0.4}
    arrives = {name: data for name, data in bucket.items() if name not in late}
    whole = [
        step for step in saved if all(f"{_folder(step)}/{name}" in arrives for name in (*saved[step], "manifest.json"))
    ]
    newest = max(whole, default=-1)
    violations: list[str] = []
    for host in range(draw.randint(1, 3)):
        violations += [f"host {host}: {text}" for text in _restored(given, host, arrives, saved, newest, kept, did)]
    did["newest one came in part"] = newest != max(saved)
    return Found(violations, did)


def _folder(step: int) -> str:
    return f"step-{step:08d}"


def _first_host(given: Trial) -> tuple[dict[str, bytes], dict[int, Files], int]:
    """Saves with retention, every state of which is copied; deletions are not. Gives the copies."""
    draw, place = given.draw, FolderPlace(given.folder / "first")
    store, bucket, saved = Store(place), dict[str, bytes](), dict[int, Files]()
    kept = draw.randint(1, 3)
    step = 0
    for _ in range(draw.randint(2, 6)):
        step += draw.randint(1, 50)
        saved[step] = draw_files(draw, step)
        save(store, step, saved[step])
        store.retain(Retention(last=kept))
        for name in place.names():
            bucket[name] = place.read(name)
            if draw.random() < 0.2:
                bucket[name + draw.choice(_LEFTOVERS)] = bucket[name][: draw.randrange(10)]
    # An interrupted save: files without a manifest.
    for name, data in draw_files(draw, step + 1).items():
        bucket[f"{_folder(step + 1)}/{name}"] = data
    return bucket, saved, kept


def _restored(
    given: Trial,
    host: int,
    arrives: dict[str, bytes],
    saved: dict[int, Files],
    newest: int,
    kept: int,
    did: Counter[str],
) -> list[str]:
    draw, root = given.draw, given.folder / f"host-{host}"
    violations: list[str] = []
    order = list(arrives)
    draw.shuffle(order)
    looks = set(draw.sample(range(len(order)), min(4, len(order))))
    for number, name in enumerate(order):
        _bring(root, name, arrives[name], draw)
        if number in looks:
            did["looks while files arrive"] += 1
            loaded = load_newest(Store(FolderPlace(root)))
            if loaded.quarantined:
                violations.append(f"set aside, though it had only not come yet: {loaded.quarantined}")
            if loaded.step >= 0 and loaded.files != saved[loaded.step]:
                violations.append(f"step {loaded.step} was loaded as something else")
    place = FolderPlace(root)
    store = Store(place)
    store.clean()
    loaded = load_newest(store)
    if loaded.step != newest or (newest >= 0 and loaded.files != saved[newest]):
        violations.append(f"step {newest} came whole, and step {loaded.step} is loaded")
    following = max(saved) + 1
    save(store, following, {"weights": b"1"})
    store.retain(Retention(last=kept))
    expected = sorted([following, *(step for step in saved if _came_whole(step, saved, arrives))])[-kept:]
    if store.steps() != expected[::-1]:
        violations.append(f"left: {store.steps()} instead of {expected}")
    listed = {f"{_folder(step)}/{file.name}" for step in store.steps() for file in store.manifest(step).files}
    listed |= {f"{_folder(step)}/manifest.json" for step in store.steps()}
    if more := sorted(set(place.names()) - listed):
        violations.append(f"rubbish is left: {more}")
    return violations


def _came_whole(step: int, saved: dict[int, Files], arrives: dict[str, bytes]) -> bool:
    return all(f"{_folder(step)}/{name}" in arrives for name in (*saved[step], "manifest.json"))


def _bring(root: Path, name: str, data: bytes, draw: random.Random) -> None:
    """As the agent does it: beside the final name first."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if draw.random() < 0.5:
        path.with_name(path.name + ".sagemaker-uploading").write_bytes(b"")
    partial = path.with_name(f"{path.name}.download")
    partial.write_bytes(data)
    partial.rename(path)
