"""What looks like a secret is shown nowhere, and what does not is left alone."""

from __future__ import annotations

import time
from typing import Any

import pytest

from drivetrain.base.masking import MASK, Masking, contains_mask, looks_secret, mask, without_secrets


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


GITHUB = "ghp_" + "a1B2c3" * 6
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://me:hunter2@host/db", f"postgresql://me:{MASK}@host/db"),
        ("redis://:hunter2@host", f"redis://:{MASK}@host"),
        (f"https://{GITHUB}@github.com/a/b", f"https://{MASK}@github.com/a/b"),
        (
            "https://h/o?a=1&X-Amz-Signature=abc&X-Amz-Credential=d",
            f"https://h/o?a=1&X-Amz-Signature={MASK}&X-Amz-Credential={MASK}",
        ),
        ("https://h/o?sig=abc#x", f"https://h/o?sig={MASK}#x"),
        ("id AKIAIOSFODNN7EXAMPLE.", f"id {MASK}."),
        (f"clone with {GITHUB}", f"clone with {MASK}"),
        ("github_pat_" + "a" * 30, MASK),
        (f"Bearer {JWT}", f"Bearer {MASK}"),
        (f"a\n{KEY}\nb", f"a\n{MASK}\nb"),
        (KEY[:40], MASK),  # cut off
    ],
)
def test_secrets_are_known_by_their_shapes(given: str, shown: str) -> None:
    assert without_secrets(given) == shown
    assert mask({"a": [given]}) == {"a": [shown]}
    assert Masking()({"a": given}) == {"a": shown}
    assert Masking().message(shown) == shown  # what is masked stays as it is


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/data/a@b",
        "https://host:8080/a?page=2&tokens=3",
        "git@github.com:a/b.git",
        "ssh://git@github.com/a/b",
        "arn:aws:iam::123456789012:role/Role",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com/image@sha256:" + "a" * 64,
        "a" * 64,
        "eyJ is how JSON in base64 begins",
        "-----BEGIN CERTIFICATE-----",
        "MAKIAS",
    ],
)
def test_ordinary_texts_are_left_alone(text: str) -> None:
    assert without_secrets(text) == text


def test_the_password_of_a_url_is_masked_everywhere() -> None:
    masking = Masking.of({"url": "mysql://me:hunter2-and-more@host"})
    assert masking.message("access denied with hunter2-and-more") == f"access denied with {MASK}"


def test_secrets_of_the_environment_are_masked_under_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "plain-looking-value")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", __file__)
    monkeypatch.setenv("MY_SETTING", "no-secret-at-all")
    given = {"rate": "x-plain-looking-value", "file": __file__, "setting": "no-secret-at-all"}
    shown = {**given, "rate": f"x-{MASK}"}
    assert Masking()(given) == mask(given) == shown
    assert Masking().message("it was plain-looking-value") == f"it was {MASK}"


def test_the_environment_is_read_once_for_all_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "plain-looking-value")
    masking = Masking()
    monkeypatch.setattr("drivetrain.base.masking.environment_secrets", None)
    assert masking.message("plain-looking-value") == masking(["plain-looking-value"])[0] == MASK


@pytest.mark.parametrize(
    "piece", ["a", "a:", "://", "://a:", "eyJ", "eyJ.", "-----BEGIN ", "AKIA", "ghp_", "xoxb-", "?a="]
)
def test_masking_takes_linear_time(piece: str) -> None:
    text = "x://" + piece * (200_000 // len(piece))
    began = time.process_time()
    without_secrets(text)
    assert time.process_time() - began < 0.8
