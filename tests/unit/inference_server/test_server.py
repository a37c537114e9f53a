"""The server of a model's own code: the hooks of the inference toolkit, and what it does where there are none."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import threading
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from drivetrain.inference_server.hooks import Handler, UnsupportedError, decoded, encoded
from drivetrain.inference_server.server import BoundedServer, Site, requests


class Tensor:
    """What torch's tensors have that arrays do not."""

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Any:
        return np.array([1.5])


def module(**functions: Any) -> types.ModuleType:
    made = types.ModuleType("inference")
    made.__file__ = "inference.py"
    made.__dict__.update({"model_fn": lambda folder: lambda data: data * 2, **functions})
    return made


def test_json_csv_and_npy_become_arrays_and_arrays_become_these() -> None:
    handler = Handler(module(), "/model")
    assert handler.answer(b"[[1, 2]]", "application/json", "*/*") == (b"[[2, 4]]", "application/json")
    assert handler.answer(b"1,2\n3,4", "text/csv", "text/csv") == (b"2.0,4.0\n6.0,8.0\n", "text/csv")
    stream = io.BytesIO()
    np.save(stream, np.array([1, 2]))
    body, kind = handler.answer(stream.getvalue(), "application/x-npy", "application/x-npy")
    assert kind == "application/x-npy" and np.load(io.BytesIO(body)).tolist() == [2, 4]
    assert encoded(Tensor(), "application/json")[0] == b"[1.5]"
    for call in (lambda: decoded(b"", "image/png"), lambda: encoded([1], "image/png")):
        with pytest.raises(UnsupportedError, match="'image/png'"):
            call()


def test_a_model_with_predict_is_asked_by_it() -> None:
    class Model:
        def predict(self, data: Any) -> Any:
            return data + 1

    assert Handler(module(model_fn=lambda folder: Model()), "/m").answer(b"[1]", "application/json", "")[0] == b"[2]"


def test_hooks_take_the_place_of_what_is_done_by_itself_and_may_take_a_context() -> None:
    handler = Handler(
        module(
            model_fn=lambda folder, context: context["model_dir"],
            input_fn=lambda body, kind: (body, kind),
            predict_fn=lambda data, model: f"{model} {data[1]}: {data[0]}",
            output_fn=lambda prediction, accept: prediction,
        ),
        "/model",
    )
    assert handler.answer("é".encode(), "text/plain", "text/plain") == ("/model text/plain: é".encode(), "text/plain")


def test_one_hook_may_do_all() -> None:
    handler = Handler(module(transform_fn=lambda model, body, kind, accept: (body[::-1], "x/y")), "/m")
    assert handler.answer(b"\x01\x02", "application/octet-stream", "") == (b"\x02\x01", "x/y")


def test_code_that_loads_no_model_ends_the_server() -> None:
    made = module()
    del made.__dict__["model_fn"]
    with pytest.raises(SystemExit, match="has no model_fn"):
        Handler(made, "/m")


@contextlib.contextmanager
def serving(
    site: Site | Handler, *, idle_s: float = 30.0, most: int = 4, most_bytes: int = 1 << 60
) -> Iterator[tuple[str, int]]:
    pages = requests(site if isinstance(site, Site) else Site(site), idle_s, most_bytes)
    with BoundedServer(("127.0.0.1", 0), pages, most) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[0], server.server_address[1]  # type: ignore[misc]
        finally:
            server.shutdown()
            thread.join()


def sent(address: tuple[str, int], request: bytes, *, is_whole: bool = True) -> bytes:
    """All that the server answers until it closes the connection."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(request)
        if is_whole:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def post(*headers: str, body: bytes = b"") -> bytes:
    lines = ("POST /invocations HTTP/1.1", "Host: here", "Content-Type: text/plain", *headers, "", "")
    return "\r\n".join(lines).encode() + body


ECHO = module(
    input_fn=lambda body, kind: body, predict_fn=lambda data, model: data, output_fn=lambda data, accept: data
)


def test_a_body_in_chunks_is_read_and_the_next_request_is_too() -> None:
    chunks = b'5;name="x"\r\nhello\r\n6\r\n world\r\n0\r\nChecksum: 1\r\n\r\n'
    with serving(Handler(ECHO, "/m")) as address:
        answer = sent(address, post("Transfer-Encoding: chunked", body=chunks) + post("Content-Length: 3", body=b"bye"))
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b"\r\n\r\nhello world" in answer and answer.endswith(b"\r\n\r\nbye")


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        (post("Content-Length: -1", body=b"x"), 400, b"Content-Length is '-1'. Allowed: one whole number from 0."),
        (post("Content-Length: ten"), 400, b"Content-Length is 'ten'"),
        (post("Content-Length: " + "9" * 5000), 400, b"Allowed: one whole number from 0"),
        (post("Content-Length: 1", "Content-Length: 2", body=b"xx"), 400, b"Content-Length is '1, 2'"),
        (post("Content-Length: 999999999999999999", body=b"x"), 400, b" of 999,999,999,999,999,999 bytes"),
        (post("Content-Length: 3", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 400, b"Send one of them"),
        (post("Transfer-Encoding: gzip"), 501, b"Allowed: chunked"),
        (post("Transfer-Encoding: chunked", body=b"-5\r\nhello\r\n0\r\n\r\n"), 400, b"without a valid size"),
        (post("Transfer-Encoding: chunked", body=b"4\r\nhello\r\n0\r\n\r\n"), 400, b"does not end where"),
        (post("Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n"), 400, b"does not end after its last chunk"),
    ],
)
def test_a_body_whose_end_cannot_be_known_is_refused_and_the_connection_closed(
    request_: bytes, status: int, reason: bytes
) -> None:
    with serving(Handler(ECHO, "/m")) as address:
        answer = sent(address, request_ + post("Content-Length: 3", body=b"bye"))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()) and reason in answer
    assert answer.count(b"HTTP/1.1") == 1


def test_a_stalled_request_is_ended() -> None:
    with serving(Handler(ECHO, "/m"), idle_s=0.05) as address:
        answer = sent(address, post("Content-Length: 3", body=b"x"), is_whole=False)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"Connection: close" in answer
        assert sent(address, b"", is_whole=False) == b""


def test_more_connections_than_allowed_wait() -> None:
    """Two are at work at most, though five ask; all are answered."""
    guard, at_work, most_at_work = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def predict(data: Any, model: Any) -> Any:
        nonlocal at_work, most_at_work
        with guard:
            at_work += 1
            most_at_work = max(most_at_work, at_work)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        with guard:
            at_work -= 1
        return data

    handler = Handler(module(**{**vars(ECHO), "predict_fn": predict}), "/m")
    answers: list[bytes] = []
    with serving(handler, most=2) as address:
        request = post("Content-Length: 3", "Connection: close", body=b"bye")
        asking = [threading.Thread(target=lambda: answers.append(sent(address, request))) for _ in range(5)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert [answer.startswith(b"HTTP/1.1 200 ") for answer in answers] == [True] * 5
    assert most_at_work == 2


def got(address: tuple[str, int], method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(*address, timeout=20)
    connection.request(method, path, body or None, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content) if content[:1] in (b"{", b"[") else content.decode()


def infer(**tensors: list[Any]) -> bytes:
    inputs = [
        {"name": name, "datatype": "FP64", "shape": list(np.shape(values)), "data": values}
        for name, values in tensors.items()
    ]
    return json.dumps({"inputs": inputs}).encode()


def test_the_pages_of_the_v2_protocol() -> None:
    described = {"inputs": {"columns": [{"name": "x", "dtype": "float32", "shape": [8]}]}}
    with serving(Site(Handler(module(), "/m"), "digits", described)) as address:
        assert got(address, "GET", "/v2/health/live") == (200, {"live": True})
        assert got(address, "GET", "/v2/health/ready") == (200, {"ready": True})
        assert got(address, "GET", "/v2/models/digits/ready") == (200, {"name": "digits", "ready": True})
        assert got(address, "GET", "/v2")[1]["extensions"] == ["binary_tensor_data"]
        known = got(address, "GET", "/v2/models/digits/versions/1")[1]
        assert known["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}]
        assert got(address, "GET", "/v2/models/other") == (
            404,
            {"error": "there is no model 'other'. There is digits."},
        )
        status, answer = got(address, "POST", "/v2/models/digits/infer", infer(any=[[1.0, 2.0]]))
        assert (status, answer["outputs"]) == (
            200,
            [{"name": "output", "shape": [1, 2], "datatype": "FP64", "data": [2.0, 4.0]}],
        )
        assert got(address, "POST", "/v2/models/digits/infer", infer(a=[1.0], b=[2.0])) == (
            400,
            {"error": "this model takes x, and was given a, b."},
        )
        counted = got(address, "GET", "/metrics")[1]
    assert 'drivetrain_requests_total{page="/v2/models/infer",status="200"} 1' in counted
    assert 'drivetrain_requests_total{page="/v2/models/infer",status="400"} 1' in counted
    assert 'drivetrain_request_seconds_bucket{page="/v2/models/infer",le="+Inf"} 2' in counted
    assert "drivetrain_requests_at_work 1" in counted


def test_described_columns_are_given_as_rows_or_as_one_array() -> None:
    described = {"inputs": {"columns": [{"name": name, "dtype": "float64", "shape": []} for name in ("a", "b")]}}

    def read(body: Any, kind: str) -> Any:
        rows = np.load(io.BytesIO(body)).tolist() if kind == "application/x-npy" else json.loads(body)
        return [[row["a"], row["b"]] if isinstance(row, dict) else row for row in rows]

    def write(found: Any, accept: str) -> Any:
        return json.dumps({"predictions": [{"predicted": "high" if a > b else "low", "score": a} for a, b in found]})

    code = module(input_fn=read, predict_fn=lambda data, model: data, output_fn=write)
    with serving(Site(Handler(code, "/m"), described=described)) as address:
        answers = [
            got(address, "POST", "/v2/models/model/infer", infer(**tensors))[1]["outputs"]
            for tensors in ({"a": [3.0, 0.5], "b": [[1.0], [2.0]]}, {"all": [[3.0, 1.0], [0.5, 2.0]]})
        ]
        assert (
            "different numbers"
            in got(address, "POST", "/v2/models/model/infer", infer(a=[1.0], b=[1.0, 2.0]))[1]["error"]
        )
    assert (
        answers[0]
        == answers[1]
        == [
            {"name": "predicted", "shape": [2], "datatype": "BYTES", "data": ["high", "low"]},
            {"name": "score", "shape": [2], "datatype": "FP64", "data": [3.0, 0.5]},
        ]
    )


def test_a_body_beyond_the_limit_is_refused_before_it_is_read() -> None:
    with serving(Handler(ECHO, "/m"), most_bytes=10) as address:
        for told in (
            post("Content-Length: 11"),
            post("Transfer-Encoding: chunked", body=b"6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n"),
        ):
            assert sent(address, told).startswith(b"HTTP/1.1 413 ")


def test_head_and_body_leave_together() -> None:
    """Sent apart on a connection that is kept, each answer would take 40 ms longer."""
    with (
        serving(Handler(ECHO, "/m")) as address,
        socket.create_connection(address, timeout=20) as connection,
    ):
        for _ in range(2):
            connection.sendall(post("Content-Length: 5", body=b"hello"))
            assert connection.recv(1 << 16).endswith(b"\r\n\r\nhello")
