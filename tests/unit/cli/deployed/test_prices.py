from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fixtures.pricing_server import pricing_server, product


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRIVETRAIN_PRICES", str(tmp_path / "own" / "prices.json"))
    return tmp_path / "own" / "prices.json"


def test_show_prints_prices_sources_and_age(drivetrain) -> None:
    text = drivetrain("prices", "show", "--region", "us-east-1")
    assert "days old; refresh with drivetrain prices update" in text.splitlines()[0]
    (line,) = [line.split() for line in text.splitlines() if line.split()[:1] == ["ml.m5.xlarge"]]
    assert line[1:] == ["0.23", "0.23", "–", "2026-09-24"]
    assert "us-east-1, 2026-09-24: AWS Price List of AmazonSageMaker" in text
    assert "eu-west-1" not in text.replace("/eu-west-1/", "")


def test_instance_sizes_are_sorted(drivetrain) -> None:
    rows = [
        line.split()[0] for line in drivetrain("prices", "show", "--region", "us-east-1").splitlines() if "ml." in line
    ]
    sizes = [row for row in rows if row.startswith("ml.m5.")]
    assert sizes == ["ml.m5.large", "ml.m5.xlarge", "ml.m5.4xlarge"]


def test_show_of_some_types_names_only_their_sources(drivetrain) -> None:
    said = json.loads(drivetrain("prices", "show", "ml.p5.48xlarge", "--json"))
    assert [(sheet["region"], sheet["hourly"]) for sheet in said["sheets"]] == [
        ("us-east-1", {"Training": {"ml.p5.48xlarge": 63.296}})
    ]
    assert said["sheets"][0]["days_old"] > 0
    assert "ml.m5" not in drivetrain("prices", "show", "ml.p5.48xlarge")


def test_show_of_unknown_types(drivetrain) -> None:
    assert "Did you mean 'ml.m5.xlarge'?" in drivetrain.error("prices", "show", "ml.m5.xlrge")
    error = drivetrain.error("prices", "show", "--region", "us-east-7")
    assert "Did you mean 'us-east-1'?" in error
    assert "drivetrain prices update --region us-east-7" in error


def test_update_fetches_the_region_of_the_environment_and_show_has_it(drivetrain, own_file: Path, monkeypatch) -> None:
    listed = [product("EUW3-Train:ml.m5.xlarge", "0.269"), product("EUW3-Tsform:ml.m5.xlarge", "0.27")]
    with pricing_server(listed, monkeypatch):
        monkeypatch.setenv("AWS_REGION", "eu-west-3")
        text = drivetrain("prices", "update")
        said = json.loads(drivetrain("prices", "update", "--region", "eu-west-3", "--json"))
    assert text.splitlines()[0].startswith("eu-west-3: 2 prices of 20")
    assert text.splitlines()[1] == f"written to {own_file}"
    assert said == {"file": str(own_file), "regions": {"eu-west-3": 2}}
    shown = drivetrain("prices", "show", "--region", "eu-west-3")
    assert shown.startswith("prices of ")
    assert shown.splitlines()[0].endswith(", today's; refresh with drivetrain prices update")
    assert "AWS Price List API" in shown


def test_an_invalid_region_is_refused_before_any_request(drivetrain, monkeypatch) -> None:
    with pricing_server([], monkeypatch):
        error = drivetrain.error("prices", "update", "--region", "eu-west-3", "--region", "mars")
    assert "'mars' is no AWS region. Allowed: af-south-1" in error


def test_update_without_credentials_or_region_is_one_message(drivetrain, monkeypatch) -> None:
    with pricing_server([], monkeypatch):
        assert "no machines in region 'eu-west-3'" in drivetrain.error("prices", "update", "--region", "eu-west-3")
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        assert "credentials" in drivetrain.error("prices", "update", "--region", "eu-west-3")
        monkeypatch.delenv("AWS_REGION", raising=False)
        monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
        assert "--region" in drivetrain.error("prices", "update")
