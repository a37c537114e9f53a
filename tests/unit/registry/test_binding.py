"""The verdict of compare binds: what is registered or approved against it needs a reason, which is kept."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError, UserError
from drivetrain.components.register_model import register_model
from drivetrain.registry.approving import make_champion
from drivetrain.registry.binding import objections
from drivetrain.registry.card_sections import as_markdown
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registration import read_evaluation
from drivetrain.registry.registry import Registry, open_registry
from drivetrain.registry.report_hash import DECISION_HASH, PARTS, REPORT_HASH, hash_beside, report_hash
from tests.fixtures.reports import hashed

EVALUATION = hashed({"num_samples": 10, "metrics": {"accuracy": {"value": 0.9}}, "model": {}, "data": {}})


class Place:
    """A registry with a champion, version 1, and a model with its report that is to be registered."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model = folder, folder / "model"
        self.model.mkdir()
        (self.model / "weights").write_text("new")
        self.url = f"local:{folder}/ledger.db"
        self.registry: Registry = open_registry(self.url)
        self.registry.register("digits", "1" * 64, ModelRecord(), approval="Approved")
        (folder / "report").mkdir()
        self.evaluate(EVALUATION)

    def evaluate(self, content: dict[str, Any]) -> None:
        (self.folder / "report" / "evaluation.json").write_text(json.dumps(content))

    def decision(self, **given: Any) -> dict[str, Any]:
        made = {
            "format": 1,
            "verdict": "register",
            "candidate": {"content_hash": content_hash(self.model)},
            "champion": {"version": 1, "content_hash": "1" * 64},
            "report": report_hash(EVALUATION),
            **given,
        }
        return {**made, DECISION_HASH: hash_beside(made, DECISION_HASH)}

    def register(self, against: str = "", **given: Any) -> int:
        return self.register_as_decided(self.decision(**given), against)

    def register_as_decided(self, decided: dict[str, Any], against: str = "") -> int:
        (self.folder / "decision.json").write_text(json.dumps(decided))
        report, decision = self.folder / "report", self.folder / "decision.json"
        registered = register_model(
            self.model, None, report, decision, group="digits", registry=self.url, against_decision=against
        )
        return registered.version


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


KEEP = {"verdict": "keep champion"}
OTHER = {"champion": {"version": 7, "content_hash": "7" * 64}}
SAID = [
    (KEEP, 'the decision on it says "keep champion"'),
    ({"verdict": "below floors"}, 'the decision on it says "below floors"'),
    (OTHER, "it was decided against version 7, and the champion is version 1 today"),
    ({"champion": None}, "it was decided when no version was approved, and the champion is version 1 today"),
    ({"report": "a" * 64}, "the decision was made on another report (aaaaaa"),
    ({"group": "letters"}, "the decision on it is one for the group letters"),
]


@pytest.mark.parametrize(("given", "said"), SAID)
def test_a_rejected_candidate_is_not_registered(given: dict[str, Any], said: str, place: Place) -> None:
    with pytest.raises(InputError) as caught:
        place.register(**given)
    assert said in str(caught.value) and "--against-decision REASON" in str(caught.value)
    assert [each.version for each in place.registry.versions("digits")] == [1]


def test_a_given_reason_overrides_the_decision_and_is_recorded(place: Place) -> None:
    assert place.register("the old test set was <wrong>", **KEEP) == 2
    version = place.registry.version("digits", 2)
    kept = 'against the decision (the decision on it says "keep champion"): the old test set was <wrong>'
    assert version.decision is not None and version.decision["against"] == kept
    assert "the old test set was wrong" in version.record.decision["against"], "as a text that every registry takes"
    with pytest.raises(UserError, match="digits version 2 cannot be approved"):
        make_champion(place.registry, "digits", 2)
    approved, *_ = make_champion(place.registry, "digits", 2, reason="hotfix", against="the lawyers want it")
    assert approved.status == "Approved" and approved.reason is not None
    assert approved.reason.startswith("hotfix; against the decision (") and "the lawyers want it" in approved.reason


def test_the_card_states_an_overridden_or_missing_decision(place: Place) -> None:
    assert "No decision: this version was not compared" in as_markdown(place.registry.version("digits", 1))
    place.register("the old test set was wrong", **KEEP)
    page = as_markdown(place.registry.version("digits", 2))
    assert "Registered against the decision (" in page and "): the old test set was wrong" in page


def test_an_accepted_candidate_is_registered_and_approved_without_notes(place: Place) -> None:
    assert place.register() == 2
    approved, *_ = make_champion(place.registry, "digits", 2, reason="better")
    assert (approved.status, approved.reason) == ("Approved", "better")
    version = place.registry.version("digits", 2)
    assert version.lineage["report"] == version.record.decision["report"] == report_hash(EVALUATION)
    assert version.record.decision["champion"] == "1"


def test_a_repeated_step_finds_its_version_after_the_champion_changed(place: Place) -> None:
    place.register()
    make_champion(place.registry, "digits", 2)
    assert place.register() == 2


def test_a_version_is_not_approved_when_the_champion_changed_meanwhile(place: Place) -> None:
    place.register()
    place.registry.register("digits", "3" * 64, ModelRecord(), approval="Approved")
    with pytest.raises(UserError, match="decided against version 1, and the champion is version 3 today"):
        make_champion(place.registry, "digits", 2)
    assert place.registry.version("digits", 2).status == "PendingManualApproval"


def test_rollbacks_and_versions_without_a_decision_are_not_bound(place: Place) -> None:
    place.registry.register("digits", "2" * 64, ModelRecord())
    make_champion(place.registry, "digits", 2)
    make_champion(place.registry, "digits", 1)  # approved as it is: going back
    version = place.register("why not", **KEEP)
    approved, *_ = make_champion(place.registry, "digits", version, bound=False)
    assert approved.reason is None


def test_a_decision_kept_as_short_texts_is_binding_too() -> None:
    assert objections({"verdict": "register", "champion": "none", "report": "unknown"}, group="g", champion=None) == []
    assert objections({"verdict": "register", "champion": "3"}, group="g", champion=None) == [
        "it was decided against version 3, and no version is approved today"
    ]
    # Texts of an earlier version say nothing of a champion.
    assert objections({"verdict": "register"}, group="g", champion=None) == []
    assert objections(None, group="g", champion=None) == []


def test_an_edited_report_is_detected(place: Place) -> None:
    assert read_evaluation(place.folder / "report")["num_samples"] == 10
    better = {**EVALUATION, "metrics": {"accuracy": {"value": 0.99}}}
    place.evaluate(better)
    with pytest.raises(InputError, match="was changed after evaluate wrote it"):
        place.register()
    for without in ({REPORT_HASH}, {REPORT_HASH, PARTS}):
        place.evaluate({name: value for name, value in better.items() if name not in without})
        with pytest.raises(InputError, match="its report_hash is missing"):
            place.register("I know better")


@pytest.mark.parametrize("decided", [True, False])
def test_a_report_without_a_hash_needs_a_reason_where_its_format_had_none(decided: bool, place: Place) -> None:
    earlier = {name: value for name, value in EVALUATION.items() if name not in (REPORT_HASH, PARTS)} | {"format": 1}
    place.evaluate(earlier)

    def register(against: str = "") -> int:
        if decided:
            return place.register(against, report=report_hash(earlier))
        given: dict[str, Any] = {"group": "digits", "registry": place.url, "against_decision": against}
        return register_model(place.model, None, place.folder / "report", **given).version

    with pytest.raises(InputError, match=r"its report has no report_hash.*--against-decision REASON"):
        register()
    assert register("nobody touched it") == 2
    said = place.registry.version("digits", 2).decision
    assert said is not None and "nobody touched it" in said["against"]


def test_an_edited_decision_blocks_the_registration(place: Place) -> None:
    edited = {**place.decision(**KEEP), "verdict": "register"}
    with pytest.raises(InputError, match="was changed after compare wrote it"):
        place.register_as_decided(edited)
    edited.pop(DECISION_HASH)
    with pytest.raises(InputError, match="its decision_hash is missing"):
        place.register_as_decided(edited)
    edited.pop("report")
    assert place.register_as_decided(edited) == 2, "a decision of an earlier version has neither"


def test_damaged_files_are_not_approved_on_a_registry_of_another_machine(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where they can be read: here from the folder that stands for S3."""
    store, registry = tmp_path / "s3", place.registry
    monkeypatch.setattr(type(registry), "objects", None)
    monkeypatch.setenv("DRIVETRAIN_OBJECT_STORE", str(store))
    (store / "models" / "m").mkdir(parents=True)
    (store / "models" / "m" / "weights").write_text("whole")
    hashed = content_hash(store / "models" / "m")
    registry.register("digits", hashed, record_of({"SourceUri": "s3://models/m"}))
    registry.register("digits", "4" * 64, record_of({"SourceUri": "s3://models/gone"}))
    registry.register("digits", "5" * 64, record_of({"SourceUri": "file:///of/another/machine"}))
    (store / "models" / "m" / "weights").write_text("torn")
    for version, said in ((2, "its files have changed"), (3, "there is nothing at s3://models/gone")):
        with pytest.raises(UserError, match=f"digits version {version} cannot be approved: {said}"):
            make_champion(registry, "digits", version)
    (store / "models" / "m" / "weights").write_text("whole")
    assert make_champion(registry, "digits", 2)[0].status == "Approved"
    assert make_champion(registry, "digits", 4)[0].status == "Approved"
    assert "warning: the files of digits version 4 are not read" in capsys.readouterr().err


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [100], "data_offsets": [0, 400]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(400)


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("weights", bytes(1000))
    return file.getvalue()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "data"), [("model.safetensors", safetensors()), ("model.pt", zipped())])
def test_weights_that_were_cut_off_are_not_registered(name: str, data: bytes, packed: bool, place: Place) -> None:
    def given(content: bytes) -> Path:
        (place.model / name).write_bytes(content)
        if not packed:
            return place.model
        with tarfile.open(place.folder / "model.tar.gz", "w:gz") as archive:
            archive.add(place.model, ".")
        return place.folder / "model.tar.gz"

    with pytest.raises(InputError, match=f"{name} was cut off or damaged"):
        register_model(given(cut(data)), group="digits", registry=place.url)
    assert register_model(given(data), group="digits", registry=place.url).version == 2


def test_weights_that_do_not_match_model_json_are_not_registered(place: Place) -> None:
    hashed = hashlib.sha256(b"new").hexdigest()
    described = {"format": 1, "weights": {"file": "weights", "bytes": 3, "sha256": hashed}}
    (place.model / "model.json").write_text(json.dumps(described))
    assert register_model(place.model, group="digits", registry=place.url).version == 2
    (place.model / "weights").write_text("ne")
    with pytest.raises(InputError, match=r"weights is not the file that model\.json describes"):
        register_model(place.model, group="digits", registry=place.url)
    (place.model / "weights").unlink()
    with pytest.raises(InputError, match=r"model\.json describes weights, which is not there"):
        register_model(place.model, group="digits", registry=place.url)
