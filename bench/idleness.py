"""Whether anybody else was using the processor."""

from __future__ import annotations

import os
import time
from pathlib import Path


def _busy_seconds() -> float | None:
    """CPU time of all processes, and what the hypervisor took; None where there is no /proc."""
    try:
        user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class Idleness:
    def __init__(self) -> None:
        self._wall, self._busy, self._own = self._now()

    @staticmethod
    def _now() -> tuple[float, float | None, float]:
        times = os.times()
        return time.monotonic(), _busy_seconds(), times.user + times.system

    def cores_taken_by_others(self) -> float | None:
        """On average since the constructor."""
        wall, busy, own = self._now()
        if busy is None or self._busy is None or wall == self._wall:
            return None
        return max(0.0, (busy - self._busy - (own - self._own)) / (wall - self._wall))
