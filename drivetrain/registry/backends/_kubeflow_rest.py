"""Requests to Kubeflow Model Registry: repeated where another attempt can help, and told in words that say what to do;
and models, versions and artifacts as its answers describe them.

Every request may be repeated: names and external ids are unique in the registry, so what was made already is refused.
A server that has lost its database says so with 500, with 400 ("invalid filter query, type mismatch") and with 404 for
an id that exists. These requests are repeated, too; such an answer never counts as "missing".

A token is read from the file that $KF_PIPELINES_SA_TOKEN_PATH names, as the official client does. No redirect is
followed: it leads to a page for people to log in, which would get the token.
"""

from __future__ import annotations

import base64
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from drivetrain.base.errors import InputError
from drivetrain.registry.registry import RegistryError, shown

if TYPE_CHECKING:
    from http.client import HTTPMessage

ATTEMPTS = 5
"""The most attempts of a request that fails in a way that may pass."""
FIRST_PAUSE = 0.25
"""Seconds before the second attempt; each later pause is twice the one before."""
ANSWER_SECONDS = 30.0
PAGE = 200
TOKEN_VARIABLE = "KF_PIPELINES_SA_TOKEN_PATH"
BASE = "/api/model_registry/v1alpha3"
_LOST_DATABASE = "invalid filter query, type mismatch"
# MySQL's "data too long" and "packet too large", and PostgreSQL's "value too long": they stay.
_TOO_LARGE = re.compile(r"Error (1406|1153)\b|\b22001\b")
# Of something that the registry itself has just named.
_OF_AN_ID = re.compile(r"/[0-9]+(/|$)")
_NONE_FOUND = re.compile(r"no [a-z ]+s found for ")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

Json = dict[str, Any]
NUMBER = re.compile(r"[1-9][0-9]{0,8}")
"""The name of a version of ours: no 007, no digits but ASCII's."""


class AnswerError(Exception):
    """The server's answer was not what was asked for. `is_json`: it is the registry's own, not a proxy's."""

    def __init__(self, status: int, said: str, *, is_json: bool) -> None:
        super().__init__(f"{said} ({status})")
        self.status = status
        self.is_json = is_json


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


class Rest:
    """The API at an address. One object serves any number of threads."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._opener = urllib.request.build_opener(_NoRedirect)

    def find(self, path: str, **query: str) -> Json | None:
        """The one resource that a search finds; None if the registry says that there is no such resource.

        Raises:
            InputError: see `done`.
        """
        try:
            return self.ask("GET", f"{path}?{urllib.parse.urlencode(query)}")
        except AnswerError as error:
            if error.status != 404 or str(error).startswith("multiple "):
                raise self.refused(error) from None
            if not _NONE_FOUND.match(str(error)):
                # Whatever else answers at a wrong address says 404, too; only a registry lists its models.
                self.done("GET", "/registered_models?pageSize=1", has="pageSize")
        return None

    def pages(self, path: str, *, where: str = "", first: int = PAGE, newest_first: bool = False) -> Iterator[Json]:
        """The resources of a list by id, read as far as they are asked for.

        Args:
            where: a filterQuery. A server that knows none leaves it out, so look at what comes.
            first: how many are asked for at first.
        """
        query = {"pageSize": str(first), "orderBy": "ID", "sortOrder": "DESC" if newest_first else "ASC"}
        if where:
            query["filterQuery"] = where
        while True:
            page = self.done("GET", f"{path}?{urllib.parse.urlencode(query)}", has="pageSize")
            for resource in cast("list[Any]", page.get("items") or []):
                if not isinstance(resource, dict) or "id" not in resource:
                    raise self._foreign("GET", path)
                yield cast("Json", resource)
            token = page.get("nextPageToken")
            if not token:
                return
            query |= {"nextPageToken": str(token), "pageSize": str(max(first, 20))}

    def done(self, method: str, path: str, body: Json | None = None, *, has: str = "id") -> Json:
        """As `ask`, where every refusal is an error.

        Raises:
            InputError: the registry does not take it.
            RegistryError: see `ask`; it refuses, or it is no registry.
        """
        try:
            return self.ask(method, path, body, has=has)
        except AnswerError as error:
            raise self.refused(error) from None

    def ask(self, method: str, path: str, body: Json | None = None, *, has: str = "id") -> Json:
        """The answer to a request.

        Args:
            has: a field that the registry's own answers always have: `id` of a resource, `pageSize` of a list.

        Raises:
            AnswerError: the server answers with a status that another attempt does not change.
            InputError: a text that no such registry can keep.
            RegistryError: no answer, nothing but failures, or an answer of something else than the registry.
        """
        data = None if body is None else _written(body)
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                content = self._send(method, path, data)
            except AnswerError as error:
                if not _may_pass(error, path):
                    raise
                problem = f"failed, {method} {path.partition('?')[0]}, in {ATTEMPTS} attempts: {error}"
            except InputError:
                raise  # the token, or another server: no other attempt mends it
            except (OSError, EOFError, ValueError) as error:  # URLError and lost connections
                reason = " ".join(str(getattr(error, "reason", error)).split())[:160] or type(error).__name__
                problem = f"cannot be reached in {ATTEMPTS} attempts: {reason}"
            else:
                try:
                    answer: Any = json.loads(content)
                except (ValueError, RecursionError):
                    answer = None
                if not isinstance(answer, dict) or has not in answer:
                    raise self._foreign(method, path)
                return cast("Json", answer)
        raise RegistryError(f"{self.address} {problem}. Check the address and the network, and try again.")

    def refused(self, error: AnswerError) -> InputError:
        """A refusal in words that say what to do."""
        if error.status in (401, 403):
            return RegistryError(
                f"{self.address} refuses: {error}. Name a file with a token that may use it in ${TOKEN_VARIABLE}."
            )
        if error.status == 404:
            return RegistryError(f"{self.address} has no such path or resource: {error}. Check the address.")
        return InputError(f"{self.address} does not take it: {error}.")

    def _foreign(self, method: str, path: str) -> RegistryError:
        return RegistryError(
            f"{self.address} did not answer as Kubeflow Model Registry does, {method} {path.partition('?')[0]}: it "
            "leads to something else, or to a page to log in. Check the address."
        )

    def _send(self, method: str, path: str, data: bytes | None) -> bytes:
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        if file := os.environ.get(TOKEN_VARIABLE):
            headers["Authorization"] = f"Bearer {_token(file)}"
        request = urllib.request.Request(f"{self.address}{BASE}{path}", data, headers, method=method)
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
                return cast("bytes", answer.read())
        except urllib.error.HTTPError as error:
            if 300 <= error.code < 400:
                place = urllib.parse.urlsplit(str(error.headers.get("Location") or ""))
                where = shown(f"{place.scheme}://{place.netloc}") if place.netloc else "another place"
                raise RegistryError(
                    f"{self.address} redirects to {where} ({error.code}). Give the address of the service itself; a "
                    f"page to log in asks for a token, in the file of ${TOKEN_VARIABLE}."
                ) from None
            raise _answer(error) from None
        except Exception as error:
            import http.client

            if isinstance(error, http.client.HTTPException):  # an answer that broke off
                raise ConnectionError(str(error) or type(error).__name__) from None
            raise


def _may_pass(error: AnswerError, path: str) -> bool:
    """True where another attempt may be answered differently."""
    if error.status == 404:
        return error.is_json and _OF_AN_ID.search(path.partition("?")[0]) is not None
    if error.status == 400:
        return _LOST_DATABASE in str(error)
    return error.status == 429 or (error.status >= 500 and _TOO_LARGE.search(str(error)) is None)


def _written(body: Mapping[str, Any]) -> bytes:
    """A body as JSON. The registry refuses one that holds the six characters `\\u0000` anywhere, also where they are
    no NUL but a text's own; so such a text's backslash is written as an escape.

    Raises:
        InputError: a text holds a NUL character, which its databases cannot keep.
    """
    text = json.dumps(body, allow_nan=False)
    if found := _NUL.search(text):
        before = text[max(0, found.start() - 60) : found.start()]
        raise InputError(f"a text for the registry holds a NUL character, which it cannot keep, after {before!r}.")
    return text.replace("\\\\u0000", "\\u005cu0000").encode()


def _answer(error: urllib.error.HTTPError) -> AnswerError:
    is_json = True
    try:
        content: Any = json.loads(error.read())
        said = str(content["message"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        said, is_json = str(error.reason), False
    # A message may name a property of any length first.
    said = " ".join(said.split()).rstrip(".")
    said = said if len(said) <= 160 else f"{said[:60]} ... {said[-95:]}"
    return AnswerError(error.code, said or "no reason given", is_json=is_json)


def _token(file: str) -> str:
    """Read for each request: a cluster renews the file."""
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise RegistryError(f"the token of ${TOKEN_VARIABLE} cannot be read: {file}: {why}.") from None
    if not token or not all("!" <= letter <= "~" for letter in token):
        raise RegistryError(
            f"the file of ${TOKEN_VARIABLE}, {file}, holds no token: it is empty, or has spaces, line breaks or "
            "letters that no token has. Put one token there."
        )
    return token


def has_number(version: Json) -> bool:
    """True for a version that is named by a number. Others are left alone."""
    return NUMBER.fullmatch(str(version.get("name"))) is not None


def is_ours(version: Json) -> bool:
    """True for a version with a number that is not archived."""
    return has_number(version) and version.get("state") != "ARCHIVED"


def texts(tags: Mapping[str, str]) -> Json:
    """Properties that are texts."""
    return {name: {"metadataType": "MetadataStringValue", "string_value": text} for name, text in tags.items()}


def properties(resource: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The properties of a resource: its own name for a value, and its type."""
    return cast("Mapping[str, Mapping[str, Any]]", resource.get("customProperties") or {})


def with_texts(resource: Json, tags: Mapping[str, str]) -> Json:
    """All properties of a resource, since a change replaces them, with these texts. The registry answers a struct as
    JSON and takes it as base64."""
    found: Json = {}
    for name, value in properties(resource).items():
        struct = str(value.get("struct_value", ""))
        is_json = struct.startswith("{")
        found[name] = {**value, "struct_value": base64.b64encode(struct.encode()).decode()} if is_json else value
    return {**found, **texts(tags)}


def tags_in(resource: Mapping[str, Any]) -> dict[str, str]:
    """The properties that are texts."""
    return {name: str(value["string_value"]) for name, value in properties(resource).items() if "string_value" in value}


def count(resource: Json, name: str) -> int:
    """A property that counts; 0 if it is missing."""
    text = str(properties(resource).get(name, {}).get("int_value"))
    return int(text) if NUMBER.fullmatch(text) else 0


def seconds(resource: Mapping[str, Any]) -> float:
    """When a resource was made, in seconds since 1970."""
    return int(resource.get("createTimeSinceEpoch") or 0) / 1000
