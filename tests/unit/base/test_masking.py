"""What looks like a secret is shown nowhere, and what does not is left alone."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from drivetrain.base.masking import MASK, Masking, contains_mask, looks_secret, mask, without_secrets
from tests.fixtures.made_up_secrets import PLACES, leaks, made_up


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
def test_ordinary_names_are_not_secrets(name: str) -> None:
    assert not looks_secret(name)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"Environment": {"API_KEY": "x", "A": "y"}}, {"Environment": {"API_KEY": MASK, "A": "y"}}),
        (["--api-token", "x", "--n", "3"], ["--api-token", MASK, "--n", "3"]),
        (["--api-token=x", "y"], [f"--api-token={MASK}", "y"]),
        ([{"Name": "DB_PASSWORD", "Value": "x"}], [{"Name": "DB_PASSWORD", "Value": MASK}]),
        ({"env": [{"name": "DB_PASSWORD", "value": "x"}]}, {"env": [{"name": "DB_PASSWORD", "value": MASK}]}),
        ({"password": {"nested": ["x"]}}, {"password": {"nested": ["x"]}}),
        ({"tokens": [1], "token": ["x", 3]}, {"tokens": [1], "token": [MASK, 3]}),
        ({"token_budget": 100000000, "token_lr": "1.2e-4"}, {"token_budget": 100000000, "token_lr": "1.2e-4"}),
        ({"password": 12345678, "pin_secret": "1234"}, {"password": MASK, "pin_secret": MASK}),
        ({"use_token": True, "token": None}, {"use_token": True, "token": None}),
    ],
)
def test_values_are_masked_in_mappings_arguments_and_pairs(given: Any, shown: Any) -> None:
    assert mask(given) == shown
    assert contains_mask(shown) == (MASK in repr(shown))


def test_a_value_masked_by_its_name_is_masked_everywhere() -> None:
    masking = Masking.of({"api_token": "s3cr3t-one", "other": "s3cr3t"}, ["--db-password=s3cr3t-one-and-two", "x"])
    given = {"argument": ["--value", "s3cr3t-one"], "url": "https://me:s3cr3t-one-and-two@host", "n": 3}
    assert masking(given) == {"argument": ["--value", MASK], "url": f"https://me:{MASK}@host", "n": 3}
    assert contains_mask(masking(given)["url"])
    assert masking.message("refused: s3cr3t-one, s3cr3t") == f"refused: {MASK}, s3cr3t"


def test_short_values_are_masked_only_under_a_secret_name() -> None:
    masking = Masking.of({"USE_AUTH": "true", "token": "1234"})
    assert masking({"USE_AUTH": "true", "cached": "true", "port": "1234"}) == {
        "USE_AUTH": MASK,
        "cached": "true",
        "port": "1234",
    }


def test_the_default_of_a_parameter_with_a_secret_name_is_masked() -> None:
    found: list[str] = []
    given = [{"Name": "ApiToken", "Type": "String", "DefaultValue": "abc-def-ghi"}, {"Name": "Rate", "DefaultValue": 1}]
    assert mask(given, found=found) == [{"Name": "ApiToken", "Type": "String", "DefaultValue": MASK}, given[1]]
    assert found == ["abc-def-ghi"]


GITHUB = "ghp_" + "a1B2c3" * 6
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"

KEYS = [
    "FwoGZXIvYXdzE" + "a/1+" * 30 + "==",
    "api_org_" + "aB" * 17,
    "sk-proj-" + "a1_-" * 10,
    "sk-ant-api03-" + "a1" * 20,
    "AIza" + "a1-_x" * 7,
    "ya29." + "a1-" * 10,
    "GOCSPX-" + "a1-" * 8,
    "sk_live_" + "a1" * 12,
    "rk_test_" + "a1" * 12,
    "SG." + "a1" * 11 + "." + "b2" * 20,
    "SK" + "a1" * 16,
    "npm_" + "aB1" * 12,
    "pypi-AgEI" + "a1" * 30,
    "dapi" + "a1" * 16,
    "hvs." + "aB1" * 10,
    "dop_v1_" + "a1" * 32,
    "dp.pt." + "aB1" * 14,
    "dp.st.dev." + "aB1" * 14,
    "AGE-SECRET-KEY-1" + "QZ3" * 19,
]


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
        ("xapp-1-A0B1C2-123-" + "a1" * 10, MASK),
        ("https://hooks.slack.com/services/T00/B00/" + "a1" * 12, f"https://hooks.slack.com/{MASK}"),
        ("https://discord.com/api/webhooks/123456/" + "a-" * 15, f"https://discord.com/api/webhooks/{MASK}"),
        *((f"uses {key}, again", f"uses {MASK}, again") for key in KEYS),
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
        "sk-learn-is-not-the-name-of-a-key",
        "max_tokens: 512, token=17, token_accuracy=0.93, eos_token: </s>",
        "def f(token: str, password=None) -> Client(api_key=os.environ['API_KEY'])",
        "password = get_password(), token=token)",
        "Unexpected token: the word. password: required to be set",
        "usage: load [-h] --api-token API_TOKEN [--password PASSWORD]",
        "KeyError: 'api_key'",
        "token=$TOKEN, ${{ secrets.X }}, password=%(password)s",
        "train_tokens_per_second=3.2e+05",
        "token_time=0.12s",
        "token_f1: 0.91±0.01",
        "secret_recall=0.85±0.01",
        "token: 5/100",
        "password_acc: 0.2/1",
        "auth_time=1.5ms",
        "token_mem=3.5GB",
        "token_n=1_005",
        "{'token_f1': np.float64(0.75)}",
        "--token_loss 0.45s",
        "--token 42k",
        "token_loss=nan",
        "token_loss=-inf",
        "train.py: error: argument --token: expected one argument",
        "    password = config.password",
        "token = self.token",
        "if password == expected_password:",
        'assert token == "abc"',
        "--password Password of the database",
        "{'token': 262, 'token_str': 'the'}",
        "{'entity': 'B-PER', 'token': 'Wolfgang'}",
        "token: 'hello'",
        "unexpected token: '}'",
        "auth: ok",
        "auth: disabled",
        "authorization: denied",
        "token_type=word",
        "auth_method=iam",
        "token_path=tokens.json",
        "arn:aws:secretsmanager:eu-west-1:1234:secret:x",
        'token_pattern=r"\\w+"',
        "The token to use as HTTP bearer authorization for files.",
        "TOKEN = auto(), CACHE_KEY = WeakKeyDictionary()",
        "token_type_ids = buffered_token_type_ids_expanded",
        "['password', 'username'], ('password', 'username')",
        "('token', 'word', 3)",
        '{"name": "token", "description": "value: of it"}',
        "<td>token</td>",
        "tool -u me:x, without the command that takes it",
        "45%|████      | 45/100",
        "https://h/a%20b?page%3D2",
        "gl-global-step, OTHER, MTU, ya, msg.x",
        "s3://b/token=abcdefgh/part.parquet",
        "s3://b/day=2026-01-01/token=abcdefgh/part-00012-a1b2.parquet",
        "['API_TOKEN', 'S3_BUCKET'], ['DB_PASSWORD', 'region']",
        "echo $DB_PASSWORD | base64 && cat secret | sha256sum -b",
        "| token | count |\n| API_TOKEN | The token of the service |",
        "password:\n  users:\n    - 12345",
        "bad token:\n2026-01-01T12:00:00Z INFO goes on",
        "ENV DB_PASSWORD must be there. def f(token) -> Token, token -> id",
        '{"Name": "DB_PASSWORD", "Type": "String"}, {"Name": "REGION", "Value": "eu-west-1"}',
        "- name: DB_PASSWORD\n  valueFrom: x\n- name: REGION\n  value: eu-west-1",
    ],
)
def test_ordinary_texts_are_left_alone(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export API_KEY=abc", "abc"),
        ("env: API_KEY=abc12", "abc12"),
        ("--password hunter2 --n 3", "hunter2"),
        ("--password=hunter2", "hunter2"),
        ("{'password': 'hunter2 too', 'n': 3}", "hunter2 too"),
        ('{"api_key": "x y z"}', "x y z"),
        ('"{\\"api_key\\": \\"abcdef\\"}"', "abcdef"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("{'Authorization': 'Bearer abcdefghij'}", "abcdefghij"),
        ("host=h password=hunterpass dbname=x", "hunterpass"),
        ("curl -u me:hunter2 https://h", "hunter2"),
        ("api_key: abcdefg", "abcdefg"),
        ("PGPASSWORD=correcthorse psql", "correcthorse"),
        ("AccountKey=abc+/def==;EndpointSuffix=x", "abc+/def=="),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPx", "wJalrXUtnFEMI/K7MDENG/bPx"),
        ("sv=2024-11-04&sp=r&sig=" + "aB1%2F" * 6, "aB1%2F" * 6),
        ("Command '['false', '--password', 'XYZ12345']' returned", "XYZ12345"),
        ("password = b'XYZ12345'", "XYZ12345"),
        ('password=f"XYZ12345"', "XYZ12345"),
        ("os.environ['API_TOKEN'] = 'XYZ12345'", "XYZ12345"),
        ("config['password'] = 'XYZ12345'", "XYZ12345"),
        ('d["password"]: XYZ12345', "XYZ12345"),
        ("password    =    XYZ12345", "XYZ12345"),
        ("DB_PASS=XYZ12345", "XYZ12345"),
        ("OPENAI_KEY=XYZ12345", "XYZ12345"),
        ("API_TOKEN := XYZ12345", "XYZ12345"),
    ],
)
def test_a_value_after_a_secret_name_in_a_text_is_masked(text: str, secret: str) -> None:
    assert without_secrets(f"said:\n{text}\nand more") == f"said:\n{text.replace(secret, MASK)}\nand more"


@pytest.mark.parametrize("write", [
    str, json.dumps, repr, ascii, shlex.quote, quote, quote_plus,
    lambda text: quote(text, safe=""), lambda text: str(text.encode()), lambda text: json.dumps(json.dumps(text)),
    lambda text: text.replace("'", "'\\''"),
])  # fmt: skip
def test_a_variables_value_is_masked_however_it_is_written(
    write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", value := "ab'c\"d\u00e9 f\n12")
    assert without_secrets(f"({write(value)})").strip("()b\\\"'") == MASK


@pytest.mark.parametrize("seed", range(2))
def test_every_kind_of_secret_is_masked_in_every_context(seed: int) -> None:
    """`0 found` of what docs/masking.md names: in log lines, JSON, URLs, exceptions."""
    left = [
        (kind, place, masked)
        for kind, (text, parts) in made_up(seed).items()
        for place, write in PLACES.items()
        if leaks(masked := without_secrets(write(text)), parts)
    ]
    assert left == []


def test_masking_a_key_keeps_the_rest_of_the_line() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"
    losses = "loss=0.50\nloss=0.51\n"
    assert without_secrets(f"bad: {key[:27]}\n{losses}{key}\nend") == f"bad: {MASK}\n{losses}{MASK}\nend"
    assert without_secrets(f"{key[:27]}\nMIIE\nTraceback (most recent") == f"{MASK}\nTraceback (most recent"
    behind_times = key.replace("\n", "\n12:00:01 INFO ")
    assert without_secrets(behind_times) == MASK


def test_a_variable_names_additional_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIVETRAIN_MASK", "Mrs Doe\nxyz")
    assert without_secrets("Mrs Doe has xyz.") == f"{MASK} has {MASK}."


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
    "piece",
    [
        *("a", "a:", "://", "://a:", "eyJ", "eyJ.", "-----BEGIN ", "AKIA", "ghp_", "xoxb-", "?a="),
        *("authorization: abc ", 'token="', "token='\\", "--token ", "curl -u a:", "-----BEGIN PRIVATE KEY-----\n"),
        *(
            "sk-",
            "MT",
            "token",
            "token\\\\",
            'token\\"',
            'token=\\"',
            "%25",
            "%41 ",
            "a%20",
            "curl ",
            "curl -u ",
            "name=token,",
        ),
        *("['token', ", "token |", "token:\n", "ENV TOKEN ", 'name="token",type=a,', 'value="a",type="b",name="token'),
        *("bearer ", 'value="a",name="token', "('token', ", "--token: invalid a"),
    ],
)
def test_masking_takes_linear_time(piece: str) -> None:
    """Four times the text takes four times as long; sixteen times where each start reads on to the end."""
    short, long = (_seconds_to_mask(piece, length) for length in (10_000, 40_000))
    assert long < 9 * short + 0.02


def _seconds_to_mask(piece: str, length: int) -> float:
    text = "x://" + piece * (length // len(piece))
    began = time.process_time()
    without_secrets(text)
    return time.process_time() - began
