"""HTTP for a model: SageMaker's /ping and /invocations, the V2 protocol, and /metrics.

Environment: SAGEMAKER_BIND_TO_PORT (8080), DRIVETRAIN_MODEL_NAME (model), DRIVETRAIN_MOST_CONNECTIONS (32; more wait)
and DRIVETRAIN_MOST_BODY_MB (100, the service's own limit).
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import threading
import traceback
from collections.abc import Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from drivetrain.inference_server import metrics, tensors
from drivetrain.inference_server.bodies import BodyError, read_body
from drivetrain.inference_server.hooks import Handler, UnsupportedError
from drivetrain.inference_server.metrics import Metrics

# A connection on which nothing comes or goes for so long is closed.
_IDLE_S = 60.0
# Further connections wait to be accepted until one of these has ended.
MOST_CONNECTIONS = 32
MOST_BODY_BYTES = 100 << 20
_JSON, _TEXT = "application/json", "text/plain"
_MODEL = re.compile(r"/v2/models/([^/]+)(?:/versions/[^/]+)?(/ready|/infer)?")


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


class Site:
    """The pages of a model.

    Args:
        described: model.json, or nothing.
    """

    def __init__(self, handler: Handler, name: str = "model", described: Mapping[str, Any] | None = None) -> None:
        self.handler, self.name, self.metrics = handler, name, Metrics()
        self._inputs: list[dict[str, Any]] = (described or {}).get("inputs", {}).get("columns", [])
        self._columns = {each["name"]: each["shape"] for each in self._inputs}

    def page(self, path: str) -> str:
        """The page that a path leads to, by a name of few: they are labels of the metrics."""
        found = _MODEL.fullmatch(path)
        known = ("/ping", "/invocations", "/metrics", "/v2", "/v2/health/live", "/v2/health/ready")
        return f"/v2/models{found[2] or ''}" if found else path if path in known else "unknown"

    def read(self, path: str) -> tuple[int, bytes, str]:
        """Status, body and content type of a page that is read."""
        page, found = self.page(path), _MODEL.fullmatch(path)
        if found is not None and found[1] != self.name:
            return 404, _said(f"there is no model {found[1]!r}. There is {self.name}."), _JSON
        match page:
            case "/ping":
                return 200, b"", _TEXT
            case "/metrics":
                return 200, self.metrics.text().encode(), metrics.TYPE
            case "/v2/health/live":
                return 200, b'{"live": true}', _JSON
            case "/v2/health/ready":
                return 200, b'{"ready": true}', _JSON
            case "/v2":
                server = {"name": "drivetrain", "version": "2", "extensions": ["binary_tensor_data"]}
                return 200, json.dumps(server).encode(), _JSON
            case "/v2/models":
                return 200, json.dumps(self._model()).encode(), _JSON
            case "/v2/models/ready":
                return 200, json.dumps({"name": self.name, "ready": True}).encode(), _JSON
            case _:
                return 404, b"", _TEXT

    def asked(self, path: str, body: bytes, headers: Message) -> tuple[int, bytes, str, int | None]:
        """Status, body and content type of an answer, and the bytes of JSON at its begin if others follow."""
        page, found = self.page(path), _MODEL.fullmatch(path)
        is_v2 = page == "/v2/models/infer"
        if found is not None and found[1] != self.name:
            return 404, _said(f"there is no model {found[1]!r}. There is {self.name}."), _JSON, None
        try:
            if is_v2:
                asked = tensors.read(body, headers.get(tensors.LENGTH_HEADER))
                return 200, *tensors.write(self.handler.infer(asked.tensors, self._columns), asked, self.name)
            if page != "/invocations":
                return 404, b"", _TEXT, None
            kind, accept = headers.get("Content-Type") or _JSON, headers.get("Accept") or "*/*"
            return 200, *self.handler.answer(body, kind, accept), None
        except ValueError as error:  # what the request holds, in the words of the model's own code
            status, reason = 415 if isinstance(error, UnsupportedError) else 400, str(error)
        except Exception as error:  # the model's own code failed: the server must live, and its log say where
            traceback.print_exc()
            status, reason = 500, f"{type(error).__name__}: {error}"
        return status, _said(reason) if is_v2 else reason.encode(), _JSON if is_v2 else _TEXT, None

    def _model(self) -> dict[str, Any]:
        inputs = [
            {"name": each["name"], "datatype": tensors.datatype(each["dtype"]), "shape": [-1, *each["shape"]]}
            for each in self._inputs
        ]
        return {"name": self.name, "versions": [], "platform": "drivetrain", "inputs": inputs, "outputs": []}


def _said(reason: str) -> bytes:
    return json.dumps({"error": reason}).encode()


def requests(site: Site, idle_s: float = _IDLE_S, most_bytes: int = MOST_BODY_BYTES) -> type[BaseHTTPRequestHandler]:
    """The requests of a site; a body of more bytes is refused."""

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = idle_s
        # Head and body leave together and at once: sent apart, the second waits 40 ms for the first one's receipt.
        wbufsize, disable_nagle_algorithm = 1 << 16, True

        def do_GET(self) -> None:
            with site.metrics.timed(site.page(self.path)) as self._status:
                if self._body() is not None:
                    self._send(*site.read(self.path))

        def do_POST(self) -> None:
            with site.metrics.timed(site.page(self.path)) as self._status:
                body = self._body()
                if body is not None:
                    self._send(*site.asked(self.path, body, self.headers))

        def _body(self) -> bytes | None:
            """None if it cannot be read: then an error is answered, and the connection ends."""
            try:
                return read_body(self.rfile, self.headers, most_bytes)
            except BodyError as error:
                status, reason = error.status, str(error)
            except TimeoutError:
                status, reason = 408, f"nothing more of the request came within {idle_s:.0f} s."
            # What follows on this connection would be read as a request, and may be the rest of this one.
            self.close_connection = True
            self._send(status, reason.encode(), _TEXT)
            return None

        def _send(self, status: int, body: bytes, kind: str, length: int | None = None) -> None:
            self._status.append(status)
            self.send_response(status)
            if self.close_connection:
                self.send_header("Connection", "close")
            if length is not None:
                self.send_header(tensors.LENGTH_HEADER, str(length))
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a line a request would hide what the model prints."""

    return Requests


def main(model_folder: str, code_folder: str, script: str, host: str = "127.0.0.1") -> None:
    """Load the model, and serve it until the process ends."""
    path = Path(code_folder, script)
    sys.path.insert(0, str(path.parent))
    handler = Handler(importlib.import_module(path.stem), model_folder)
    described = Path(model_folder, "model.json")
    name = os.environ.get("DRIVETRAIN_MODEL_NAME") or "model"
    site = Site(handler, name, json.loads(described.read_bytes()) if described.is_file() else None)
    most_bytes = _number("DRIVETRAIN_MOST_BODY_MB", MOST_BODY_BYTES >> 20) << 20
    address = host, _number("SAGEMAKER_BIND_TO_PORT", 8080)
    most = _number("DRIVETRAIN_MOST_CONNECTIONS", MOST_CONNECTIONS)
    BoundedServer(address, requests(site, most_bytes=most_bytes), most).serve_forever()


def _number(variable: str, usual: int) -> int:
    given = os.environ.get(variable) or str(usual)
    if not given.isdigit() or int(given) < 1:
        raise SystemExit(f"error: {variable} is {given!r}. Give a whole number from 1.")
    return int(given)
