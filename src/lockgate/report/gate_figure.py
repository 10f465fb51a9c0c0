"""Which gates of a layer fire for which task (paper, Figure 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lockgate.report.charts import COLOURS, WIDTH
from lockgate.report.svg import Figure, document, element, hint, text

STRIP = 74  # pixels of one task's histogram
Shares = Sequence[float | None]


def firing(layer: str, rows: Sequence[Shares]) -> Figure:
    """How often each gate of a layer fires, a histogram for each task; gates sorted by their rate over all tasks.

    A layer that has grown has more gates in later rows: earlier tasks have none there.
    """
    width = max(len(row) for row in rows)
    shares = [[(row[gate] or 0.0) if gate < len(row) else 0.0 for gate in range(width)] for row in rows]
    order = sorted(range(width), key=lambda gate: -sum(row[gate] for row in shares))
    height = STRIP * len(rows) + 30
    body = [part for t, row in enumerate(shares) for part in _histogram([row[g] for g in order], t)]
    body.append(text(WIDTH / 2, height - 5, f"gates of {layer}, most often open first", "label", "middle"))
    silent = sum(1 for g in order if not any(row[g] for row in shares))
    caption = (
        f"Share of held-out images for which each gate of {layer} fires, by task; {silent} of {width} never do and are "
        "free for tasks to come."
    )
    title = f"Gates of {layer}"
    return Figure(title, caption, document(title, caption, body, viewBox=f"0 0 {WIDTH:.0f} {height}"))


def _histogram(shares: Sequence[float], task: int) -> Iterator[str]:
    top, left, right = task * STRIP + 8, 60.0, WIDTH - 8
    base, step = top + STRIP - 14, (right - left) / len(shares)
    yield text(left - 8, base - 20, f"task {task + 1}", "tick", "end")
    yield element("line", x1=left, x2=right, y1=base, y2=base, class_="rule")
    for i, share in enumerate(shares):
        if share > 0:
            tall = share * (STRIP - 20)
            place = {"x": f"{left + i * step:.2f}", "y": f"{base - tall:.2f}", "width": f"{max(0.5, step * 0.85):.2f}"}
            said = hint(f"fires for {100 * share:.1f} %")
            yield element("rect", said, **place, height=f"{tall:.2f}", class_=f"dot s{task % COLOURS}")
