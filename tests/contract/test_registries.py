"""What every registry can: run for each file of components/registries, against the place that the file of the same
name in tests/contract/registries offers for it.
"""

import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from drivetrain.components.errors import InputError
from drivetrain.components.registries import APPROVALS, Registry, kinds, open_registry

PLACES = Path(__file__).parent / "registries"


def content(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()


@pytest.fixture(params=kinds())
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind: str = request.param
    file = PLACES / f"{kind}.py"
    assert file.is_file(), f"add {file}: a function location(folder) -> the place of an empty {kind} registry"
    spec = importlib.util.spec_from_file_location(f"registry_place_{kind}", file)
    assert spec is not None and spec.loader is not None
    place = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(place)
    return f"{kind}:{place.location(tmp_path)}"


@pytest.fixture
def registry(url: str) -> Registry:
    return open_registry(url)


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    return str(caught.value)


def test_an_empty_registry_holds_nothing(registry: Registry) -> None:
    assert registry.groups() == [] and registry.events() == []
    assert "no group 'digits'" in refused(lambda: registry.versions("digits"))
    assert "no group 'digits'" in refused(lambda: registry.set_status("digits", 1, "Approved"))


def test_versions_count_up_in_their_group(registry: Registry) -> None:
    assert registry.register("digits", content(1), {}) == (1, True)
    assert registry.register("digits", content(2), {}) == (2, True)
    assert registry.register("text", content(1), {}) == (1, True)
    assert registry.register("digits", content(1), {}) == (1, False)
    assert [version.version for version in registry.versions("digits")] == [2, 1]
    assert [version.version for version in registry.versions("text")] == [1]


def test_a_version_keeps_what_it_was_registered_with(url: str) -> None:
    package = {"ModelPackageGroupName": "digits", "Deep": {"list": [1, 2.5, None, True, "é"]}}
    metrics = {"accuracy": 0.98, "rows": 360}
    made = open_registry(url).register(
        "digits", content(1), package, metrics=metrics, execution="run-1", approval="Approved"
    )
    version = open_registry(url).version("digits", 1)
    assert made == (1, True)
    assert (version.group, version.version, version.content_hash) == ("digits", 1, content(1))
    assert (version.package, version.metrics, version.execution) == (package, metrics, "run-1")
    assert (version.status, version.reason) == ("Approved", None)
    assert version.arn.endswith(":model-package/digits/1") and version.created_at == version.modified_at


def test_registering_again_changes_nothing(registry: Registry) -> None:
    registry.register("digits", content(1), {"a": 1}, metrics={"accuracy": 0.9}, execution="run-1")
    registry.set_status("digits", 1, "Rejected", reason="too slow")
    before = (registry.versions("digits"), registry.events())
    again = registry.register(
        "digits", content(1), {"a": 2}, metrics={"accuracy": 0.1}, execution="run-2", approval="Approved"
    )
    assert again == (1, False)
    assert (registry.versions("digits"), registry.events()) == before


def test_versions_are_found_by_number_latest_and_approved(registry: Registry) -> None:
    for n in range(1, 4):
        registry.register("digits", content(n), {})
    assert "no version of 'digits' is approved" in refused(lambda: registry.version("digits", "approved"))
    registry.set_status("digits", 1, "Approved")
    registry.set_status("digits", 2, "Approved")
    registry.set_status("digits", 3, "Rejected")
    found = {which: registry.version("digits", which).version for which in (1, "2", "latest", "approved")}
    assert found == {1: 1, "2": 2, "latest": 3, "approved": 2}
    assert registry.version("digits").version == 3
    for which in (0, 4, -1, "4", "newest", "", "1.0"):
        assert "Allowed: 1 to 3, latest, approved" in refused(lambda which=which: registry.version("digits", which))


def test_groups_by_name_with_their_newest_versions(registry: Registry) -> None:
    for group, n in (("text", 1), ("digits", 1), ("digits", 2)):
        registry.register(group, content(n), {})
    registry.set_status("digits", 1, "Approved")
    groups = registry.groups()
    assert [(g.name, g.num_versions, g.latest.version, g.approved) for g in groups] == [
        ("digits", 2, 2, 1),
        ("text", 1, 1, None),
    ]
    assert groups[0].latest == registry.version("digits")


def test_every_decision_is_an_event(registry: Registry) -> None:
    registry.register("digits", content(1), {})
    registry.register("text", content(1), {}, approval="Approved")
    registry.set_status("digits", 1, "Approved", reason="good on every slice", by="ada")
    registry.set_status("digits", 1, "Approved", reason="better on every slice")
    registry.set_status("digits", 1, "Rejected")
    events = registry.events()
    assert [(e.group, e.version, e.previous_status, e.status, e.updated_fields, e.reason, e.by) for e in events] == [
        ("digits", 1, None, "PendingManualApproval", (), None, None),
        ("text", 1, None, "Approved", (), None, None),
        ("digits", 1, "PendingManualApproval", "Approved", ("ModelApprovalStatus", "ApprovalDescription"),
         "good on every slice", "ada"),
        ("digits", 1, "Approved", "Approved", ("ApprovalDescription",), "better on every slice", None),
        ("digits", 1, "Approved", "Rejected", ("ModelApprovalStatus", "ApprovalDescription"), None, None),
    ]  # fmt: skip
    ids = [event.id for event in events]
    assert ids == sorted(set(ids))
    assert registry.events("digits") == [event for event in events if event.group == "digits"]
    assert registry.events(after=ids[2]) == events[3:]
    assert registry.events("text", after=ids[1]) == []
    version = registry.version("digits", 1)
    assert (version.status, version.reason) == ("Rejected", None) and version.modified_at == events[-1].at


def test_repeating_a_decision_is_no_event(registry: Registry) -> None:
    registry.register("digits", content(1), {})
    first = registry.set_status("digits", 1, "Approved", reason="good")
    assert registry.set_status("digits", 1, "Approved", reason="good") == first
    assert len(registry.events()) == 2


@pytest.mark.parametrize("status", APPROVALS)
def test_every_status_can_be_given_at_once_or_later(registry: Registry, status: str) -> None:
    registry.register("digits", content(1), {}, approval=status)
    registry.register("digits", content(2), {})
    registry.set_status("digits", 2, status)
    assert [version.status for version in registry.versions("digits")] == [status, status]


@pytest.mark.parametrize("name", ["a", "A-1", "a--b", "x" * 63])
def test_legal_group_names(registry: Registry, name: str) -> None:
    registry.register(name, content(1), {})
    assert [group.name for group in registry.groups()] == [name]


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "a_b", "a b", "a/b", "../a", "é", "x" * 64, "a\n", "a'; DROP TABLE x"]
)
def test_illegal_group_names_are_refused(registry: Registry, name: str) -> None:
    assert "is not a legal name" in refused(lambda: registry.register(name, content(1), {}))
    assert registry.groups() == []


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda r: r.register("digits", "abc", {}), "is not a SHA-256"),
        (lambda r: r.register("digits", content(2).upper(), {}), "is not a SHA-256"),
        (lambda r: r.register("digits", content(2), {}, approval="approved"), "Did you mean 'Approved'?"),
        (lambda r: r.register("digits", content(2), {}, metrics={"loss": float("nan")}), "metric 'loss' is nan"),
        (lambda r: r.register("digits", content(2), {}, metrics={"ok": True}), "metric 'ok' is True"),
        (lambda r: r.register("digits", content(2), {}, metrics={"loss": "0.1"}), "Allowed: a finite number"),
        (lambda r: r.register("digits", content(2), {"x": object()}), "cannot be written as JSON"),
        (lambda r: r.register("digits", content(2), {"x": float("inf")}), "cannot be written as JSON"),
        (lambda r: r.set_status("digits", 1, "Aproved"), "Did you mean 'Approved'?"),
        (lambda r: r.set_status("digits", 2, "Approved"), "has no version '2'"),
        (lambda r: r.set_status("digit", 1, "Approved"), "Did you mean 'digits'?"),
        (lambda r: r.version("digit"), "Did you mean 'digits'?"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(registry: Registry, call: Callable[[Any], Any], said: str) -> None:
    registry.register("digits", content(1), {})
    before = (registry.groups(), registry.events())
    assert said in refused(lambda: call(registry))
    assert (registry.groups(), registry.events()) == before


REGISTER_WHEN_TOLD = """
import sys
from drivetrain.components.registries import open_registry
registry = open_registry(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for content in sys.argv[2:]:
    print(*registry.register("digits", content, {}), flush=True)
"""


def test_processes_that_register_the_same_at_once_make_one_version_each(url: str) -> None:
    contents = [content(n) for n in range(5)]
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", REGISTER_WHEN_TOLD, url, *contents],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for program in programs:
        assert program.stdout is not None and program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    answers = [program.communicate()[0].splitlines() for program in programs]
    assert [program.returncode for program in programs] == [0, 0, 0]
    for n, given in enumerate(zip(*answers, strict=True), start=1):
        assert sorted(given) == [f"{n} False", f"{n} False", f"{n} True"]
    registry = open_registry(url)
    assert [version.content_hash for version in registry.versions("digits")] == contents[::-1]
    assert len(registry.events()) == 5


def test_threads_may_share_a_registry(registry: Registry) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: registry.register("digits", content(n % 8), {}), range(24)))
    assert sorted(version for version, created in made if created) == list(range(1, 9))
    assert {version.content_hash for version in registry.versions("digits")} == {content(n) for n in range(8)}
