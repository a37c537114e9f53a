"""The V2 protocol (Open Inference Protocol) of KServe, Triton and MLServer: named arrays as JSON, or as bytes after it.

https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/inference_rest.md
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

JSON, BINARY = "application/json", "application/octet-stream"
LENGTH_HEADER = "Inference-Header-Content-Length"
_TYPES = {
    "BOOL": np.dtype(np.bool_),
    **{f"{kind}{bits}": np.dtype(f"{kind.lower()}{bits}") for kind in ("UINT", "INT") for bits in (8, 16, 32, 64)},
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BYTES": np.dtype(object),
}
_ALL_BINARY = "binary_data_output"
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
Tensors = Mapping[str, NDArray[Any]]


class Asked(NamedTuple):
    """A request."""

    tensors: dict[str, NDArray[Any]]
    outputs: dict[str, bool]
    """Names of the outputs that are wanted -> as bytes; all of them if there are none."""
    id: str | None
    is_binary: bool
    """All outputs as bytes."""


def datatype(dtype: Any) -> str:
    """The protocol's name of a numpy type; texts and objects are BYTES."""
    return _NAMES.get(np.dtype(dtype).newbyteorder("="), "BYTES")


def read(body: bytes, header: str | None) -> Asked:
    """The arrays of a request.

    Args:
        header: LENGTH_HEADER of the request: the bytes of JSON at the body's begin; None if all of it is JSON.

    Raises:
        ValueError: it is no request of the protocol; one line.
    """
    length = len(body)
    if header is not None:
        if not header.strip().isdigit() or int(header) > len(body):
            raise ValueError(f"{LENGTH_HEADER} is {header!r:.40}. Allowed: 0 to {len(body)}, the bytes of the body.")
        length = int(header)
    try:
        given: Any = json.loads(body[:length])
    except ValueError as error:
        raise ValueError(f"the body is no JSON: {error}") from None
    inputs = _objects(given, "inputs") if isinstance(given, dict) else []
    if not inputs:
        raise ValueError("the body has no inputs. Give {'inputs': [{'name', 'shape', 'datatype', 'data'}, ...]}.")
    tensors: dict[str, NDArray[Any]] = {}
    rest = memoryview(body)[length:]
    for each in inputs:
        name, tensor, rest = _tensor(each, rest)
        if name in tensors:
            raise ValueError(f"input {name!r} is given twice.")
        tensors[name] = tensor
    if len(rest):
        raise ValueError(f"{len(rest)} bytes stand after the last input.")
    outputs = {str(each.get("name")): bool(_parameters(each).get("binary_data")) for each in _objects(given, "outputs")}
    id = given.get("id")
    return Asked(
        tensors, outputs, id if isinstance(id, str) else None, bool(_parameters(given).get("binary_data_output"))
    )


def write(tensors: Tensors, asked: Asked, model: str) -> tuple[bytes, str, int | None]:
    """The body of an answer, its content type, and the bytes of JSON at its begin; None if all of it is.

    Raises:
        ValueError: an output is asked for that there is none of, or a number is not finite.
    """
    if unknown := [name for name in asked.outputs if name not in tensors]:
        raise ValueError(f"there is no output {unknown[0]!r}. There are {', '.join(tensors)}.")
    outputs: list[dict[str, Any]] = []
    raw: list[bytes] = []
    for name in asked.outputs or tensors:
        tensor = tensors[name]
        kind = datatype(tensor.dtype)
        said: dict[str, Any] = {"name": name, "shape": list(tensor.shape), "datatype": kind}
        if asked.outputs.get(name) or asked.is_binary:
            content = _bytes_of(tensor, kind)
            said["parameters"] = {"binary_data_size": len(content)}
            raw.append(content)
        else:
            said["data"] = [str(each) for each in tensor.ravel()] if kind == "BYTES" else tensor.ravel().tolist()
        outputs.append(said)
    answer: dict[str, Any] = {"model_name": model, "outputs": outputs}
    if asked.id is not None:
        answer["id"] = asked.id
    try:
        text = json.dumps(answer, allow_nan=False).encode()
    except ValueError:
        raise ValueError("the model's answer is not finite.") from None
    return (b"".join([text, *raw]), BINARY, len(text)) if raw else (text, JSON, None)


def _tensor(given: Mapping[str, Any], rest: memoryview) -> tuple[str, NDArray[Any], memoryview]:
    """Name and array of an input, and the bytes after it."""
    name, shape, kind = given.get("name"), given.get("shape"), given.get("datatype")
    if not isinstance(name, str):
        raise ValueError(f"an input has name {name!r:.40}. Give a text.")
    if kind not in _TYPES:
        raise ValueError(f"input {name!r} has datatype {kind!r:.40}. Allowed: {', '.join(_TYPES)}.")
    sizes = cast("list[Any]", shape) if isinstance(shape, list) else []
    if not sizes or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError(f"input {name!r} has shape {shape!r:.40}. Give whole numbers from 0, the rows first.")
    count, dtype = math.prod(sizes), _TYPES[kind]
    size = _parameters(given).get("binary_data_size")
    if size is not None:
        if type(size) is not int or not 0 <= size <= len(rest):
            raise ValueError(f"input {name!r} has binary_data_size {size!r:.40}, and {len(rest)} bytes are left.")
        flat, rest = _from_bytes(bytes(rest[:size]), dtype, name), rest[size:]
    else:
        flat = _from_json(given.get("data"), dtype, name, kind)
    if len(flat) != count:
        raise ValueError(f"input {name!r} has {len(flat)} values, and its shape {sizes} {count}.")
    return name, flat.reshape(sizes), rest


def _from_json(data: Any, dtype: np.dtype[Any], name: str, kind: str) -> NDArray[Any]:
    """A flat array of a list, which may be nested."""
    try:
        found = np.asarray(data, dtype=object if dtype.hasobject else None).ravel()
    except ValueError:
        raise ValueError(f"input {name!r} has lists of different lengths.") from None
    if dtype.hasobject or not len(found):
        return found.astype(dtype)
    fits = found.dtype.kind == "b" if dtype.kind == "b" else found.dtype.kind in ("iuf" if dtype.kind == "f" else "iu")
    if not isinstance(data, list) or not fits:
        raise ValueError(f"input {name!r} has values that are no {kind}.")
    if dtype.kind in "iu" and (found.min() < np.iinfo(dtype).min or found.max() > np.iinfo(dtype).max):
        raise ValueError(f"input {name!r} has values beyond {kind}.")
    return found.astype(dtype)


def _from_bytes(content: bytes, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    if not dtype.hasobject:
        if len(content) % dtype.itemsize:
            raise ValueError(f"input {name!r} has {len(content)} bytes, no multiple of {dtype.itemsize}.")
        return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype)
    texts: list[str] = []
    at = 0
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "little")
        if at + 4 + length > len(content):
            raise ValueError(f"input {name!r} ends within a text.")
        texts.append(content[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return np.array(texts, dtype=object)


def _bytes_of(tensor: NDArray[Any], kind: str) -> bytes:
    if kind != "BYTES":
        return np.ascontiguousarray(tensor, _TYPES[kind].newbyteorder("<")).tobytes()
    texts = [str(each).encode() for each in tensor.ravel()]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def _objects(given: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    listed = given.get(name) or []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in cast("list[Any]", listed)):
        raise ValueError(f"{name} is no list of objects.")
    return cast("list[dict[str, Any]]", listed)


def _parameters(given: Mapping[str, Any]) -> Mapping[str, Any]:
    found = given.get("parameters")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
