"""The few drawing primitives that the figures need. Colours are classes, so that the page's light, dark and print
styles reach into every picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float | None]


@dataclass(frozen=True)
class Figure:
    """A picture, its words, and its legend: `(name, class of the swatch)`, set as HTML so that it can wrap."""

    title: str
    caption: str
    svg: str
    legend: tuple[tuple[str, str], ...] = ()


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """One element; `content` is markup already. `class_` and `stroke_width` stand for `class` and `stroke-width`."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"' for name, value in attributes.items()
    )
    return f"<{tag}{given}>{content}</{tag}>" if content else f"<{tag}{given}/>"


def text(x: float | str, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text."""
    return element("text", escape(words), x=x, y=y, class_=kind, text_anchor=anchor)


def hint(words: str) -> str:
    """What a pointer shows over the element it is put in, and a screen reader says."""
    return element("title", escape(words))


def document(title: str, description: str, body: Iterable[str], **size: object) -> str:
    """The whole picture, named for those who cannot see it; `size` is a `viewBox`, or a width and a height."""
    head = element("title", escape(title)) + element("desc", escape(description))
    return element(
        "svg",
        head + "".join(body),
        xmlns="http://www.w3.org/2000/svg",
        **size,
        role="img",
        aria_label=f"{title}. {description}",
    )


def trace(points: Sequence[Point]) -> str:
    """Path data through the points; a missing value lifts the pen, a lone point leaves a dot (with round caps)."""
    parts, pen = [], False
    for index, (x, y) in enumerate(points):
        if y is None:
            pen = False
            continue
        parts.append(f"{'L' if pen else 'M'}{_plain(x)} {_plain(y)}")
        lone = not pen and (index + 1 == len(points) or points[index + 1][1] is None)
        parts.append("h0" if lone else "")
        pen = True
    return "".join(parts)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) that enclose `low` to `high`."""
    rough = (high - low) / about if high > low else 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [k * step for k in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True)
class Frame:
    """Where data land on the paper: an x range, the y ticks, and the four edges of the plot in pixels."""

    x: tuple[float, float]
    y: Sequence[float]
    left: float
    top: float
    right: float
    bottom: float

    def at(self, x: float, y: float | None) -> Point:
        """Pixels of a point."""
        low, high = self.x
        across = (x - low) / (high - low) if high > low else 0.5
        down = (
            None if y is None else self.bottom - (y - self.y[0]) / (self.y[-1] - self.y[0]) * (self.bottom - self.top)
        )
        return self.left + across * (self.right - self.left), down

    def grid(self) -> Iterator[str]:
        """Horizontal rules and their numbers."""
        digits = max(0, -math.floor(math.log10(self.y[1] - self.y[0]) + 1e-9))
        for value in self.y:
            _, down = self.at(0, value)
            assert down is not None
            yield element("line", x1=self.left, x2=self.right, y1=down, y2=down, class_="rule")
            yield text(self.left - 7, down + 4, f"{value:.{digits}f}", "tick", "end")


def _plain(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
