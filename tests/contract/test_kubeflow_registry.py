"""The stand-in of Kubeflow Model Registry against what the real one was recorded to answer: v0.3.8 over MariaDB 10.11
and PostgreSQL 16.2 (tests/fixtures/kubeflow_registry). Ids, times and tokens of pages are the server's own."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.fixtures.kubeflow_server import BASE, Database, kubeflow_server

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "kubeflow_registry"
Json = dict[str, Any]
CUT = re.compile(r"(.*)\.\.\. \((\d+) characters\)", re.DOTALL)
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def asked(address: str, method: str, path: str, body: Any) -> tuple[int, str | None, Any]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    try:
        # A body of a text was recorded as the bytes that were sent.
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        connection.request(method, BASE + path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text, kind = answer.read().decode(), answer.getheader("Content-Type")
        return answer.status, kind, json.loads(text) if kind and "json" in kind else text
    finally:
        connection.close()


def whole(value: Any) -> Any:
    """A request as it was sent: texts that were cut for the recording at their length."""
    if isinstance(value, dict):
        return {name: whole(each) for name, each in value.items()}
    if isinstance(value, str) and (cut := CUT.fullmatch(value)):
        return cut[1].ljust(int(cut[2]), "x")
    return value


class Replay:
    """Holds answers against recorded ones, and learns which of our ids stands for which recorded one."""

    def __init__(self) -> None:
        self.ours: dict[str, str] = {}

    def translated(self, text: str) -> str:
        for theirs, ours in sorted(self.ours.items(), key=lambda pair: -len(pair[0])):
            text = re.sub(rf"(?<![0-9A-Za-z]){re.escape(theirs)}(?![0-9A-Za-z])", ours, text)
        return text

    def request(self, recorded: Json) -> tuple[str, str, Any]:
        body = whole(recorded["body"])
        if isinstance(body, dict) and "registeredModelId" in body:
            body = {**body, "registeredModelId": self.translated(body["registeredModelId"])}
        elif isinstance(body, str):
            body = self.translated(body)
        path, _, query = recorded["path"].partition("?")
        words = [word.partition("=") for word in query.split("&") if word]
        given = {"nextPageToken", "parentResourceId"}
        words = [
            (name, sign, next((quote(o) for t, o in self.ours.items() if quote(t) == value), value))
            if name in given
            else (name, sign, value)
            for name, sign, value in words
        ]
        query = "&".join("".join(word) for word in words)
        return recorded["method"], self.translated(path) + (f"?{query}" if query else ""), body

    def differences(self, expected: Any, found: Any, at: str = "") -> list[str]:
        if isinstance(expected, dict) and isinstance(found, dict):
            names = (expected.keys() | found.keys()) - {"cut"}
            if "cut" in expected:
                found = {**found, "items": found["items"][: len(expected["items"])]}
            if missing := [name for name in names if name not in expected or name not in found]:
                return [f"{at}: {name} is on one side only" for name in missing]
            return [line for name in sorted(names) for line in self.field(name, expected[name], found[name], at)]
        if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
            pairs = enumerate(zip(expected, found, strict=True))
            return [line for index, (one, other) in pairs for line in self.differences(one, other, f"{at}[{index}]")]
        if isinstance(expected, str) and (cut := CUT.fullmatch(expected)):
            expected, found = (cut[1], int(cut[2])), (found[: len(cut[1])], len(found))
        return [] if expected == found else [f"{at}: expected {expected!r}, found {found!r}"]

    def field(self, name: str, expected: Any, found: Any, at: str) -> list[str]:
        if name.endswith("TimeSinceEpoch"):
            return [] if re.fullmatch(r"\d{13}", found) else [f"{at}.{name}: {found!r} is no time"]
        if name == "id" or (name == "nextPageToken" and expected and found):
            self.ours[expected] = found
            return []
        if name == "registeredModelId":
            expected = self.translated(expected)
        if name == "name" and UUID.fullmatch(expected) and UUID.fullmatch(found):
            return []
        return self.differences(expected, found, f"{at}.{name}")


@pytest.mark.parametrize(("file", "database"), [("v0.3.8-mysql", "mysql"), ("v0.3.8-postgres", "postgresql")])
def test_each_recorded_request_is_answered_as_by_the_real_server(file: str, database: Database) -> None:
    recorded = json.loads((RECORDINGS / f"{file}.json").read_text())
    replay, wrong = Replay(), list[str]()
    with kubeflow_server(database) as (address, store):
        # The recorded registry held other models.
        first = next(each for each in recorded if each["name"] == "models-page-1")["answer"]["body"]["items"][0]["name"]
        for name in (first, "another"):
            store.make("models", {"name": name})
        for each in recorded:
            status, kind, body = asked(address, *replay.request(each["request"]))
            answer = each["answer"]
            if (status, kind) != (answer["status"], answer["content_type"]):
                wrong.append(f"{each['name']}: {status}, {kind}: {body}; expected {answer}")
            else:
                wrong += [f"{each['name']}{line}" for line in replay.differences(answer["body"], body)]
    assert wrong == [] and len(recorded) == 65


def test_a_lost_database_is_answered_as_by_the_real_server() -> None:
    """Messages in the recording are shortened."""
    recorded = json.loads((RECORDINGS / "database-away-postgres.json").read_text())
    found: list[Any] = []
    with kubeflow_server("postgresql") as (address, store):
        store.away = len(recorded)
        for each in recorded:
            request = each["request"]
            body = None if request["method"] == "GET" else {}
            status, _, said = asked(address, request["method"], request["path"], body)
            found.append((request, status, said["code"], said["message"].partition("failed to connect")[0]))
        assert store.away == 0
    assert found == [
        (
            each["request"],
            each["answer"]["status"],
            each["answer"]["body"]["code"],
            each["answer"]["body"]["message"].partition("failed to connect")[0],
        )
        for each in recorded
    ]
