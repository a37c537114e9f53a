"""Options and fixtures of the whole suite."""

import gc
import os
import sys
import zlib
from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="write golden files anew instead of comparing")


def pytest_collection_finish() -> None:
    """All that was imported and collected stays: the collector needs not go over it again, which in a process that
    was forked would copy every page."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test draws depends on its name alone, and not on the tests before it. (No torch is imported for that.)"""
    seed = zlib.crc32(item.nodeid.encode())
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """No setting of the developer's shell reaches a test.

    Not by the test's own monkeypatch, which is undone in the order in which it was asked for: asked for here, it would
    be undone after all other fixtures, and bring back what they have set meanwhile.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("DRIVETRAIN_"):
                patch.delenv(name)
        yield


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test imports of its own folder is forgotten: a file of another test may have the same name."""
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    folder = f"{tmp_path_factory.getbasetemp()}{os.sep}"
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(folder):
            del sys.modules[name]


@pytest.fixture(autouse=True, scope="module")
def own_account() -> Iterator[None]:
    """No file of tests leaves the next one in its account or at its server."""
    before = _account()
    yield
    assert _account() == before


def _account() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
