"""What a server has done, as text that Prometheus reads."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds, as Prometheus' own clients have them."""


class Metrics:
    """Counts of requests and images, and how long answers took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.time()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._slower = [0] * len(BUCKETS)
        self._seconds = 0.0
        self._answers = 0
        self.images = 0
        self.reloads = 0

    def request(self, route: str, code: int) -> None:
        """A request was answered."""
        with self._lock:
            self._requests[route, code] += 1

    def answered(self, images: int, seconds: float) -> None:
        """So many images were answered, so long after they came."""
        with self._lock:
            self.images += images
            self._answers += 1
            self._seconds += seconds
            for i, most in enumerate(BUCKETS):
                self._slower[i] += seconds <= most

    def text(self, waiting: int, limit: int, tasks: int) -> str:
        """All of it, with how many images wait now."""
        with self._lock:
            lines = _family("lockgate_requests_total", "counter", "Requests, by route and status.")
            for (route, code), count in sorted(self._requests.items()):
                lines.append(f'lockgate_requests_total{{route="{route}",code="{code}"}} {count}')
            lines += _family("lockgate_answer_seconds", "histogram", "From a request's arrival to its answers.")
            for most, count in zip(BUCKETS, self._slower, strict=True):
                lines.append(f'lockgate_answer_seconds_bucket{{le="{most}"}} {count}')
            lines.append(f'lockgate_answer_seconds_bucket{{le="+Inf"}} {self._answers}')
            lines.append(f"lockgate_answer_seconds_sum {self._seconds:.6f}")
            lines.append(f"lockgate_answer_seconds_count {self._answers}")
            single = [
                ("lockgate_images_total", "counter", "Images answered.", self.images),
                ("lockgate_reloads_total", "counter", "Times the model was read again.", self.reloads),
                ("lockgate_waiting_images", "gauge", "Images waiting or at work.", waiting),
                ("lockgate_waiting_limit", "gauge", "Images that may wait.", limit),
                ("lockgate_tasks", "gauge", "Tasks that the model knows.", tasks),
                ("process_resident_memory_bytes", "gauge", "Memory of the process.", _resident()),
                ("process_start_time_seconds", "gauge", "When the server began.", round(self._began, 3)),
            ]
            for name, kind, meaning, value in single:
                lines += [*_family(name, kind, meaning), f"{name} {value}"]
        return "\n".join(lines) + "\n"


def _family(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]


def _resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), 0)
