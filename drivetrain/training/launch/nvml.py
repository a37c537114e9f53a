"""Read this host's GPUs from NVIDIA's driver, by NVML (libnvidia-ml, a part of every driver).

https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

_SUCCESS, _TEMPERATURE_GPU = 0, 0
# Of nvmlClocksEventReasons, those that take speed away: power cap, thermal and hardware slowdown.
_THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class Gpus:
    """
    Args:
        library: NVML; found by its name unless given.

    Attributes:
        count: how many there are; 0 without a driver, or where it does not answer.
    """

    def __init__(self, library: Any = None) -> None:
        self._library = library if library is not None else _load()
        self._handles: list[ctypes.c_void_p] = []
        if self._library is None or self._library.nvmlInit_v2() != _SUCCESS:
            return
        count = self._ask(self._library.nvmlDeviceGetCount_v2, ctypes.c_uint())
        for index in range(count.value if count is not None else 0):
            handle = ctypes.c_void_p()
            if self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == _SUCCESS:
                self._handles.append(handle)

    @property
    def count(self) -> int:
        return len(self._handles)

    def sample(self) -> list[dict[str, float]]:
        """For each GPU: `utilisation` (0 to 1), `memory` (0 to 1), `power` [W], `temperature` [degrees C], `throttled`
        (0 or 1); what the driver does not tell is left out."""
        found: list[dict[str, float]] = []
        for handle in self._handles:
            used = self._ask(self._library.nvmlDeviceGetUtilizationRates, _Utilization(), handle)
            memory = self._ask(self._library.nvmlDeviceGetMemoryInfo, _Memory(), handle)
            power = self._ask(self._library.nvmlDeviceGetPowerUsage, ctypes.c_uint(), handle)
            reasons = self._ask(self._library.nvmlDeviceGetCurrentClocksThrottleReasons, ctypes.c_ulonglong(), handle)
            degrees = ctypes.c_uint()
            told = self._library.nvmlDeviceGetTemperature(handle, _TEMPERATURE_GPU, ctypes.byref(degrees))
            one = {
                "utilisation": used.gpu / 100 if used is not None else None,
                "memory": memory.used / memory.total if memory is not None and memory.total else None,
                "power": power.value / 1000 if power is not None else None,
                "temperature": float(degrees.value) if told == _SUCCESS else None,
                "throttled": float(bool(reasons.value & _THROTTLED)) if reasons is not None else None,
            }
            found.append({name: value for name, value in one.items() if value is not None})
        return found

    @staticmethod
    def _ask(function: Callable[..., int], answer: Any, *given: Any) -> Any:
        return answer if function(*given, ctypes.byref(answer)) == _SUCCESS else None


def _load() -> Any:
    try:
        return ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:  # there is no driver, and so no GPU of theirs
        return None
