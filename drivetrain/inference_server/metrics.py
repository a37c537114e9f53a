"""Counts and times of requests, in the text format of Prometheus.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The numbers of one server; for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: Counter[tuple[str, int]] = Counter()
        self._times: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self._at_work = 0

    @contextmanager
    def timed(self, page: str) -> Iterator[list[int]]:
        """Time a request; the status of its answer is appended to the list that is given."""
        begun, status = time.perf_counter(), list[int]()
        with self._lock:
            self._at_work += 1
        try:
            yield status
        finally:
            taken = time.perf_counter() - begun
            with self._lock:
                self._at_work -= 1
                self._answers[page, status[-1] if status else 500] += 1
                self._times.setdefault(page, [0] * (len(_SECONDS) + 1))[bisect_left(_SECONDS, taken)] += 1
                self._seconds[page] += taken  # type: ignore[assignment]

    def text(self) -> str:
        """All of them, as Prometheus asks for them."""
        with self._lock:
            lines = [
                "# HELP drivetrain_requests_total Requests that were answered, by page and status.",
                "# TYPE drivetrain_requests_total counter",
                *(
                    f'drivetrain_requests_total{{page="{page}",status="{status}"}} {count}'
                    for (page, status), count in sorted(self._answers.items())
                ),
                "# HELP drivetrain_requests_at_work Requests that are answered just now.",
                "# TYPE drivetrain_requests_at_work gauge",
                f"drivetrain_requests_at_work {self._at_work}",
                "# HELP drivetrain_request_seconds Time from the first line of a request to the end of its answer.",
                "# TYPE drivetrain_request_seconds histogram",
            ]
            for page, counts in sorted(self._times.items()):
                total = 0
                for bound, count in zip((*map(str, _SECONDS), "+Inf"), counts, strict=True):
                    total += count
                    lines.append(f'drivetrain_request_seconds_bucket{{page="{page}",le="{bound}"}} {total}')
                lines.append(f'drivetrain_request_seconds_sum{{page="{page}"}} {self._seconds[page]:.6f}')
                lines.append(f'drivetrain_request_seconds_count{{page="{page}"}} {total}')
        return "\n".join(lines) + "\n"
