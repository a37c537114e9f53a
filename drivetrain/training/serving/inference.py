"""Answer requests with the model of this folder: SageMaker's inference contracts, and a command.

    python code/inference.py --input rows.csv --output predictions.jsonl

A server imports this file, calls model_fn once, and input_fn, predict_fn and output_fn a request. Bodies are JSON, JSON
Lines, CSV or application/x-npy (request.py), answers too (response.py). numpy and the model's framework are all that it
needs. What is refused is a ValueError; under SageMaker's inference toolkit one with the status 400, as it answers
others with 500. https://sagemaker.readthedocs.io/en/v2/frameworks/pytorch/using_pytorch.html#serve-a-pytorch-model
TensorFlow Serving's image calls `handler`, and needs no framework beside the server:
https://github.com/aws/sagemaker-tensorflow-serving-container#prepost-processing
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGE = "drivetrain.training.serving"
_FOLDER = Path(__file__).resolve().parents[1]
# The modules that this model was trained with. (They are beside this file in a model folder, and only there.)
_MODULES = Path(__file__).resolve().parent / "modules"


def _leave_no_bytecode() -> None:
    """The folder's content has a name, its hash, and is to keep it. Of the modules no bytecode is written; that of this
    file was, before its first line ran."""
    sys.dont_write_bytecode = True
    written = Path(importlib.util.cache_from_source(__file__))
    if written.parent.parent == Path(__file__).parent:  # and not in a folder that was set for all bytecode
        with suppress(OSError):  # a folder that cannot be written has none; one with other files in it stays
            written.unlink(missing_ok=True)
            written.parent.rmdir()


if _MODULES.is_dir():
    sys.path.insert(0, str(_MODULES))
    _leave_no_bytecode()


def _own(name: str) -> ModuleType:
    """A module of the model's own.

    Raises:
        ImportError: another drivetrain was imported before, which may be of another version.
    """
    module = importlib.import_module(f"{_PACKAGE}.{name}")
    file = Path(str(module.__file__)).resolve()
    if _MODULES.is_dir() and not file.is_relative_to(_MODULES):
        raise ImportError(f"{file} was imported before the model's own modules. Serve the model in a fresh process.")
    return module


# By the modules that lie here: what is wrong with a damaged model.json is said by the module that loads the model.
_KINDS = [
    name for name in ("saved_model", "functions") if (_MODULES / _PACKAGE.replace(".", "/") / f"{name}.py").is_file()
]
_model = _own(_KINDS[0] if _KINDS else "model")
_request = _own("request")
_response = _own("response")
_inputs: Any = None
_served: dict[str, Any] = {}


@contextmanager
def _refusing() -> Generator[None]:
    """Answer a bad request with 4xx, not as the server's error. The toolkit sends the status of its own
    errors, and 500 for any other: https://github.com/aws/sagemaker-inference-toolkit (transformer.py, errors.py)."""
    try:
        yield
    except ValueError as error:
        try:
            toolkit: Any = importlib.import_module("sagemaker_inference.errors")
        except ModuleNotFoundError:
            raise error from None

        class RefusedError(toolkit.BaseInferenceToolkitError, ValueError):
            """Both: other servers know a refusal by its being a ValueError."""

        raise RefusedError(HTTPStatus.BAD_REQUEST.value, str(error), HTTPStatus.BAD_REQUEST.phrase) from None


def model_fn(model_dir: str) -> Any:
    """The model of a folder, on a GPU where there is one."""
    global _inputs
    model = _model.ServedModel.load(Path(model_dir))
    _inputs = model.inputs
    return model


def input_fn(body: str | bytes, content_type: str) -> Any:
    """The columns of a request.

    Raises:
        ValueError: an invalid content type or body, or rows that the model does not take; one line.
    """
    own = _own("inputs")
    inputs = _inputs or own.inputs_of(_FOLDER)
    with _refusing():
        return _request.columns_of(body, content_type, inputs)


def predict_fn(data: Any, model: Any) -> Any:
    """The model's answers to the columns.

    Raises:
        ValueError: values that the model does not take; one line.
    """
    with _refusing():
        return model.predict(data)


def output_fn(prediction: Any, accept: str) -> tuple[str | bytes, str]:
    """The body of the answer, and its content type.

    Raises:
        ValueError: an invalid content type.
    """
    with _refusing():
        return _response.body_of(prediction, accept)


def handler(data: Any, context: Any) -> tuple[str | bytes, str]:
    """A request to TensorFlow Serving's image.

    Args:
        data: the body, a stream.
        context: of the image; `rest_uri` is where the server beside it answers.
    """
    global _inputs
    if context.rest_uri not in _served:
        _served[context.rest_uri] = _model.ServedModel.load(_FOLDER, context.rest_uri)
    model = _served[context.rest_uri]
    _inputs = model.inputs
    columns = input_fn(data.read(), context.request_content_type)
    return output_fn(predict_fn(columns, model), context.accept_header)


if __name__ == "__main__":
    sys.exit(_own("command").main(_FOLDER, _model.ServedModel.load))
