"""The user's module: SageMaker's hooks, and what is done where it has none.

model_fn(model_dir) loads the model. input_fn(body, content_type), predict_fn(data, model) and
output_fn(prediction, accept), or transform_fn(model, body, content_type, accept) in place of the three; each may take
one argument more, the context. What is not there is done as the toolkit does it: JSON, CSV and NPY become arrays and
arrays become these; a model is called. https://github.com/aws/sagemaker-inference-toolkit
"""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Callable, Mapping
from functools import cache
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
        prediction = self._answered(self._call(read, given, content_type))
        return _as_answer(self._call(write, prediction, accept), accept)

    def infer(self, tensors: Mapping[str, Any], columns: Mapping[str, Any]) -> Mapping[str, Any]:
        """Named arrays in, named arrays out, by the module's JSON and NPY.

        Args:
            tensors: name -> array [rows, ...].
            columns: name -> shape of a row, of a model that describes them; one array of another name holds them all.

        Raises:
            ValueError: what the request holds, in the words of the module; or several arrays for a module that
                describes no columns.
        """
        if len({len(values) for values in tensors.values()}) > 1:
            raise ValueError("the inputs have different numbers of rows.")
        single = [name for name in tensors if columns.get(name) == []]
        given = {
            name: values.reshape(len(values), -1)[:, 0] if name in single and values.size == len(values) else values
            for name, values in tensors.items()
        }
        first = next(iter(given.values()))
        has_own = {name for name in ("input_fn", "output_fn", "transform_fn") if self._function(name)}
        if len(given) == 1 and (given.keys().isdisjoint(columns) or len(columns) == 1):
            if not has_own:
                return {"output": _array(_plain(self._answered(first)))}
            takes_npy = (columns or has_own == {"output_fn"}) and first.dtype.kind != "O"
            body, kind = encoded(first, _NPY if takes_npy else _JSON)
        elif not given.keys().isdisjoint(columns):
            lists = [values.tolist() for values in given.values()]
            rows = [dict(zip(given, row, strict=True)) for row in zip(*lists, strict=True)]
            body, kind = json.dumps(rows).encode(), _JSON
        else:
            raise ValueError(f"this model takes {', '.join(columns) or 'one input'}, and was given {', '.join(given)}.")
        answer, kind = self.answer(body, kind, _JSON)
        if kind.partition(";")[0].strip().lower() != _JSON:
            raise ValueError(f"this model answers {kind}, which is no array. Ask it at /invocations.")
        found: Any = json.loads(answer)
        listed: Any = found.get("predictions") if isinstance(found, dict) else found
        try:
            if isinstance(listed, list) and listed and isinstance(listed[0], dict):
                return {
                    name: _array([row[name] for row in cast("list[Any]", listed)])
                    for name in cast("dict[str, Any]", listed[0])
                }
            return {"output": _array(listed)}
        except (ValueError, KeyError, TypeError):
            raise ValueError("this model answers no array. Ask it at /invocations.") from None

    def _answered(self, data: Any) -> Any:
        predict = self._function("predict_fn")
        return self._call(predict, data, self._model) if predict else _predicted(data, self._model)

    def _function(self, name: str) -> Callable[..., Any] | None:
        return getattr(self._module, name, None)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments, *([self._context] if _num_taken(function) > len(arguments) else []))


@cache
def _num_taken(function: Callable[..., Any]) -> int:
    """The positional arguments that a function takes."""
    taken = inspect.signature(function).parameters.values()
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in taken)


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

    array: Any = np.asarray(_plain(prediction))
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


def _plain(prediction: Any) -> Any:
    """A torch tensor as what can become an array; anything else as it is."""
    detach: Any = getattr(prediction, "detach", None)
    return prediction if detach is None else detach().cpu()


def _array(values: Any) -> Any:
    """Numbers as their array, texts as one of objects."""
    import numpy as np

    array: Any = np.asarray(values)
    if array.dtype.kind == "U":
        return array.astype(object)
    if array.dtype.kind not in "iufb":
        raise ValueError("no numbers and no texts")
    return array


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
