"""With how many threads a process computes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def computing_threads(number: int) -> Generator[None]:
    """So many while the block runs, whatever OMP_NUM_THREADS says.

    By themselves they are as many as the host's cores, shared out among its processes: then the last bits would depend
    on where and on how many processes a batch went through the model.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
