"""What the benchmarks share: functions timed in turns, in one process and on one thread, and tables of the ratios.

Seconds are CPU seconds of this process. On one thread of a quiet machine these are the seconds of the clock; on a busy
one they leave out the time that other processes took.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path


def interleaved(
    functions: Mapping[str, Callable[[], object]],
    rounds: int,
    repeat: int = 1,
    of: Callable[[list[float]], float] = statistics.median,
) -> dict[str, float]:
    """Seconds of one call of each function, measured turn by turn, ``repeat`` calls at a time; the median round."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        for _ in range(2 * repeat):
            function()
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.process_time()
            for _ in range(repeat):
                function()
            seconds[name].append((time.process_time() - start) / repeat)
    return {name: of(values) for name, values in seconds.items()}


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a Markdown table."""
    head = list(columns)
    print(f"\n**{title}**\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row) + " |")


def times(ratio: float) -> str:
    """A ratio as people say it."""
    return f"{ratio:.1f}x" if ratio >= 2 else f"{ratio:.2f}x"


def resident(key: str) -> int:
    """Memory of this process in bytes: VmRSS now, VmHWM at its peak (ru_maxrss would count the parent's)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
