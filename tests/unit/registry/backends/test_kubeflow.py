import base64
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.registry.approving import make_champion
from drivetrain.registry.backends import _kubeflow_rest
from drivetrain.registry.backends._tags import warn_once
from drivetrain.registry.backends.kubeflow import KubeflowRegistry
from drivetrain.registry.comparisons import count_comparison
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import AbsentError, RegistryError
from tests.fixtures.kubeflow_server import Database, Store, kubeflow_server

CONTENT = hashlib.sha256(b"model").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()
PACKAGE = {"SourceUri": "s3://models/digits"}


@pytest.fixture
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[KubeflowRegistry, Store]]:
    monkeypatch.setattr(_kubeflow_rest, "FIRST_PAUSE", 0.001)
    warn_once.cache_clear()
    database: Database = getattr(request, "param", "mysql")
    with kubeflow_server(database) as (address, store):
        yield KubeflowRegistry(f"{address}/"), store


both = pytest.mark.parametrize("served", ["mysql", "postgresql"], indirect=True)


def content(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()


def text(value: str) -> dict[str, str]:
    return {"metadataType": "MetadataStringValue", "string_value": value}


def only(store: Store, kind: str) -> dict[str, Any]:
    [resource] = store.kinds[kind].values()
    return resource


def edited(store: Store, **properties: Any) -> None:
    """As somebody does it in the pages, where each property that is a text can be changed."""
    version = only(store, "versions")
    store.change("versions", version["id"], {"customProperties": {**version["customProperties"], **properties}})


def archived(store: Store, kind: str) -> None:
    store.change(kind, only(store, kind)["id"], {"state": "ARCHIVED"})


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    return str(caught.value)


def test_other_tools_see_the_documented_fields_of_a_version(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    package = {**PACKAGE, "ModelPackageDescription": "reads digits"}
    registry.register("digits", CONTENT, record_of(package), metrics={"accuracy": 0.5})
    registry.register("digits", CONTENT, record_of(package), metrics={"accuracy": 0.5})
    version, artifact = only(store, "versions"), only(store, "artifacts")
    assert (version["name"], version["externalId"], version["description"]) == (
        "1",
        f"digits/{CONTENT}",
        "reads digits",
    )
    assert version["customProperties"]["accuracy"] == {"metadataType": "MetadataDoubleValue", "double_value": 0.5}
    # The official client's get_model_artifact(name, version) looks for the model's name.
    assert (artifact["name"], artifact["uri"]) == ("digits", "s3://models/digits")
    assert store.parents["artifacts"][artifact["id"]] == version["id"]


def test_an_artifact_missing_after_a_kill_is_created_by_the_next_call(
    served: tuple[KubeflowRegistry, Store],
) -> None:
    registry, store = served
    registry.register("digits", CONTENT, record_of(PACKAGE))
    store.kinds["artifacts"].clear()
    assert registry.register("digits", CONTENT, record_of(PACKAGE)) == (1, False)
    assert only(store, "artifacts")["uri"] == "s3://models/digits"


def test_an_artifact_of_an_earlier_release_is_left_as_it_is(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord())
    version = only(store, "versions")["id"]
    given = {"artifactType": "model-artifact", "name": "digits-1", "uri": "s3://models/digits", "state": "LIVE"}
    store.make("artifacts", given, version)
    assert registry.register("digits", CONTENT, record_of(PACKAGE)) == (1, False)
    assert only(store, "artifacts")["name"] == "digits-1"


def test_a_number_taken_by_another_writer_is_skipped(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord())
    make = store.make
    others = [content(n) for n in range(3)]
    seen = iter(others[1:])

    def first_another(kind: str, given: dict[str, Any], parent: str = "") -> dict[str, Any]:
        if kind == "versions" and (other := next(seen, None)) is not None:
            make(kind, {**given, "externalId": f"digits/{other}", "customProperties": {}}, parent)
        return make(kind, given, parent)

    store.make = first_another  # type: ignore[method-assign]
    assert registry.register("digits", others[0], ModelRecord()) == (4, True)


def test_equal_content_registered_at_once_is_one_version(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    make, made = store.make, list[str]()

    def first_another(kind: str, given: dict[str, Any], parent: str = "") -> dict[str, Any]:
        if kind == "versions" and not made:
            made.append(make(kind, given, parent)["id"])
        return make(kind, given, parent)

    store.make = first_another  # type: ignore[method-assign]
    assert registry.register("digits", CONTENT, ModelRecord()) == (1, False)
    assert [only(store, "versions")["id"]] == made


@both
def test_registering_archived_content_fails_at_once(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    registry.register("digits", CONTENT, record_of(PACKAGE), approval="Approved")
    archived(store, "versions")
    store.requests.clear()
    said = refused(lambda: registry.register("digits", CONTENT, record_of(PACKAGE)))
    assert "is version 1 of 'digits', which is archived" in said and "Restore that version" in said
    assert len(store.requests) == 2
    assert registry.champion("digits") is None and registry.find("digits", CONTENT) is None
    assert "version 1 of 'digits' is archived" in refused(lambda: registry.set_status("digits", 1, "Approved"))
    assert registry.register("digits", OTHER, ModelRecord()) == (2, True)
    first = next(each for each in store.kinds["versions"].values() if each["name"] == "1")
    store.change("versions", first["id"], {"state": "LIVE"})
    assert registry.register("digits", CONTENT, record_of(PACKAGE)) == (1, False)
    champion = registry.champion("digits")
    assert champion is not None and champion.version == 1


def test_a_group_that_was_archived_is_read_with_a_warning_and_takes_nothing_new(
    served: tuple[KubeflowRegistry, Store], capsys: pytest.CaptureFixture[str]
) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord())
    archived(store, "models")
    said = "group 'digits' is archived at "
    assert said in refused(lambda: registry.register("digits", OTHER, ModelRecord()))
    assert [group.name for group in registry.groups()] == ["digits"] and len(registry.versions("digits")) == 1
    assert capsys.readouterr().err.count(f"warning: {said}") == 1


THOUSAND = 1_001


def with_a_thousand(registry: KubeflowRegistry, store: Store) -> None:
    """Versions of some 11 kB, of which a few are approved, and other groups."""
    registry.register("digits", content(1), ModelRecord(description="x" * 9_000), metrics={"accuracy": 0.5})
    registry.register("letters", content(1), ModelRecord())
    first = store.kinds["versions"]["2"]
    for n in range(2, THOUSAND + 1):
        decision = text(json.dumps({"status": "Approved" if n % 100 == 7 else "Rejected", "at": 1.0}))
        given = {**first["customProperties"], "drivetrain.approval": decision}
        given["drivetrain.content_hash"] = text(content(n))
        made = {"name": str(n), "externalId": f"digits/{content(n)}", "customProperties": given, "id": str(n + 10)}
        store.kinds["versions"][made["id"]] = {**first, **made}  # as `make`, which compares it with all others
        store.parents["versions"][made["id"]] = "1"
    store.ids["context"] = itertools.count(THOUSAND + 11)


# What is asked, the most requests, and the most versions whose bytes come with the answers.
QUESTIONS: dict[str, tuple[Callable[[KubeflowRegistry], Any], int, int]] = {
    "champion": (lambda registry: registry.champion("digits"), 2, 1),
    "latest": (lambda registry: registry.version("digits"), 2, 1),
    "approved": (lambda registry: registry.version("digits", "approved"), 2, 1),
    "number": (lambda registry: registry.version("digits", 500), 2, 1),
    "find": (lambda registry: registry.find("digits", content(3)), 2, 1),
    "find none": (lambda registry: registry.find("digits", content("none")), 2, 0),
    "register known": (lambda registry: registry.register("digits", content(3), ModelRecord()), 2, 1),
    "register new": (lambda registry: registry.register("digits", content("new"), record_of(PACKAGE)), 6, 2),
    "set_status": (lambda registry: registry.set_status("digits", 500, "Approved"), 3, 2),
    "comparison": (lambda registry: count_comparison(registry, "digits", content("test"), content("new")), 4, 1),
    # The version with its group, who approves, the change; those that are approved, and three for each newer one.
    "rollback": (lambda registry: make_champion(registry, "digits", 500), 2 + 4 + 3 + 2 + 5 * 3, 2 + 2 + 11 + 5 * 2),
}


def test_queries_never_read_all_versions_of_a_group(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    with_a_thousand(registry, store)
    size = len(json.dumps(store.kinds["versions"]["2"])) + 300
    assert size > 9_000
    for name, (ask, requests, versions) in QUESTIONS.items():
        store.requests.clear()
        ask(registry)
        asked = [path for _, path, _ in store.requests]
        assert len(asked) <= requests, f"{name}: {asked}"
        assert sum(read for _, _, read in store.requests) <= versions * size + 5_000, name
    champion = registry.champion("digits")
    assert champion is not None and champion.version == 500
    assert registry.version("digits").content_hash == content("new")


@both
def test_the_champion_is_found_among_rejected_archived_and_foreign_versions(
    served: tuple[KubeflowRegistry, Store],
) -> None:
    registry, store = served
    for n in range(1, 6):
        registry.register("digits", content(n), ModelRecord(), approval="Approved")
    registry.set_status("digits", 5, "Rejected", reason='"status": "Approved"')
    registry.set_status("digits", 4, "PendingManualApproval")
    third = next(each for each in store.kinds["versions"].values() if each["name"] == "3")
    store.change("versions", third["id"], {"state": "ARCHIVED"})
    foreign = {"name": "v9", "customProperties": {"drivetrain.approval": text('{"status": "Approved"}')}}
    store.make("versions", foreign, "1")
    lower = {"name": "77", "customProperties": {"drivetrain.approval": text('{"status": "approved"}')}}
    store.make("versions", lower, "1")
    champion = registry.champion("digits")
    assert champion is not None and champion.version == 2
    assert [each.version for each in registry.approved("digits")] == [2, 1]


BROKEN = ["Approved", '{"status": "approved"}', '{"status": "Approved", "at": "today"}', "[1]", "[" * 5_000, "null"]
BROKEN += ['{"status": "Approved", "reason": 1}', '{"status": ["Approved"]}', '{"status": "Approved", "at": 1e999}']


@pytest.mark.parametrize("broken", BROKEN)
def test_a_hand_edited_decision_waits_for_approval(
    broken: str, served: tuple[KubeflowRegistry, Store], capsys: pytest.CaptureFixture[str]
) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord(), approval="Approved")
    edited(store, **{"drivetrain.approval": text(broken)})
    registry.register("digits", OTHER, ModelRecord())
    for _ in range(2):
        assert registry.champion("digits") is None
        assert [each.status for each in registry.versions("digits")] == ["PendingManualApproval"] * 2
        assert [group.approved for group in registry.groups()] == [None]
    said = capsys.readouterr().err
    assert said.count("digits version 1: drivetrain.approval was changed by hand") == 1
    assert registry.set_status("digits", 1, "Approved").status == "Approved"
    champion = registry.champion("digits")
    assert champion is not None and champion.version == 1


@pytest.mark.parametrize("spelt", ['{"status":"Approved"}', '{ "by": "ada", "status" : "Approved" }'])
def test_a_readable_hand_edited_decision_counts_everywhere(spelt: str, served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord())
    edited(store, **{"drivetrain.approval": text(spelt)})
    champion = registry.champion("digits")
    assert champion is not None and champion.version == registry.version("digits", "approved").version == 1
    assert (registry.version("digits", 1).status, registry.groups()[0].approved) == ("Approved", 1)


@pytest.mark.parametrize("name", ["drivetrain.package", "drivetrain.metrics", "drivetrain.model_card"])
@pytest.mark.parametrize("broken", ["x", "[]", "7", '{"a": NaN', '{"accuracy": "high"}'])
def test_any_hand_edited_text_is_read_as_far_as_possible(
    name: str, broken: str, served: tuple[KubeflowRegistry, Store]
) -> None:
    registry, store = served
    registry.register("digits", CONTENT, record_of(PACKAGE), metrics={"accuracy": 0.5})
    edited(store, **{name: text(broken)})
    found = registry.version("digits", 1)
    assert (found.content_hash, found.status) == (CONTENT, "PendingManualApproval")
    assert found.metrics == ({} if name == "drivetrain.metrics" else {"accuracy": 0.5})


def test_a_decision_that_does_not_take_effect_is_an_error(
    served: tuple[KubeflowRegistry, Store], capsys: pytest.CaptureFixture[str]
) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord())
    edited(store, **{"drivetrain.metrics": text("x"), "drivetrain.package": text("x")})
    assert "waits for approval all the same" in refused(lambda: registry.set_status("digits", 1, "Approved"))
    said = capsys.readouterr().err
    assert "drivetrain.package and drivetrain.metrics were changed by hand and cannot be read." in said
    assert "Mend or remove what cannot be read, then decide again." in said
    edited(store, **{"drivetrain.metrics": text("{}"), "drivetrain.package": text("{}")})
    assert registry.set_status("digits", 1, "Approved").status == "Approved"


def test_a_decision_keeps_foreign_properties(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord(), metrics={"accuracy": 0.5})
    others = {
        "i": {"metadataType": "MetadataIntValue", "int_value": "7"},
        "b": {"metadataType": "MetadataBoolValue", "bool_value": True},
        "s": {"metadataType": "MetadataStructValue", "struct_value": '{"a":1}'},
    }
    for kind in ("versions", "models"):
        properties = only(store, kind)["customProperties"]
        sent = {"s": {**others["s"], "struct_value": base64.b64encode(b'{"a":1}').decode()}}
        given = store.checked(kind, {"customProperties": {**properties, **others, **sent}}, but=("name",))
        store.change(kind, only(store, kind)["id"], given)
    assert registry.set_status("digits", 1, "Approved").status == "Approved"
    registry.change_tag("digits", "season", lambda _: "summer")
    for kind in ("versions", "models"):
        assert others.items() <= only(store, kind)["customProperties"].items()


def test_a_decision_dropped_by_the_server_is_an_error(served: tuple[KubeflowRegistry, Store]) -> None:
    """A property keeps its type in releases up to 0.3.8."""
    registry, store = served
    store.make("models", {"name": "digits"})
    number = {"metadataType": "MetadataIntValue", "int_value": "7"}
    store.make("versions", {"name": "1", "customProperties": {"drivetrain.approval": number}}, "1")
    said = refused(lambda: registry.set_status("digits", 1, "Approved"))
    assert "did not keep the decision on 'digits' version 1. Remove its property 'drivetrain.approval'" in said


ASKED: list[Callable[[KubeflowRegistry], Any]] = [
    lambda registry: registry.register("DIGITS", OTHER, ModelRecord()),
    lambda registry: registry.champion("DIGITS"),
    lambda registry: registry.versions("DIGITS"),
    lambda registry: registry.version("DIGITS", 1),
    lambda registry: registry.find("DIGITS", CONTENT),
    lambda registry: registry.set_status("DIGITS", 1, "Approved"),
    lambda registry: registry.tags("DIGITS"),
    lambda registry: registry.change_tag("DIGITS", "a", str.upper),
]


def test_groups_that_differ_in_case_are_not_confused(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord(), approval="Approved")
    for ask in ASKED:
        said = refused(lambda ask=ask: ask(registry))
        assert "has a group 'digits', and its database does not distinguish it from 'DIGITS'" in said
    assert len(store.kinds["versions"]) == 1


@pytest.mark.parametrize("served", ["postgresql"], indirect=True)
def test_a_case_sensitive_database_keeps_groups_that_differ_in_case(
    served: tuple[KubeflowRegistry, Store],
) -> None:
    registry, _ = served
    assert registry.register("digits", CONTENT, ModelRecord()) == (1, True)
    assert registry.register("DIGITS", CONTENT, ModelRecord()) == (1, True)
    assert [group.name for group in registry.groups()] == ["DIGITS", "digits"]


def test_tags_that_differ_in_case_are_not_mixed_up(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, _ = served
    registry.register("digits", CONTENT, ModelRecord())
    registry.change_tag("digits", "season", lambda _: "summer")
    said = refused(lambda: registry.change_tag("digits", "Season", lambda _: "winter"))
    assert "ignores case" in said and registry.tags("digits") == {"season": "summer"}


def test_comparisons_at_the_same_moment_are_all_counted(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord(), approval="Approved")

    def count(number: int) -> int:
        return count_comparison(registry, "digits", content("test"), content(number))

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(count, range(12))) == list(range(1, 13))
    # They are counted on from there, though the text of the group may be an earlier one.
    store.change("models", "1", {"customProperties": {}})
    assert count(12) == 13
    assert all(store.parents["artifacts"][key] == "" for key in store.kinds["artifacts"])  # KServe sees none of them


def test_an_interrupted_comparison_is_counted_once_when_repeated(
    served: tuple[KubeflowRegistry, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, _ = served
    registry.register("digits", CONTENT, ModelRecord())
    done = registry._rest.done

    def killed(method: str, *given: Any, **more: Any) -> Any:
        if method == "PATCH":
            raise KeyboardInterrupt
        return done(method, *given, **more)

    assert count_comparison(registry, "digits", content("test"), content(1)) == 1
    monkeypatch.setattr(registry._rest, "done", killed)  # after the claim, before the group's own text
    with pytest.raises(KeyboardInterrupt):
        count_comparison(registry, "digits", content("test"), content(2))
    monkeypatch.setattr(registry._rest, "done", done)
    assert count_comparison(registry, "digits", content("test"), content(2)) == 2
    assert count_comparison(registry, "digits", content("test"), content(3)) == 3


def test_a_change_with_a_lost_answer_is_made_once(
    served: tuple[KubeflowRegistry, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord())
    send, lost = registry._rest._send, list[str]()

    def losing(method: str, path: str, data: bytes | None) -> bytes:
        answer = send(method, path, data)
        if path == "/artifacts" and not lost:
            lost.append(path)
            raise ConnectionResetError
        return answer

    monkeypatch.setattr(_kubeflow_rest, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(registry._rest, "_send", losing)
    registry.change_tag("digits", "a", lambda before: f"{before}x")
    assert lost and registry.tags("digits") == {"a": "x"} and len(store.kinds["artifacts"]) == 1


def test_unsupported_values_are_refused_before_any_request(
    served: tuple[KubeflowRegistry, Store],
) -> None:
    registry, store = served
    uri = ModelRecord(artifact="s3://" + "x" * 70_000)
    assert "has 70,005 bytes; the registry keeps at most 65,535" in refused(
        lambda: registry.register("digits", CONTENT, uri)
    )
    for record, execution in ((ModelRecord(description="a\0b"), None), (ModelRecord(), "run\0")):
        said = refused(
            lambda record=record, execution=execution: registry.register("digits", CONTENT, record, execution=execution)
        )
        assert "holds a NUL character" in said
    assert store.kinds["versions"] == {}


@both
def test_names_and_texts_that_the_server_refuses_are_encoded(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, _ = served
    metrics = {"m" * 300: 0.5, "accuracy": 0.25, "Accuracy": 0.75, "drivetrain.approval": 1.0}
    record = record_of({"ModelPackageDescription": "C:\\u0000 and \\\\u0000", "SourceUri": "s3://a/\\u0000"})
    assert registry.register("digits", CONTENT, record, metrics=metrics) == (1, True)
    found = registry.set_status("digits", 1, "Approved", reason="log: \\u0000, \0")  # the reason is JSON in a text
    assert found.metrics == metrics and found.record.description == "C:\\u0000 and \\\\u0000"
    assert (found.reason, found.artifact) == ("log: \\u0000, \0", "s3://a/\\u0000")
    assert registry.version("digits", 1) == found


def test_versions_of_others(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    model = store.make("models", {"name": "digits"})["id"]
    for name in ("v1.0", "007", "\u0663", "\u00b2", "0", "1.0", "-1"):
        store.make("versions", {"name": name}, model)
    assert registry.groups() == [] and registry.champion("digits") is None
    assert "no version of 'digits' whose name is a number" in refused(lambda: registry.versions("digits"))
    assert registry.register("digits", CONTENT, ModelRecord()) == (1, True)
    accuracy = {"metadataType": "MetadataDoubleValue", "double_value": 0.5}
    theirs = {"name": "2", "description": "by hand", "customProperties": {"accuracy": accuracy}}
    other = store.make("versions", theirs, model)["id"]
    artifact = {"artifactType": "model-artifact", "name": "digits", "uri": "s3://theirs/model"}
    store.make("artifacts", artifact, other)
    version = registry.version("digits", 2)
    assert (version.content_hash, version.status, version.metrics) == ("", "PendingManualApproval", {"accuracy": 0.5})
    assert (version.artifact, version.record.description) == ("s3://theirs/model", "by hand")
    assert registry.register("digits", OTHER, ModelRecord()) == (3, True)
    with pytest.raises(AbsentError, match="has no version '007'"):
        registry.version("digits", "007")


def away(store: Store, requests: int) -> None:
    store.away = requests


EVERY: dict[str, Callable[[KubeflowRegistry], Any]] = {
    "register": lambda registry: registry.register("digits", OTHER, record_of(PACKAGE)),
    "champion": lambda registry: registry.champion("digits"),
    "find": lambda registry: registry.find("digits", OTHER),
    "versions": lambda registry: registry.versions("digits"),
    "version": lambda registry: registry.version("digits", 1),
    "groups": lambda registry: registry.groups(),
    "set_status": lambda registry: registry.set_status("digits", 1, "Rejected"),
    "change_tag": lambda registry: registry.change_tag("digits", "name", lambda _: "text"),
}


@pytest.mark.parametrize("served", ["postgresql"], indirect=True)
@pytest.mark.parametrize("asked", EVERY)
def test_a_database_that_restarts_is_waited_for_at_any_request(
    asked: str, served: tuple[KubeflowRegistry, Store]
) -> None:
    """It answers 400 and 404 meanwhile."""
    registry, store = served
    registry.register("digits", CONTENT, record_of(PACKAGE), approval="Approved")
    expected: Any = None
    for at in range(20):
        reached = 0
        routes = store.routes

        def counted(*given: Any, at: int = at, routes: Any = routes) -> Any:
            nonlocal reached
            reached += 1
            if reached == at + 1:
                away(store, 3)
            return routes(*given)

        store.routes = counted  # type: ignore[method-assign]
        found = EVERY[asked](registry)
        store.routes = routes  # type: ignore[method-assign]
        if at and asked in ("champion", "find", "versions", "version", "groups"):
            assert found == expected
        expected = found
        if reached <= at:
            assert at > 1 or asked == "groups"
            return
    raise AssertionError("it makes 20 requests")


@pytest.mark.parametrize("served", ["postgresql"], indirect=True)
@pytest.mark.parametrize("asked", EVERY)
def test_an_unavailable_database_is_an_error_and_never_empty(
    asked: str, served: tuple[KubeflowRegistry, Store]
) -> None:
    registry, store = served
    registry.register("digits", CONTENT, record_of(PACKAGE), approval="Approved")
    away(store, 10_000)
    with pytest.raises(RegistryError, match=r"failed, GET .*, in 5 attempts: .*\(500\)"):
        EVERY[asked](registry)


def test_a_lost_id_is_an_error_while_the_server_answers(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord())
    store.change = lambda kind, key, given: store.get(kind, "999")  # type: ignore[method-assign]
    with pytest.raises(RegistryError, match=r"in 5 attempts: no model version found for id 999"):
        registry.set_status("digits", 1, "Approved")


@pytest.mark.parametrize("address", ["", "host:8080", "ftp://host", "file:///etc/passwd", "http://", "http://a:b@host"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="is no address"):
        KubeflowRegistry(address)
