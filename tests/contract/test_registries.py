"""What every registry can: run for each file of drivetrain/registry/backends, against the place that the file of the
same name in tests/contract/registries offers for it:

    place(folder)            a context: the location of an empty registry, and the environment that finds it
    behind(location, plan)   a context: the same registry behind a proxy that fails as planned; where there is a server
    unreachable(location)    a location where no registry can answer, and its environment
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.anchor import best_approved, keep_best
from drivetrain.registry.approving import make_champion
from drivetrain.registry.comparisons import count_comparison
from drivetrain.registry.model_card import as_package_card, model_card
from drivetrain.registry.package_mapping import record_of, request_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import (
    APPROVALS,
    Registry,
    RegistryError,
    checked_tag,
    kinds,
    open_registry,
)

PLACES = Path(__file__).parent / "registries"


def content(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()


def offers(kind: str) -> ModuleType:
    file = PLACES / f"{kind}.py"
    assert file.is_file(), f"add {file}: a context place(folder) -> the place of an empty {kind} registry"
    spec = importlib.util.spec_from_file_location(f"registry_place_{kind}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SERVED = [kind for kind in kinds() if hasattr(offers(kind), "behind")]


class Place(NamedTuple):
    kind: str
    location: str
    module: ModuleType

    @property
    def url(self) -> str:
        return f"{self.kind}:{self.location}"

    @contextmanager
    def behind(self, plan: Callable[[str, str], str]) -> Generator[Registry]:
        with self.module.behind(self.location, plan) as (location, environment), environ(environment):
            yield open_registry(f"{self.kind}:{location}")

    @contextmanager
    def unreachable(self) -> Generator[Registry]:
        location, environment = self.module.unreachable(self.location)
        with environ(environment):
            yield open_registry(f"{self.kind}:{location}")


def environ(more: dict[str, str]) -> contextlib.AbstractContextManager[Any]:
    return mock.patch.dict(os.environ, more)


# (Importing MLflow takes as long as all the cases of another registry.)
@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.slow if kind == "mlflow" else []) for kind in kinds()])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    module = offers(request.param)
    with module.place(tmp_path) as (location, environment), environ(environment):
        yield Place(request.param, location, module)


@pytest.fixture
def url(place: Place) -> str:
    return place.url


@pytest.fixture
def registry(url: str) -> Registry:
    return open_registry(url)


def happened(registry: Registry) -> list[Any]:
    """What is told of changes, where that is kept."""
    return list(registry.events()) if registry.keeps_history else []


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    return str(caught.value)


def test_an_empty_registry_holds_nothing(registry: Registry) -> None:
    assert registry.groups() == [] and happened(registry) == []
    assert registry.champion("digits") is None and registry.find("digits", content(1)) is None
    assert "no group 'digits'" in refused(lambda: registry.versions("digits"))
    assert "no group 'digits'" in refused(lambda: registry.set_status("digits", 1, "Approved"))


def test_versions_count_up_in_their_group(registry: Registry) -> None:
    assert registry.register("digits", content(1), ModelRecord()) == (1, True)
    assert registry.register("digits", content(2), ModelRecord()) == (2, True)
    assert registry.register("text", content(1), ModelRecord()) == (1, True)
    assert registry.register("digits", content(1), ModelRecord()) == (1, False)
    assert [version.version for version in registry.versions("digits")] == [2, 1]
    assert [version.version for version in registry.versions("text")] == [1]


CARD = {"model_overview": {"model_creator": "ada"}, "intended_uses": {"purpose_of_model": "reading digits"}}
PACKAGE = {
    "ModelPackageGroupName": "digits",
    "ModelPackageDescription": "Reads digits – with é.",
    "SourceUri": "s3://models/digits",
    "InferenceSpecification": {
        "Containers": [{"Image": "repository/image:1", "ModelDataUrl": "s3://models/digits/model.tar.gz"}],
        "SupportedContentTypes": ["application/json"],
    },
    "CustomerMetadataProperties": {"drivetrain-lineage-data": content("data"), "owner": "ada"},
    "ModelCard": as_package_card(CARD),
}


def test_a_version_keeps_its_registered_facts(url: str) -> None:
    metrics = {"accuracy": 0.98, "rows": 360, "loss": 1e-300, "third": 1 / 3}
    made = open_registry(url).register(
        "digits", content(1), record_of(PACKAGE), metrics=metrics, execution="run-1", approval="Approved"
    )
    version = open_registry(url).version("digits", 1)
    assert made == (1, True)
    assert (version.group, version.version, version.content_hash) == ("digits", 1, content(1))
    assert (version.metrics, version.execution) == (metrics, "run-1")
    assert (version.status, version.reason) == ("Approved", None)
    assert version.arn and version.created_at == version.modified_at
    assert version.artifact == "s3://models/digits/model.tar.gz"
    assert version.lineage == {"data": content("data"), "execution": "run-1"} and version.decision is None
    assert version.card is not None and CARD.items() <= version.card.items()
    for name in set(PACKAGE) - {"ModelCard", "CustomerMetadataProperties", "ModelPackageGroupName"}:
        assert request_of(version.record)[name] == PACKAGE[name], name
    assert (
        PACKAGE["CustomerMetadataProperties"].items()
        <= request_of(version.record)["CustomerMetadataProperties"].items()
    )


def test_a_decision_record_is_stored_completely(url: str) -> None:
    decision = {
        "verdict": "register",
        "why": ["better on every slice"] * 200,
        "difference": {"value": 0.1, "low": 0.05},
    }
    package = {"ModelCard": as_package_card(model_card(decision=decision, numbers={"accuracy": 0.5}))}
    open_registry(url).register("digits", content(1), record_of(package), metrics={"accuracy": 0.5})
    version = open_registry(url).version("digits")
    assert version.decision == decision and version.metrics == {"accuracy": 0.5}


def test_the_decision_of_a_package_is_read_without_a_card(registry: Registry) -> None:
    said = {"drivetrain-decision-verdict": "register", "drivetrain-decision-metric": "accuracy"}
    registry.register("digits", content(1), record_of({"CustomerMetadataProperties": said}))
    assert registry.version("digits").decision == {"verdict": "register", "metric": "accuracy"}


def test_the_champion_is_the_newest_approved_version(registry: Registry) -> None:
    for n in range(1, 4):
        registry.register("digits", content(n), ModelRecord())
    registry.register("text", content(9), ModelRecord(), approval="Approved")
    assert registry.champion("digits") is None
    for n in (2, 1):
        registry.set_status("digits", n, "Approved")
    champion = registry.champion("digits")
    assert champion == registry.version("digits", 2) == registry.version("digits", "approved")
    registry.set_status("digits", 2, "Rejected")
    champion = registry.champion("digits")
    assert champion is not None and champion.version == 1
    registry.set_status("digits", 3, "Approved")
    assert [each.version for each in registry.approved("digits")] == [3, 1]
    assert registry.approved("digits")[1] == champion and registry.approved("letters") == []


def test_a_content_is_found_in_its_group(registry: Registry) -> None:
    for n in range(1, 4):
        registry.register("digits", content(n), ModelRecord())
    registry.register("text", content(9), ModelRecord())
    assert registry.find("digits", content(2)) == registry.version("digits", 2)
    assert registry.find("digits", content(9)) is None
    assert "is not a SHA-256" in refused(lambda: registry.find("digits", "abc"))


def test_registering_again_changes_nothing(registry: Registry) -> None:
    registry.register(
        "digits", content(1), record_of({"SourceUri": "s3://a/b"}), metrics={"accuracy": 0.9}, execution="run-1"
    )
    registry.set_status("digits", 1, "Rejected", reason="too slow")
    before = (registry.versions("digits"), happened(registry))
    again = registry.register(
        "digits",
        content(1),
        record_of({"SourceUri": "s3://a/c"}),
        metrics={"accuracy": 0.1},
        execution="run-2",
        approval="Approved",
    )
    assert again == (1, False)
    assert (registry.versions("digits"), happened(registry)) == before


def test_versions_are_found_by_number_latest_and_approved(registry: Registry) -> None:
    for n in range(1, 4):
        registry.register("digits", content(n), ModelRecord())
    registry.set_status("digits", 3, "Rejected")
    assert "models approve digits 2" in refused(lambda: registry.version("digits", "approved"))
    registry.set_status("digits", 2, "Rejected")
    registry.set_status("digits", 1, "Rejected")
    assert "approved, and none waits" in refused(lambda: registry.version("digits", "approved"))
    registry.set_status("digits", 1, "Approved")
    registry.set_status("digits", 2, "Approved")
    found = {which: registry.version("digits", which).version for which in (1, "2", "latest", "approved")}
    assert found == {1: 1, "2": 2, "latest": 3, "approved": 2}
    assert registry.version("digits").version == 3
    for which in (0, 4, -1, "4", "newest", "", "1.0"):
        assert "Allowed: 1 to 3, latest, approved" in refused(lambda which=which: registry.version("digits", which))


def test_groups_by_name_with_their_newest_versions(registry: Registry) -> None:
    for group, n in (("text", 1), ("digits", 1), ("digits", 2)):
        registry.register(group, content(n), ModelRecord())
    registry.set_status("digits", 1, "Approved")
    groups = registry.groups()
    assert [(g.name, g.num_versions, g.latest.version, g.approved) for g in groups] == [
        ("digits", 2, 2, 1),
        ("text", 1, 1, None),
    ]
    assert groups[0].latest == registry.version("digits")


def test_a_decision_is_kept_with_its_reason(registry: Registry) -> None:
    registry.register(
        "digits", content(1), record_of({"CustomerMetadataProperties": {"owner": "ada"}}), metrics={"accuracy": 0.9}
    )
    before = registry.version("digits")
    made = registry.set_status("digits", 1, "Approved", reason="good on every slice", by="ada")
    assert made == registry.version("digits") and (made.status, made.reason) == ("Approved", "good on every slice")
    assert (made.content_hash, made.metrics, request_of(made.record)) == (
        before.content_hash,
        before.metrics,
        request_of(before.record),
    )
    assert made.modified_at >= made.created_at == before.created_at
    made = registry.set_status("digits", 1, "Rejected")
    assert made == registry.version("digits") and (made.status, made.reason) == ("Rejected", None)
    assert registry.register("digits", content(1), ModelRecord()) == (1, False)


def test_a_registry_without_history_names_where_changes_are_recorded(registry: Registry) -> None:
    if not registry.keeps_history:
        assert re.search(r"keeps no (readable )?history", refused(registry.events))


def test_every_decision_is_an_event(registry: Registry) -> None:
    if not registry.keeps_history:
        pytest.skip("keeps no history")
    registry.register("digits", content(1), ModelRecord())
    registry.register("text", content(1), ModelRecord(), approval="Approved")
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
    registry.register("digits", content(1), ModelRecord())
    first = registry.set_status("digits", 1, "Approved", reason="good")
    assert registry.set_status("digits", 1, "Approved", reason="good") == first
    assert len(happened(registry)) == (2 if registry.keeps_history else 0)


def test_every_status_can_be_set_at_registration_or_later(registry: Registry) -> None:
    for n, status in enumerate(APPROVALS):
        registry.register(f"digits-{n}", content(1), ModelRecord(), approval=status)
        registry.register(f"digits-{n}", content(2), ModelRecord())
        registry.set_status(f"digits-{n}", 2, status)
        assert [version.status for version in registry.versions(f"digits-{n}")] == [status, status]


LEGAL = ["A-1", "a", "a--b", "x" * 63]
ILLEGAL = ["", "-a", "a-", "a_b", "a b", "a/b", "../a", "é", "x" * 64, "a\n", "a'; DROP TABLE x"]


def test_legal_and_illegal_group_names(registry: Registry) -> None:
    for name in ILLEGAL:
        assert "is not a legal name" in refused(lambda name=name: registry.register(name, content(1), ModelRecord()))
    assert registry.groups() == []
    for name in LEGAL:
        registry.register(name, content(1), ModelRecord())
    assert [group.name for group in registry.groups()] == LEGAL


BAD: list[tuple[Callable[[Registry], Any], str]] = [
    (lambda r: r.register("digits", "abc", ModelRecord()), "is not a SHA-256"),
    (lambda r: r.register("digits", content(2).upper(), ModelRecord()), "is not a SHA-256"),
    (lambda r: r.register("digits", content(2), ModelRecord(), approval="approved"), "Did you mean 'Approved'?"),
    (lambda r: r.register("digits", content(2), ModelRecord(), metrics={"loss": float("nan")}), "metric 'loss' is nan"),
    (lambda r: r.register("digits", content(2), ModelRecord(), metrics={"ok": True}), "metric 'ok' is True"),
    (lambda r: r.register("digits", content(2), ModelRecord(), metrics={"loss": 10**400}), "Allowed: a finite number"),
    (lambda r: r.register("digits", content(2), ModelRecord(), metrics={"loss": 10**5000}), "Allowed: a finite number"),
    (lambda r: r.register("digits", content(2), ModelRecord(), metrics={"loss": "0.1"}), "Allowed: a finite number"),  # type: ignore[dict-item]
    (lambda r: r.register("digits", content(2), record_of({"x": object()})), "cannot be written as JSON"),
    (lambda r: r.register("digits", content(2), record_of({"x": float("inf")})), "cannot be written as JSON"),
    (lambda r: r.set_status("digits", 1, "Aproved"), "Did you mean 'Approved'?"),
    (lambda r: r.set_status("digits", 2, "Approved"), "has no version '2'"),
    (lambda r: r.set_status("digit", 1, "Approved"), "Did you mean 'digits'?"),
    (lambda r: r.version("digit"), "Did you mean 'digits'?"),
]


def test_bad_input_is_refused_and_changes_nothing(registry: Registry) -> None:
    registry.register("digits", content(1), ModelRecord())
    before = (registry.groups(), happened(registry))
    for call, said in BAD:
        assert said in refused(lambda call=call: call(registry))
    assert (registry.groups(), happened(registry)) == before


REGISTER_WHEN_TOLD = """
import sys
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import open_registry
registry = open_registry(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for content in sys.argv[2:]:
    print(*registry.register("digits", content, ModelRecord()), flush=True)
"""


@pytest.mark.parametrize(
    "place",
    [kind if kind == "local" else pytest.param(kind, marks=pytest.mark.slow) for kind in kinds()],
    indirect=True,
)
def test_processes_that_register_the_same_at_once_make_one_version_each(url: str) -> None:
    contents = [content(n) for n in range(5)]
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", REGISTER_WHEN_TOLD, url, *contents],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for program in programs:
        assert program.stdout is not None and program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    answers = [program.communicate()[0].splitlines() for program in programs]
    assert [program.returncode for program in programs] == [0, 0]
    numbers: list[int] = []
    for given in zip(*answers, strict=True):
        # A server need not tell apart two that ask for the same at the same moment; and where one is taken back, its
        # number is not used again.
        [number] = {int(answer.split()[0]) for answer in given}
        assert f"{number} True" in given
        numbers.append(number)
    registry = open_registry(url)
    assert [version.version for version in registry.versions("digits")] == numbers[::-1] == sorted(numbers)[::-1]
    assert [version.content_hash for version in registry.versions("digits")] == contents[::-1]
    assert len(happened(registry)) == (5 if registry.keeps_history else 0)


@pytest.mark.slow_cases("sagemaker")
def test_threads_may_share_a_registry(registry: Registry) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: registry.register("digits", content(n % 8), ModelRecord()), range(24)))
    versions = [version.version for version in registry.versions("digits")]
    assert {version for version, created in made if created} == {version for version, _ in made} == set(versions)
    assert len(versions) == 8
    assert {version.content_hash for version in registry.versions("digits")} == {content(n) for n in range(8)}


@pytest.mark.slow
@pytest.mark.nightly_cases("mlflow", "sagemaker")
def test_many_versions_are_listed_and_found(registry: Registry) -> None:
    """More than a page of any list."""
    for n in range(1, 121):
        registry.register("digits", content(n), ModelRecord())
    assert [version.version for version in registry.versions("digits")] == list(range(120, 0, -1))
    found = registry.find("digits", content(1))
    assert found is not None and found.version == 1
    assert registry.register("digits", content(2), ModelRecord()) == (2, False)


def one_error(call: Callable[[], Any]) -> str:
    with pytest.raises(RegistryError) as caught:
        call()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    return str(caught.value)


ASKED: dict[str, Callable[[Registry], Any]] = {
    "register": lambda registry: registry.register("digits", content(2), ModelRecord(), metrics={"accuracy": 1.0}),
    "champion": lambda registry: registry.champion("digits"),
    "find": lambda registry: registry.find("digits", content(2)),
    "versions": lambda registry: registry.versions("digits"),
    "version": lambda registry: registry.version("digits", "approved"),
    "groups": lambda registry: registry.groups(),
    "set_status": lambda registry: registry.set_status("digits", 1, "Rejected"),
    "tags": lambda registry: registry.tags("digits"),
    "change_tag": lambda registry: registry.change_tag("digits", "name", str.upper),
}


def test_a_group_keeps_tags(registry: Registry) -> None:
    assert registry.tags("digits") == {}
    with pytest.raises(InputError, match="no group 'digits'"):
        registry.change_tag("digits", "season", lambda _: "summer")
    registry.register("digits", content(1), ModelRecord())
    registry.register("letters", content(1), ModelRecord())
    registry.change_tag("digits", "season", lambda _: "summer")
    registry.change_tag("digits", "owner", lambda _: "ada@example.com a=1 +-/:._" + "x" * 200)
    registry.change_tag("digits", "season", lambda _: "winter")
    registry.register("digits", content(2), ModelRecord())
    assert registry.tags("digits") == {"season": "winter", "owner": "ada@example.com a=1 +-/:._" + "x" * 200}
    assert registry.tags("letters") == {}
    for name, text in (("", "text"), ("a b", "text"), ("name", "x" * 257), ("name", "a,b"), ("name", "a\nb")):
        with pytest.raises(InputError, match="cannot be kept"):
            registry.change_tag("digits", name, lambda _, text=text: text)


def test_comparisons_are_counted_by_test_set(registry: Registry) -> None:
    registry.register("digits", content(1), ModelRecord(), approval="Approved")
    first, second = content("first test set"), content("second test set")

    def count(test_set: str, candidate: object) -> int:
        return count_comparison(registry, "digits", test_set, content(candidate))

    assert [count(first, n) for n in range(3)] == [1, 2, 3]
    assert count(first, 2) == 3  # the step that is repeated
    assert count(second, 2) == 1
    assert [count(first, 0), count(first, 3), count(second, 3), count(first, 1)] == [3, 4, 2, 4], "the same, later"


def test_the_best_approved_version_is_kept(registry: Registry) -> None:
    for n in range(1, 4):
        registry.register("digits", content(n), ModelRecord(), approval="Approved")
    assert best_approved(registry, "digits", "accuracy") is None
    keep_best(registry, "digits", "accuracy", 1, None)
    keep_best(registry, "digits", "accuracy", 3, 1)
    best = best_approved(registry, "digits", "accuracy")
    assert best == registry.version("digits", 3)
    registry.set_status("digits", 3, "Rejected")
    best = best_approved(registry, "digits", "accuracy")
    assert best is not None and best.version == 1
    assert best_approved(registry, "digits", "loss") is None


def test_the_test_sets_used_last_are_kept(tmp_path: Path) -> None:
    registry = open_registry(f"local:{tmp_path / 'models.db'}")
    registry.register("digits", content(1), ModelRecord(), approval="Approved")
    for night in range(1, 13):  # one that stays, and a new one each night
        assert count_comparison(registry, "digits", content("stays"), content(night)) == night
        assert count_comparison(registry, "digits", content(f"night {night}"), content(night)) == 1
    assert count_comparison(registry, "digits", content("night 12"), content(13)) == 2
    assert count_comparison(registry, "digits", content("night 2"), content(14)) == 1  # forgotten


@pytest.mark.parametrize(
    "found", ["", " ", "written by someone else", "x bad!name=3 ünï=3", "x " + "9" * 250 + "=9", "x a=9999999999"]
)
def test_an_invalid_count_tag_is_rewritten(found: str) -> None:
    class Kept:
        def change_tag(self, group: str, name: str, change: Callable[[str], str]) -> None:
            self.text = change(found)
            checked_tag(name, self.text)

    kept: Any = Kept()
    assert count_comparison(kept, "digits", content("test"), content("model")) == 1
    assert re.fullmatch(rf"@[A-Za-z0-9+/]{{4}} {content('test')[:12]}=1", kept.text)


def test_comparisons_at_the_same_moment_are_all_counted_here(tmp_path: Path) -> None:
    registry = open_registry(f"local:{tmp_path / 'models.db'}")
    registry.register("digits", content(1), ModelRecord(), approval="Approved")

    def count(number: int) -> int:
        return count_comparison(registry, "digits", content("test"), content(number))

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(count, range(40))) == list(range(1, 41))


def test_an_older_version_can_be_the_champion_again(registry: Registry) -> None:
    for n in range(1, 5):
        registry.register("digits", content(n), ModelRecord())
    for n in (1, 2, 4):
        registry.set_status("digits", n, "Approved", reason=f"good {n}")
    found, *rejected = make_champion(registry, "digits", 1, reason="worse at night", by="ada")
    assert (found.version, found.status, found.reason) == (1, "Approved", "worse at night")
    assert [(each.version, each.status) for each in rejected] == [(4, "Rejected"), (2, "Rejected")]
    assert {each.reason for each in rejected} == {"version 1 is the champion: worse at night"}
    assert registry.champion("digits") == found
    assert registry.version("digits", 3).status == "PendingManualApproval"
    assert make_champion(registry, "digits", 1, reason="worse at night") == [found]  # and again changes nothing
    (found,) = make_champion(registry, "digits", 4)
    assert registry.champion("digits") == found


@pytest.mark.parametrize("killed_after", range(4))
def test_an_interrupted_rollback_leaves_one_champion_or_the_other(
    killed_after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = open_registry(f"local:{tmp_path / 'models.db'}")
    for n in range(1, 5):
        registry.register("digits", content(n), ModelRecord(), approval="Approved")
    left, decide = killed_after, registry.set_status

    def set_status(*arguments: Any, **more: Any) -> Any:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        return decide(*arguments, **more)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(registry, "set_status", set_status)
        make_champion(registry, "digits", 1)
    champion = registry.champion("digits")
    assert champion is not None and champion.version == 4
    make_champion(registry, "digits", 1)
    champion = registry.champion("digits")
    assert champion is not None and champion.version == 1


@pytest.mark.slow_cases("sagemaker")
def test_an_unreachable_registry_is_one_error_and_never_empty(place: Place) -> None:
    registry = open_registry(place.url)
    registry.register("digits", content(1), ModelRecord(), approval="Approved")
    with place.unreachable() as nowhere:
        for call in ASKED.values():
            one_error(lambda call=call: call(nowhere))
    assert [(version.version, version.status) for version in registry.versions("digits")] == [(1, "Approved")]


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    module = offers(request.param)
    with module.place(tmp_path) as (location, environment), environ(environment):
        yield Place(request.param, location, module)


# In words that a registry has for what is not there, which is not what these say.
FAILURES = ["403 the role does not exist", "500 could not find it: not found", "404 not found", "page 404", "foreign"]


@pytest.mark.slow_cases(
    but=[
        "kubeflow-403 the role does not exist",
        "kubeflow-500 could not find it: not found",
        "kubeflow-404 not found",
        "kubeflow-page 404",
        "kubeflow-foreign",
        "sagemaker-403 the role does not exist",
    ]
)
@pytest.mark.parametrize(
    ("served", "status"),
    [(kind, status) for kind in SERVED for status in FAILURES],
    indirect=["served"],
)
def test_a_failing_server_is_one_error_without_partial_registration(served: Place, status: str) -> None:
    registry = open_registry(served.url)
    registry.register("digits", content(1), ModelRecord(), approval="Approved")
    requests: list[str] = []

    def refuse(method: str, path: str) -> str:
        requests.append(path)
        return status

    with served.behind(refuse) as failing:
        for asked, call in ASKED.items():
            requests.clear()
            said = one_error(lambda call=call: call(failing))
            assert ("refuse" in said) == status.startswith("403"), f"{asked}: {said}"
            assert len(requests) <= 6, f"{asked} was tried {len(requests)} times"
    assert [(version.version, version.status) for version in registry.versions("digits")] == [(1, "Approved")]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["500", "lost"])
@pytest.mark.parametrize("served", SERVED, indirect=True)
def test_a_registration_failed_at_any_request_is_completed_by_the_next(served: Place, fault: str) -> None:
    """`lost` carries the request out, and its answer does not arrive: the client must not make a second one."""
    registry = open_registry(served.url)
    for at in range(1, 30):
        count = 0

        def fail_from(method: str, path: str, at: int = at) -> str:
            nonlocal count
            count += 1
            return fault if count == at or (count > at and fault == "500") else ""

        group = f"digits-{at}"
        with served.behind(fail_from) as failing, contextlib.suppress(RegistryError):
            failing.register(group, content(at), record_of(PACKAGE), metrics={"accuracy": 0.5})
        assert registry.register(group, content(at), record_of(PACKAGE), metrics={"accuracy": 0.5})[0] == 1
        versions = registry.versions(group)
        assert [(each.version, each.content_hash, each.metrics) for each in versions] == [
            (1, content(at), {"accuracy": 0.5})
        ]
        if count < at:
            return
    raise AssertionError("a registration takes 30 requests")
