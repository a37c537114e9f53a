"""Serves a model by its own code: `python server.py MODEL_FOLDER CODE_FOLDER SCRIPT [HOST]`.

It listens on $SAGEMAKER_BIND_TO_PORT (8080) of HOST, by default of this machine alone.

It is what a framework's inference image does (https://github.com/aws/sagemaker-inference-toolkit): SCRIPT, a module of
CODE_FOLDER, has model_fn(model_dir), and input_fn(body, content_type), predict_fn(data, model) and
output_fn(prediction, accept), or transform_fn(model, body, content_type, accept) in place of the three; each may take
one argument more, the context. What is not there is done as the toolkit does it: JSON, CSV and NPY become arrays and
arrays become these; a model is called. Standard library only, and nothing of Drivetrain: a model brings its own.
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, cast

_JSON, _CSV, _NPY = "application/json", "text/csv", "application/x-npy"
Answer = tuple[bytes, str]
# A connection on which nothing comes or goes for so long is closed.
_IDLE_S = 60.0
# Further connections wait to be accepted until one of these has ended.
MOST_CONNECTIONS = 32
_PIECE_BYTES = 1 << 20
_LONGEST_LINE, _MOST_TRAILERS = 1 << 12, 100
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r?\n", re.DOTALL)
_LENGTH = re.compile(r"[0-9]{1,18}")


class UnsupportedError(ValueError):
    """A content type that is not taken, or not given."""


class BodyError(Exception):
    """A request whose end cannot be known: it is refused, and its connection closed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Handler:
    """The user's module and its model."""

    def __init__(self, module: ModuleType, model_folder: str) -> None:
        self._module = module
        self._context = {"model_dir": model_folder}
        load = self._function("model_fn")
        if load is None:
            raise SystemExit(f"error: {module.__file__} has no model_fn(model_dir), which loads the model.")
        self._model = self._call(load, model_folder)

    def answer(self, body: bytes, content_type: str, accept: str) -> Answer:
        given: bytes | str = body.decode("utf-8") if _is_text(content_type) else body
        transform = self._function("transform_fn")
        if transform is not None:
            return _as_answer(self._call(transform, self._model, given, content_type, accept), accept)
        read, write = self._function("input_fn") or decoded, self._function("output_fn") or encoded
        data = self._call(read, given, content_type)
        predict = self._function("predict_fn")
        prediction = self._call(predict, data, self._model) if predict else _predicted(data, self._model)
        return _as_answer(self._call(write, prediction, accept), accept)

    def _function(self, name: str) -> Callable[..., Any] | None:
        return getattr(self._module, name, None)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        taken = [
            each
            for each in inspect.signature(function).parameters.values()
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        return function(*arguments, *([self._context] if len(taken) > len(arguments) else []))


def decoded(body: bytes | str, content_type: str) -> Any:
    """An array of JSON, CSV or NPY."""
    import numpy as np

    kind = content_type.partition(";")[0].strip().lower()
    if kind == _JSON:
        return np.array(json.loads(body))
    if kind == _CSV:
        text = body if isinstance(body, str) else body.decode("utf-8")
        return np.genfromtxt(io.StringIO(text), delimiter=",")
    if kind == _NPY and isinstance(body, bytes):
        return np.load(io.BytesIO(body), allow_pickle=False)
    raise UnsupportedError(f"content type {content_type!r} is not taken. Allowed: {_JSON}, {_CSV}, {_NPY}.")


def encoded(prediction: Any, accept: str) -> Answer:
    """JSON, CSV or NPY of an array, or of what can become one (a torch tensor)."""
    import numpy as np

    detach: Any = getattr(prediction, "detach", None)
    array: Any = np.asarray(prediction if detach is None else detach().cpu())
    kind = accept.partition(";")[0].strip().lower()
    if kind in ("", "*/*", _JSON):
        return json.dumps(array.tolist()).encode(), _JSON
    if kind == _CSV:
        text = io.StringIO()
        np.savetxt(text, np.atleast_1d(array), delimiter=",", fmt="%s")
        return text.getvalue().encode(), _CSV
    if kind == _NPY:
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        return stream.getvalue(), _NPY
    raise UnsupportedError(f"answers of type {accept!r} are not written. Allowed: {_JSON}, {_CSV}, {_NPY}.")


def _predicted(data: Any, model: Any) -> Any:
    predict = getattr(model, "predict", None)
    return predict(data) if callable(predict) else model(data)


def _as_answer(given: Any, accept: str) -> Answer:
    body: Any = given
    kind = accept
    if isinstance(given, tuple):
        body, kind = cast("tuple[Any, str]", given)
    if isinstance(body, str):
        return body.encode(), kind
    if isinstance(body, bytes | bytearray):
        return bytes(body), kind
    return encoded(body, kind)


def _is_text(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in (_JSON, "application/jsonlines", "application/x-ndjson")


def read_body(stream: io.BufferedIOBase, headers: Message) -> bytes:
    """The body of a request: of its Content-Length, in chunks, or none (RFC 9112, sections 6 and 7).

    Raises:
        BodyError: its length is not a number, given twice, or the body ends before it.
    """
    lengths, codings = headers.get_all("Content-Length", []), headers.get_all("Transfer-Encoding", [])
    if codings:
        if lengths:
            raise BodyError(400, "the request has Content-Length and Transfer-Encoding. Send one of them.")
        coding = ", ".join(codings).strip()
        if coding.lower() != "chunked":
            raise BodyError(501, f"Transfer-Encoding {coding!r:.60} is not taken. Allowed: chunked.")
        return _chunked(stream)
    if not lengths:
        return b""
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0].strip()):
        raise BodyError(400, f"Content-Length is {', '.join(lengths)!r:.60}. Allowed: one whole number from 0.")
    return _exactly(stream, int(lengths[0]))


def _chunked(stream: io.BufferedIOBase) -> bytes:
    body = bytearray()
    while True:
        size = _CHUNK_SIZE.fullmatch(stream.readline(_LONGEST_LINE))
        if size is None:
            raise BodyError(400, "the body has a chunk without a valid size.")
        length = int(size[1], 16)
        if not length:
            break
        body += _exactly(stream, length)
        if stream.readline(2) not in (b"\r\n", b"\n"):
            raise BodyError(400, "the body has a chunk that does not end where its size says.")
    for _ in range(_MOST_TRAILERS):
        line = stream.readline(_LONGEST_LINE)
        if line in (b"\r\n", b"\n"):
            return bytes(body)
        if not line.endswith(b"\n") or b":" not in line:
            break
    raise BodyError(400, "the body does not end after its last chunk.")


def _exactly(stream: io.BufferedIOBase, length: int) -> bytes:
    """Read in pieces: memory is taken for what comes, not for what a header says."""
    body = bytearray()
    while len(body) < length:
        piece = stream.read(min(_PIECE_BYTES, length - len(body)))
        if not piece:
            raise BodyError(400, f"the body ends after {len(body):,} of {length:,} bytes.")
        body += piece
    return bytes(body)


class BoundedServer(ThreadingHTTPServer):
    """A thread a connection, and at most so many of them."""

    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], most: int = MOST_CONNECTIONS
    ) -> None:
        self._free = threading.BoundedSemaphore(most)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._free.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


def requests(handler: Handler, idle_s: float = _IDLE_S) -> type[BaseHTTPRequestHandler]:
    """GET /ping, POST /invocations."""

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = idle_s

        def do_GET(self) -> None:
            if self._body() is not None:
                self._send(200 if self.path == "/ping" else 404, b"", "text/plain")

        def do_POST(self) -> None:
            body = self._body()
            if body is None:
                return
            kind, accept = self.headers.get("Content-Type") or _JSON, self.headers.get("Accept") or "*/*"
            if self.path != "/invocations":
                self._send(404, b"", "text/plain")
                return
            try:
                answer, kind = handler.answer(body, kind, accept)
            except ValueError as error:  # what the request holds, in the words of the model's own code
                self._send(415 if isinstance(error, UnsupportedError) else 400, str(error).encode(), "text/plain")
            except Exception as error:  # the model's own code failed: the server must live, and its log say where
                traceback.print_exc()
                self._send(500, f"{type(error).__name__}: {error}".encode(), "text/plain")
            else:
                self._send(200, answer, kind)

        def _body(self) -> bytes | None:
            """None if it cannot be read: then an error is answered, and the connection ends."""
            try:
                return read_body(self.rfile, self.headers)
            except BodyError as error:
                status, reason = error.status, str(error)
            except TimeoutError:
                status, reason = 408, f"nothing more of the request came within {idle_s:.0f} s."
            # What follows on this connection would be read as a request, and may be the rest of this one.
            self.close_connection = True
            self._send(status, reason.encode(), "text/plain")
            return None

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            if self.close_connection:
                self.send_header("Connection", "close")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a line a request would hide what the model prints."""

    return Requests


def main(model_folder: str, code_folder: str, script: str, host: str = "127.0.0.1") -> None:
    path = Path(code_folder, script)
    sys.path.insert(0, str(path.parent))
    module = importlib.import_module(path.stem)
    handler = Handler(module, model_folder)
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT") or 8080)
    BoundedServer((host, port), requests(handler)).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
