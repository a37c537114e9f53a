"""What DeepSpeed must not do as it starts."""

from __future__ import annotations


def without_kernels() -> None:
    """Let DeepSpeed use none of its optional kernels: to find out which could be compiled starts a compiler for each;
    the first use of one takes minutes, and a process that is killed meanwhile leaves a lock behind that later ones wait
    for."""
    import deepspeed

    deepspeed.ops.__dict__["__compatible_ops__"] = {}
