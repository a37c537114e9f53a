from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.prices.table import read
from drivetrain.targets.sagemaker.prices.update import update
from tests.fixtures.pricing_server import pricing_server, product

DAY = datetime.date(2026, 11, 20)
PARIS = [
    product("EUW3-Train:ml.m5.xlarge", "0.2690000000"),
    product("EUW3-Processing:ml.m5.xlarge", "0.2700000000"),
    product("EUW3-Tsform:ml.g4dn.xlarge", "0.8610000000"),
    product("EUW3-Train:VolumeUsage.gp2", "0.1620000000", unit="GB-Mo"),
    # None of these is a machine or a volume of a job on demand.
    product("EUW3-Host:ml.m5.xlarge", "9.0000000000"),
    product("EUW3-TrSpt:ml.m5.xlarge", "9.0000000000"),
    product("EUW3-Train:ml.m4.xlarge", "9.0000000000", terms="Reserved"),
    product("EUW3-Processing:VolumeUsage.gp2", "9.0000000000", unit="Hrs"),
    product("EUW3-Studio:JupyterLab-ml.m5.xlarge", "9.0000000000"),
]


def test_machines_and_volumes_of_jobs_are_kept_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    place = tmp_path / "deep" / "prices.json"
    with pricing_server(PARIS, monkeypatch) as server:
        update(["eu-west-3"], place, today=DAY)
    (sheet,) = read(place).sheets
    assert sheet.hourly == {
        "Training": {"ml.m5.xlarge": 0.269},
        "Processing": {"ml.m5.xlarge": 0.27},
        "Transform": {"ml.g4dn.xlarge": 0.861},
    }
    assert (sheet.region, sheet.date, sheet.storage) == ("eu-west-3", DAY, {"Training": 0.162})
    assert server.regions == ["us-east-1"], "the API answers there for all regions"
    assert server.requests[0]["ServiceCode"] == "AmazonSageMaker"
    assert [path.name for path in place.parent.iterdir()] == ["prices.json"]


def test_every_page_is_read_and_other_regions_are_left_out(tmp_path: Path, monkeypatch) -> None:
    many = [product(f"USW2-Train:ml.m5.{n}xlarge", f"{n}.5", region="us-west-2") for n in range(1, 8)]
    with pricing_server([*many, *PARIS], monkeypatch, page=3) as server:
        table = update(["us-west-2"], tmp_path / "prices.json", today=DAY)
    assert table.sheets[0].hourly == {"Training": {f"ml.m5.{n}xlarge": n + 0.5 for n in range(1, 8)}}
    assert [request.get("NextToken") for request in server.requests] == [None, "3", "6"]


def test_the_region_us_east_1_and_usages_without_a_prefix(tmp_path: Path, monkeypatch) -> None:
    listed = [product("USE1-Train:ml.p6-b200.48xlarge", "100.5"), product("Processing:ml.t3.medium", "0.05")]
    with pricing_server(listed, monkeypatch):
        table = update(["eu-west-3"], tmp_path / "prices.json", today=DAY)
    assert table.sheets[0].hourly == {"Training": {"ml.p6-b200.48xlarge": 100.5}, "Processing": {"ml.t3.medium": 0.05}}


# The highest stands first, in the middle and last, so that neither the first nor the last can stand for it.
@pytest.mark.parametrize("rates", [("0.3", "0.25", "0.2"), ("0.2", "0.3", "0.25"), ("0.2", "0.25", "0.3")])
@pytest.mark.parametrize("products", [1, 3])
def test_free_rates_do_not_count_and_of_several_the_highest_does(
    tmp_path: Path, monkeypatch, rates: tuple[str, ...], products: int
) -> None:
    def listed(usage: str, unit: str) -> list[str]:
        each = ("0.0000000000", *rates, "0.0000000000")
        if products == 1:
            return [product(usage, *each, unit=unit)]
        return [product(usage, rate, unit=unit) for rate in each]

    free = product("EUW3-Train:ml.m5.large", "0.0000000000")
    everything = [*listed("EUW3-Train:ml.m5.xlarge", "Hrs"), *listed("EUW3-Train:VolumeUsage.gp2", "GB-Mo"), free]
    with pricing_server(everything, monkeypatch):
        table = update(["eu-west-3"], tmp_path / "prices.json", today=DAY)
    assert table.sheets[0].hourly == {"Training": {"ml.m5.xlarge": 0.3}}
    assert table.sheets[0].storage == {"Training": 0.3}


def test_a_region_is_replaced_and_the_others_stay(tmp_path: Path, monkeypatch) -> None:
    place = tmp_path / "prices.json"
    oregon = [product("USW2-Train:ml.m5.large", "0.115", region="us-west-2")]
    with pricing_server([*PARIS, *oregon], monkeypatch):
        update(["eu-west-3", "us-west-2"], place, today=DAY)
    with pricing_server([product("EUW3-Train:ml.g5.xlarge", "1.7")], monkeypatch):
        update(["eu-west-3"], place, today=DAY + datetime.timedelta(1))
    table = read(place)
    assert {(sheet.region, sheet.date.day) for sheet in table.sheets} == {("eu-west-3", 21), ("us-west-2", 20)}
    assert table.hourly("eu-west-3", "Training", "ml.m5.xlarge") is None, "the new list is the whole list"


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"sheets": [{"region": 1}], "currency": "USD"}'])
def test_a_file_that_is_broken_is_written_anew(tmp_path: Path, monkeypatch, broken: str) -> None:
    place = tmp_path / "prices.json"
    place.write_text(broken)
    with pytest.raises(UserError, match=r"is no price list .*drivetrain prices update"):
        read(place)
    with pricing_server(PARIS, monkeypatch):
        table = update(["eu-west-3"], place, today=DAY)
    assert read(place) == table and table.hourly("eu-west-3", "Training", "ml.m5.xlarge") is not None


def test_throttling_is_waited_out(tmp_path: Path, monkeypatch) -> None:
    with pricing_server(PARIS, monkeypatch) as server:
        server.refusals = [(400, "ThrottlingException")] * 3
        table = update(["eu-west-3"], tmp_path / "prices.json", today=DAY)
    assert len(server.requests) == 4
    assert table.hourly("eu-west-3", "Training", "ml.m5.xlarge") is not None


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("ThrottlingException", "throttling pricing:GetProducts"),
        ("AccessDeniedException", "denies pricing:GetProducts"),
        ("UnrecognizedClientException", "does not know these credentials"),
        ("ExpiredTokenException", "have expired"),
    ],
)
def test_a_refusal_is_one_message_and_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch, word: str, said: str
) -> None:
    place = tmp_path / "prices.json"
    with pricing_server(PARIS, monkeypatch) as server:
        update(["eu-west-3"], place, today=DAY)
        before = place.read_bytes()
        server.refusals = [(400, word)] * 5
        with pytest.raises(UserError, match=said):
            update(["eu-west-3"], place, today=DAY)
    assert place.read_bytes() == before


def test_nothing_is_written_unless_every_region_came(tmp_path: Path, monkeypatch) -> None:
    place = tmp_path / "prices.json"
    with pricing_server(PARIS, monkeypatch), pytest.raises(UserError, match=r"no machines in region 'eu-west-33'"):
        update(["eu-west-3", "eu-west-33"], place, today=DAY)
    assert not place.exists()


def test_without_credentials_it_says_where_they_come_from(tmp_path: Path, monkeypatch) -> None:
    with pricing_server(PARIS, monkeypatch) as server:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        with pytest.raises(UserError, match="No AWS credentials were found"):
            update(["eu-west-3"], tmp_path / "prices.json", today=DAY)
    assert server.requests == []


def test_the_regions_of_china_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="China"):
        update(["cn-north-1"], tmp_path / "prices.json", lambda *_, **__: [], DAY)


@pytest.mark.parametrize("text", ["{", "[]", '{"product": {}}', json.dumps({"product": {"attributes": {}}}), "7"])
def test_a_list_of_another_form_is_refused_with_what_it_is(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        update(["eu-west-3"], tmp_path / "prices.json", lambda *_, **__: [text], DAY)
    assert not (tmp_path / "prices.json").exists()


def test_an_unwritable_location_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="DRIVETRAIN_PRICES"):
        update(["eu-west-3"], tmp_path / "file" / "prices.json", lambda *_, **__: PARIS, DAY)


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, monkeypatch) -> None:
    place = tmp_path / "prices.json"
    update(["eu-west-3"], place, lambda *_, **__: PARIS, DAY)
    before = place.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        update(["eu-west-3"], place, lambda *_, **__: PARIS[:1], DAY)
    assert place.read_bytes() == before
    assert list(tmp_path.iterdir()) == [place]
