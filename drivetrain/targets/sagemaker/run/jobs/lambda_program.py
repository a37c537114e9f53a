"""Calls a Lambda handler once, in a process of its own: `python lambda_program.py TARGET EVENT RESULT ABOUT`.

TARGET is `module:function` or `/path/file.py:function`; EVENT, RESULT and ABOUT (name, arn, timeout) are JSON files.
Standard library only. Exit codes: 0 done, 1 the handler raised, 2 there is no such handler.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Context:
    """The context of a call, as Lambda passes it to a handler."""

    def __init__(self, name: str, arn: str, timeout_s: float) -> None:
        self.function_name = name
        self.function_version = "$LATEST"
        self.invoked_function_arn = arn
        self.memory_limit_in_mb = "128"
        self.aws_request_id = str(uuid.uuid4())
        self.log_group_name = f"/aws/lambda/{name}"
        self.log_stream_name = "local"
        self._ends = time.monotonic() + timeout_s

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int(1000 * (self._ends - time.monotonic())))


def find(target: str) -> Callable[[Any, Context], Any]:
    """The handler of a target.

    Raises:
        LookupError: there is no such module, file or function.
    """
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        path = Path(place)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise LookupError(f"there is no file {place}")
        sys.path.insert(0, str(path.parent))  # as in Lambda: modules beside the handler can be imported
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not (place + ".").startswith(error.name + "."):
                raise
            raise LookupError(f"there is no module {place!r}; sys.path starts with {sys.path[:3]}") from None
    handler = getattr(module, name, None)
    if not callable(handler):
        raise LookupError(f"{place} has no function {name!r}")
    return handler


def main(target: str, event: str, result: str, about: str) -> int:
    told = json.loads(Path(about).read_text(encoding="utf-8"))
    try:
        handler = find(target)
    except LookupError as error:
        print(f"error: {target}: {error}", file=sys.stderr)
        return 2
    context = Context(told["name"], told["arn"], told["timeout_s"])
    answer = handler(json.loads(Path(event).read_text(encoding="utf-8")), context)
    Path(result).write_text(json.dumps(answer), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
