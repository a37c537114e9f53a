"""One request to the Pipelines API: the token, time-outs, repeats, and one clear error.

A request is repeated after 429, 5xx and lost connections, but for a 500 that blames the request: for a minute and a
half once the API has answered, so that a restart of it does no harm, and for seconds before that, so that a wrong
address is said at once. What must not happen twice is sent with `repeat=False`: where its answer is lost, the caller
looks whether it is done.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any, cast

from drivetrain.base.errors import UserError
from drivetrain.targets.deployer import FOLLOWING_SECONDS, say_unanswered
from drivetrain.targets.kubeflow.deploy.bounded import handlers
from drivetrain.targets.kubeflow.deploy.shapes import Shape, problem_of

TOKEN_VARIABLE = "KF_PIPELINES_TOKEN"
TOKEN_PATH_VARIABLE = "KF_PIPELINES_SA_TOKEN_PATH"
"""Also of the official client: the file with a service account's token."""
MAX_SAID = 240
NO_ANSWER = "Check the address (deployment.targets.kubeflow.endpoint) and the network, and try again."
SERVER_FAILS = "Try again later, or look into the log of the server (deployment ml-pipeline of the cluster)."
MAX_ANSWER = 64 * 1024 * 1024

Json = dict[str, Any]


@dataclass(frozen=True)
class Patience:
    """How long a request is tried. `clock` and `pause` are replaced in tests."""

    answer_seconds: float = 30.0
    """Without an answer, or more of it, for so long, an attempt has failed."""
    whole_seconds: float = 60.0
    """An answer that has not ended after so long has failed, too."""
    first_seconds: float = 3.0
    """For the first request of all."""
    seconds: float = 90.0
    """For each later one."""
    longest_pause: float = 10.0
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep


class ApiError(UserError):
    """A request that was not done, as far as is known.

    Attributes:
        status: of the answer; 0 where none came.
        may_be_done: whether it may have been done all the same.
    """

    def __init__(self, message: str, *, status: int = 0, may_be_done: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.may_be_done = may_be_done


class AbsentError(ApiError):
    """There is no such thing."""


class ForeignError(ApiError):
    """The answer is not one of the Pipelines API."""


class ConflictError(ApiError):
    """A thing of that name is there already."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect leads to a login page; following it would give the token away."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


class Api:
    """The Pipelines API at an address, for one namespace."""

    def __init__(
        self, endpoint: str, namespace: str, token_file: str | None = None, patience: Patience | None = None
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self.namespace = namespace
        self._token_file = token_file
        self._patience = patience or Patience()
        self._answered = False
        self._followed = False
        self._opener = urllib.request.build_opener(_NoRedirect, *handlers(self._patience.whole_seconds))

    def call(
        self,
        method: str,
        path: str,
        *,
        about: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        file: bytes | None = None,
        repeat: bool = True,
        shape: Shape = "object",
    ) -> Json:
        """The answer, a JSON object.

        Args:
            path: from `/apis/` on, its parts quoted.
            about: what it is about, for messages: `pipeline 'retraining'`.
            file: is uploaded, as a form.
            repeat: whether doing it twice is the same as once.
            shape: what the answer looks like.

        Raises:
            AbsentError, ConflictError, ApiError: see there.
        """
        content = self._repeated(method, path, about, query or {}, body, file, repeat=repeat)
        try:
            answer: Any = json.loads(content or b"{}")
        except (ValueError, RecursionError):
            answer = None
        if problem := problem_of(answer, shape):
            raise self._foreign(method, path, may_be_done=not repeat, problem=problem)
        return cast("Json", answer)

    @contextmanager
    def followed(self) -> Generator[None]:
        """Within it, requests are repeated for some minutes: for who follows an execution, and only reads."""
        self._followed = True
        try:
            yield
        finally:
            self._followed = False

    def text(self, path: str, *, about: str) -> str:
        """The answer to a GET, as text. That of 500 is the last: so the API says that a log is gone."""
        content = self._repeated("GET", path, about, {}, None, None, repeat=True, last=500)
        return content.decode(errors="replace")

    def _repeated(
        self,
        method: str,
        path: str,
        about: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None,
        file: bytes | None,
        *,
        repeat: bool,
        last: int = 0,
    ) -> bytes:
        patience = self._patience
        url = self.endpoint + path + (f"?{urllib.parse.urlencode(query)}" if query else "")
        began, pause, told = patience.clock(), 0.25, False
        while True:
            wait, done = pause, False
            try:
                content = self._send(method, url, body, file)
                self._answered = True
                return content
            except urllib.error.HTTPError as error:
                self._answered = self._answered or error.code < 500
                chain = _said(error)
                said = _last_causes(chain)
                if error.code == 404 and error.headers.get_content_type() != "application/json":
                    raise self._foreign(method, url, may_be_done=False, status=404) from None
                if error.code == last or _is_refusal(error.code, chain):
                    raise self._refused(error.code, said, about) from None
                done = error.code != 429
                problem, advice = f"failed ({error.code}{': ' if said else ''}{said})", SERVER_FAILS
                wait = max(pause, _seconds(error.headers.get("Retry-After")))
            except (OSError, EOFError, HTTPException) as error:
                reason = getattr(error, "reason", error)
                done = not isinstance(reason, ConnectionRefusedError)
                problem, advice = " ".join(str(reason).split())[:MAX_SAID] or type(reason).__name__, NO_ANSWER
            most = patience.seconds if self._answered else patience.first_seconds
            spent = patience.clock() - began
            if self._followed:
                most = FOLLOWING_SECONDS
                if not told and spent > patience.first_seconds:
                    told = True
                    say_unanswered(f"The Pipelines API at {self.endpoint} does not answer, {about}: {problem}.")
            wait = min(wait, patience.longest_pause)
            if spent + wait > most or (done and not repeat):
                raise ApiError(
                    f"The Pipelines API at {self.endpoint} did not do it, {about}: {problem}. Tried for {spent:.0f} s. "
                    f"{advice}",
                    may_be_done=done,
                )
            patience.pause(wait)
            pause *= 2

    def _foreign(
        self, method: str, asked: str, *, may_be_done: bool, problem: str = "", status: int = 0
    ) -> ForeignError:
        what = f"{method} {asked.partition('?')[0]}" + (f": {problem}" if problem else "")
        return ForeignError(
            f"{self.endpoint} did not answer as the Pipelines API does ({what}): it leads to "
            "something else, or to a page to log in. Check deployment.targets.kubeflow.endpoint and the token.",
            status=status,
            may_be_done=may_be_done,
        )

    def _send(self, method: str, url: str, body: Mapping[str, Any] | None, file: bytes | None) -> bytes:
        headers = {"Accept": "application/json"}
        data = None
        if file is not None:
            boundary = uuid.uuid4().hex
            headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
            head = f'--{boundary}\r\nContent-Disposition: form-data; name="uploadfile"; filename="pipeline.yaml"\r\n'
            data = f"{head}Content-Type: application/yaml\r\n\r\n".encode() + file + f"\r\n--{boundary}--\r\n".encode()
        elif body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body, allow_nan=False).encode()
        if token := self._token():
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(url, data, headers, method=method)
        with self._opener.open(request, timeout=self._patience.answer_seconds) as answer:
            return cast(bytes, answer.read(MAX_ANSWER))

    def _token(self) -> str:
        """Read for each request: a cluster renews the file.

        Raises:
            ApiError: it cannot be read, or is no token; it is not shown.
        """
        token = self._token_text()
        if not all("!" <= letter <= "~" for letter in token):
            where = self._token_file or f"${TOKEN_VARIABLE} or ${TOKEN_PATH_VARIABLE}"
            raise ApiError(
                f"The token in {where} has spaces, line breaks or letters that no token has. Put one token there."
            )
        return token

    def _token_text(self) -> str:
        file = self._token_file or (not os.environ.get(TOKEN_VARIABLE) and os.environ.get(TOKEN_PATH_VARIABLE)) or None
        if file is None:
            return os.environ.get(TOKEN_VARIABLE, "").strip()
        try:
            token = Path(file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise ApiError(f"The token file {file} cannot be read: {why}.") from None
        if not token:
            raise ApiError(f"The token file {file} is empty. Put a token there, or name no file where none is needed.")
        return token

    def _refused(self, status: int, said: str, about: str) -> ApiError:
        tail = f": {said}" if said else ""
        if status == 401 or 300 <= status < 400:
            where = f"the file {self._token_file}" if self._token_file else f"${TOKEN_VARIABLE}"
            return ApiError(
                f"{self.endpoint} does not know who asks ({status}{tail}): the token is missing or expired. Put a new "
                f"one into {where}.",
                status=status,
            )
        if status == 403:
            return ApiError(
                f"{self.endpoint} does not allow it in namespace {self.namespace!r}, {about}{tail}. Ask for the role "
                "kubeflow-edit there, or name another namespace (deployment.targets.kubeflow.namespace).",
                status=status,
            )
        if status == 404:
            return AbsentError(f"There is no {about} at {self.endpoint}{tail}.", status=status)
        if status == 409:
            return ConflictError(f"There is already a {about} at {self.endpoint}{tail}.", status=status)
        return ApiError(f"{self.endpoint} does not take it, {about} ({status}{tail}).", status=status)


def _said(error: urllib.error.HTTPError) -> str:
    try:
        content: Any = json.loads(error.read())
        said = str(content.get("message") or content.get("error_message") or content.get("error") or "")
    except (OSError, ValueError, AttributeError, HTTPException):
        said = str(error.reason)
    return " ".join(said.split()).rstrip(".")


def _last_causes(chain: str) -> str:
    """The end of the API's chain of causes, as long as a line takes: the first ones say only what was asked for."""
    if len(chain) <= MAX_SAID:
        return chain
    return "... " + chain[-MAX_SAID:].partition(": ")[2] if ": " in chain[-MAX_SAID:] else chain[:MAX_SAID]


def _is_refusal(status: int, chain: str) -> bool:
    """True where the answer is the same every time: the API answers 500 to much that is wrong with a request, too."""
    blames_request = "Invalid input error" in chain or "ResourceNotFoundError" in chain
    return blames_request if status == 500 else status != 429 and status < 500


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isascii() and text.isdigit() else 0.0
