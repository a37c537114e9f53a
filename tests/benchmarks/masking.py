"""Masking of logs: CPU seconds for 600 MB of three kinds.

    python -m tests.benchmarks --only masking

A training repeats its lines with other numbers; a table is all numbers. The third kind repeats no line, so each word is
looked at: that is the slowest.
"""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable, Iterator

from drivetrain.base.masking import LogMasking
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record

LOG_MB = 600
# What one read of the pipe brings (processes/scribe.py).
PIECE = 64 * 1024
TARGET_MB_S = 30


def records(bench: Bench) -> Iterator[Record]:
    drawn = random.Random(1)
    words = ["".join(drawn.choices(string.ascii_lowercase, k=drawn.randrange(2, 10))) for _ in range(3000)]
    kinds: dict[str, Callable[[int], str]] = {
        "lines of a training": lambda step: (
            f"2026-01-01 12:{step // 60 % 60:02}:{step % 60:02},123 INFO step={step} loss={drawn.random():.5f} "
            f"lr={drawn.random() / 1000:.3e} tokens_per_second={drawn.randrange(10**6)}"
        ),
        "rows of numbers": lambda row: f"{row}," + ",".join(f"{drawn.random():.6f}" for _ in range(12)),
        "words, no line twice": lambda _: " ".join(drawn.choices(words, k=14)),
    }
    for kind, line in kinds.items():
        pieces = list(_pieces(line, 5 if bench.quick else 300))
        masking = LogMasking(["the-value-of-a-variable"])
        best = float("inf")
        for _ in range(2):
            begun = time.process_time()
            for piece in pieces:
                masking(piece)
            best = min(best, time.process_time() - begun)
        megabytes = sum(map(len, pieces)) / 1e6
        yield Record(
            name=f"masking: {LOG_MB} MB of log, {kind}",
            unit="s",
            ours=best * LOG_MB / megabytes,
            target=LOG_MB / TARGET_MB_S,
            note=f"CPU time; {megabytes / best:.0f} MB/s, measured on {megabytes:.0f} MB",
        )


def _pieces(line: Callable[[int], str], count: int) -> Iterator[bytes]:
    number = 0
    for _ in range(count):
        lines: list[str] = []
        size = 0
        while size < PIECE:
            lines.append(line(number) + "\n")
            size += len(lines[-1])
            number += 1
        yield "".join(lines).encode()
