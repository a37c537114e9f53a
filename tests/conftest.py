"""Options and fixtures of the whole suite."""

import sys
import zlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="write golden files anew instead of comparing")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test draws depends on its name alone, and not on the tests before it. (No torch is imported for that.)"""
    seed = zlib.crc32(item.nodeid.encode())
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's shell reaches a test."""
    import os

    for name in list(os.environ):
        if name.startswith("DRIVETRAIN_"):
            monkeypatch.delenv(name)
