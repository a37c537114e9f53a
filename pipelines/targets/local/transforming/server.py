"""Serves a model by its own code: `python server.py MODEL_FOLDER CODE_FOLDER SCRIPT`, on $SAGEMAKER_BIND_TO_PORT.

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
import sys
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, cast

_JSON, _CSV, _NPY = "application/json", "text/csv", "application/x-npy"
Answer = tuple[bytes, str]


class UnsupportedError(ValueError):
    """A content type that is not taken, or not given."""


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


def requests(handler: Handler) -> type[BaseHTTPRequestHandler]:
    """GET /ping, POST /invocations."""

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200 if self.path == "/ping" else 404, b"", "text/plain")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
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

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a line a request would hide what the model prints."""

    return Requests


def main(model_folder: str, code_folder: str, script: str) -> None:
    path = Path(code_folder, script)
    sys.path.insert(0, str(path.parent))
    module = importlib.import_module(path.stem)
    handler = Handler(module, model_folder)
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT") or 8080)
    ThreadingHTTPServer(("127.0.0.1", port), requests(handler)).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
