"""Options and fixtures of the whole suite."""

import gc
import os
import random
import signal
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

# Nothing that a property test finds may depend on the run or on how busy the machine is: the same examples each time.
# `HYPOTHESIS_PROFILE=nightly` draws other ones every night, and ten times as many.
hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "nightly",
    derandomize=False,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
hypothesis.settings.load_profile(PROFILE)
NIGHTLY_FACTOR = 10

# Test and suite -> the cases that its `slow_cases` or `nightly_cases` names and that were not collected.
UNKNOWN_CASES: pytest.StashKey[dict[tuple[str, str], set[str | None]]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="write golden files anew instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    """A shell that starts pytest in the background has it ignore SIGINT, and so would all that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput") and not config.option.xmlpath and config.option.durations is None:
        _send_what_is_shown(config)


def _send_what_is_shown(config: pytest.Config) -> None:
    """A worker of xdist sends five messages a test, which takes 2 ms of CPU time. Nobody looks at three of them."""
    (worker,) = (each for each in config.pluginmanager.get_plugins() if type(each).__name__ == "WorkerInteractor")
    send = worker.sendevent

    def send_some(name: str, **content: Any) -> None:
        report = content.get("data", {}) if name == "testreport" else {}
        if name != "logstart" and not (report.get("outcome") == "passed" and report["when"] != "call"):
            send(name, **content)

    worker.sendevent = send_some


def pytest_itemcollected(item: pytest.Item) -> None:
    """`slow_cases("a", "b")`: these cases are slow. `slow_cases(but=["c"])`: all cases but this one are.

    `nightly_cases` likewise.
    """
    case = item.callspec.id if hasattr(item, "callspec") else None  # pyright: ignore[reportAttributeAccessIssue]
    function = item.nodeid.partition("[")[0]
    for suite in ("slow", "nightly"):
        marker = item.get_closest_marker(f"{suite}_cases")
        if marker is None:
            continue
        but = marker.kwargs.get("but", [])
        named = [*marker.args, *but]
        is_one_form = bool(marker.args) != bool(but) and not marker.kwargs.keys() - {"but"} and isinstance(but, list)
        if not is_one_form or not all(isinstance(name, str) for name in named):
            raise pytest.UsageError(f'{item.nodeid}: allowed are {suite}_cases("a", "b") and {suite}_cases(but=["c"])')
        if (case in named) is ("but" not in marker.kwargs):
            item.add_marker(suite)
        unknown = item.config.stash.setdefault(UNKNOWN_CASES, {})
        unknown.setdefault((function, suite), set(named)).discard(case)
    if item.get_closest_marker("shows"):
        from tests.strategy_table import shown_by

        given = item.callspec.params if hasattr(item, "callspec") else {}  # pyright: ignore[reportAttributeAccessIssue]
        item.user_properties += shown_by(item.iter_markers("shows"), given)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PROFILE == "nightly":
        _search_longer(items)


def _refuse_unknown_cases(item: pytest.Item) -> None:
    """A name in `slow_cases` or `nightly_cases` that is no case fails the test, where all its cases were collected."""
    if any("::" in str(word) for word in item.config.args) or item.config.getoption("lf", False):
        return
    for suite in ("slow", "nightly"):
        if unknown := item.config.stash.get(UNKNOWN_CASES, {}).get((item.nodeid.partition("[")[0], suite)):
            pytest.fail(f"{suite}_cases names what is no case: {unknown}", pytrace=False)


def _search_longer(items: list[pytest.Item]) -> None:
    """A profile's number of examples holds only where a test names none."""
    for function in {getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None)) for item in items}:
        given = getattr(function, "_hypothesis_internal_use_settings", None)
        if given is not None:
            longer = hypothesis.settings(given, max_examples=NIGHTLY_FACTOR * given.max_examples)
            function._hypothesis_internal_use_settings = longer


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """All that is imported and collected stays: the garbage collector need not go over it, neither meanwhile (a third
    of the time) nor later, when in a process that was forked it would copy every page.

    What the tests leave is looked through as a whole a tenth as often as by default, which took a twentieth of their
    time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(700, 10, 100)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test draws depends on its name alone, and not on the tests before it. (No torch is imported for that.)"""
    _refuse_unknown_cases(item)
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if torch := sys.modules.get("torch"):
        # torch.manual_seed takes half a millisecond, and keeps a call for each device that is not there.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No setting of the developer's shell reaches a test, and what it imports of its own folder is forgotten: a file
    of another test may have the same name.

    Not by the test's own monkeypatch, which is undone in the order in which it was asked for: asked for here, it would
    be undone after all other fixtures, and bring back what they have set meanwhile.
    """
    settings = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("DRIVETRAIN_")}
    path = list(sys.path)
    _new_modules()
    yield
    sys.path[:] = path
    folder = f"{tmp_path_factory.getbasetemp()}{os.sep}"
    for name in _new_modules():
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(folder):
            del sys.modules[name]
    os.environ.update(settings)


_known: set[str] = set()
_seen: tuple[int, str] | None = None


def _new_modules() -> set[str]:
    """Names of modules that were imported since the last call.

    There are thousands, and most tests import none: as many as before, of which the same was the last, are the same.
    """
    global _known, _seen
    now = len(sys.modules), next(reversed(sys.modules))
    if now == _seen:
        return set()
    new, _known, _seen = sys.modules.keys() - _known, set(sys.modules), now
    return new


@pytest.fixture(autouse=True, scope="module")
def own_account() -> Iterator[None]:
    """No file of tests leaves the next one in its account or at its server."""
    before = _account()
    yield
    assert _account() == before


def _account() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
