"""What looks like a secret is shown nowhere, and what does not is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.pipelines.masking import MASK, Masking, contains_mask, looks_secret, mask


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "HF_TOKEN",
        "db_password",
        "apiKey",
        "API-KEY",
        "--api-token",
        "ClientSecret",
        "private_key",
        "Authorization",
        "dbpassword",
        "APITOKEN",
    ],
)
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "tokenizer",
        "eos_token",
        "pad_token",
        "key",
        "KmsKeyId",
        "S3Uri",
        "monkey",
        "epochs",
        "author",
        "keys",
        "compass_width",
    ],
)
def test_ordinary_names_are_not(name: str) -> None:
    assert not looks_secret(name)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"Environment": {"API_KEY": "x", "A": "y"}}, {"Environment": {"API_KEY": MASK, "A": "y"}}),
        (["--api-token", "x", "--n", "3"], ["--api-token", MASK, "--n", "3"]),
        (["--api-token=x", "y"], [f"--api-token={MASK}", "y"]),
        ([{"Name": "DB_PASSWORD", "Value": "x"}], [{"Name": "DB_PASSWORD", "Value": MASK}]),
        ({"password": {"nested": ["x"]}}, {"password": {"nested": ["x"]}}),
        ({"tokens": [1], "token": ["x", 3]}, {"tokens": [1], "token": [MASK, MASK]}),
        ({"use_token": True, "token": None}, {"use_token": True, "token": None}),
    ],
)
def test_values_are_masked_in_mappings_arguments_and_pairs(given: Any, shown: Any) -> None:
    assert mask(given) == shown
    assert contains_mask(shown) == (MASK in repr(shown))


def test_what_was_masked_by_its_name_is_masked_everywhere() -> None:
    masking = Masking.of({"api_token": "s3cr3t-one", "other": "s3cr3t"}, ["--db-password=s3cr3t-one-and-two", "x"])
    given = {"argument": ["--value", "s3cr3t-one"], "url": "https://me:s3cr3t-one-and-two@host", "n": 3}
    assert masking(given) == {"argument": ["--value", MASK], "url": f"https://me:{MASK}@host", "n": 3}
    assert contains_mask(masking(given)["url"])
    assert masking.message("refused: s3cr3t-one, s3cr3t") == f"refused: {MASK}, s3cr3t"


def test_short_values_are_masked_where_their_name_says_so_only() -> None:
    masking = Masking.of({"USE_AUTH": "true", "token": "1234"})
    assert masking({"USE_AUTH": "true", "cached": "true", "port": "1234"}) == {
        "USE_AUTH": MASK,
        "cached": "true",
        "port": "1234",
    }


def test_the_default_of_a_parameter_with_such_a_name_is_masked() -> None:
    found: list[str] = []
    given = [{"Name": "ApiToken", "Type": "String", "DefaultValue": "abc-def-ghi"}, {"Name": "Rate", "DefaultValue": 1}]
    assert mask(given, found=found) == [{"Name": "ApiToken", "Type": "String", "DefaultValue": MASK}, given[1]]
    assert found == ["abc-def-ghi"]
