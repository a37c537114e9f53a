"""A store in a folder; tests/contract/test_places.py has what holds for every kind of place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.store import Store


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(FolderPlace(tmp_path))
