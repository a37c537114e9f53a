"""Work beside the main thread: Arrow lets go of the interpreter while it computes, so that two cores are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Lane:
    """One thread that works things off in their order; at most `depth` of them wait, so that memory is bounded."""

    def __init__(self, depth: int = 2) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._waiting: deque[Future[Any]] = deque()
        self._depth = depth

    def do(self, work: Callable[..., Any], *arguments: Any) -> None:
        """
        Raises:
            Exception: what earlier work raised.
        """
        while len(self._waiting) >= self._depth:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(work, *arguments))

    def wait(self) -> None:
        """Until all is done.

        Raises:
            Exception: what the work raised.
        """
        while self._waiting:
            self._waiting.popleft().result()

    def close(self) -> None:
        """End the thread after what it is doing; what has not begun is left out, and what failed is not told."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._waiting.clear()
