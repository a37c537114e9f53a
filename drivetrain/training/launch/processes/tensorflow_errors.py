"""Shorten TensorFlow's errors to one line, without an import of TensorFlow.

A message of a graph names the graph and the node before or after the reason, and may begin with where in Python the
node was made (https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/framework/errors_impl.py).
"""

from __future__ import annotations

import re

# A process of the same cluster that is gone, as gRPC and the collectives say it.
_LOST = ("UnavailableError", "AbortedError", "DeadlineExceededError", "CancelledError")
_GRAPH = re.compile(r"^\{\{function_node [^}]*\}\} ?")
_NODE = re.compile(r"\s*(\[\[\{\{node |\[Op:)")
_FRAMES = re.compile(r"^(Graph execution error:|Detected at node |<stack traces unavailable>|File \"|Hint: |$)")


def is_tensorflow_error(error: BaseException) -> bool:
    return type(error).__module__.startswith("tensorflow.")


def is_lost_peer(error: BaseException) -> bool:
    """Return True if one of TensorFlow's errors only says that another process is gone."""
    return is_tensorflow_error(error) and type(error).__name__ in _LOST


def reason_of(error: BaseException) -> str:
    """The reason in a message of TensorFlow's; of memory that did not suffice, what to do."""
    lines = [_NODE.split(line, maxsplit=1)[0].strip() for line in str(error).splitlines()]
    reasons = [line for line in lines if not _FRAMES.match(line)]
    said = _GRAPH.sub("", reasons[0]) if reasons else str(error).strip()
    if type(error).__name__ == "ResourceExhaustedError":
        return f"out of memory: {said}. Lower global_batch, or give accumulation, or a machine with more memory."
    return f"{type(error).__name__}: {said}"
