"""Would more views of a photo help? Closed forms on held-out *training* photos, as of photo_choice.py. A trial: no.

    python benchmarks/photo_views.py DATA [--size 160] [--sets trashnet6 grocery24] [--orders 100 101 ...] [--cache ...]

Photos of a class are taken in series; photos that are asked about later differ in scale, place and light. Here a closed
form sees that of each photo: ``colour`` (brightness, contrast, saturation, tint), ``both`` (that, on a part of 60 to
95 % of the side), ``out colour`` (that, on the photo at 60 to 90 % of its size, its border mirrored). A view is drawn
by the photo's own bytes, so it does not depend on the order of photos. Views are counted as photos (``count``), or only
what they differ by from their photo is added to the covariance within classes, times a weight (``differ``). Answers may
be the mean over views as well (``asked``). All of the product of slda, ridge and products of channels; a = 0.3 and 0.1,
temperatures by the photos that choose. One fit a draw, to photos that are neither judged nor chosen by.

All is solved in products of photos with photos, made once for a set: features are scaled by all its training photos.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.layers.pool import root
from lockgate.methods.slda_ridge import STILL
from lockgate.methods.temperature import temperature_of
from photo_choice import SLDA, divided, features, images

SETS = ("trashnet6", "grocery24", "flowers20")
MUCH = 0.4
RIDGE, OF_PRODUCTS = 0.3, 0.1
AS_IS = ("as is", "mirrored")


class Variant(NamedTuple):
    """Views that count as photos; views of which only differences count, and how much; views that are asked."""

    counted: tuple[str, ...] = AS_IS
    differ: tuple[str, ...] = ()
    weight: float = 0.0
    asked: tuple[str, ...] = ("as is",)


VARIANTS = {
    "as learn has it": Variant(),
    "not mirrored": Variant(("as is",)),
    "count colour": Variant((*AS_IS, "colour")),
    "count both": Variant((*AS_IS, "both")),
    "count both, out colour": Variant((*AS_IS, "both", "out colour")),
    "differ colour x 0.1": Variant(differ=("colour",), weight=0.1),
    "differ colour x 1": Variant(differ=("colour",), weight=1),
    "differ both x 0.1": Variant(differ=("both",), weight=0.1),
    "differ both, out colour x 0.1": Variant(differ=("both", "out colour"), weight=0.1),
    "differ both, out colour x 1": Variant(differ=("both", "out colour"), weight=1),
    "asked mirrored too": Variant(asked=AS_IS),
    "asked both, out colour too": Variant(asked=(*AS_IS, "both", "out colour")),
    "count and asked both, out colour": Variant((*AS_IS, "both", "out colour"), asked=(*AS_IS, "both", "out colour")),
}


def part(x: Tensor, draw: np.random.Generator) -> Tensor:
    """A square of 60 to 95 % of the side, enlarged; ``x`` (3, S, S)."""
    whole = x.shape[1]
    side = round(whole * draw.uniform(0.6, 0.95))
    top, left = draw.integers(0, whole - side + 1, 2)
    cut = x[None, :, top : top + side, left : left + side]
    return F.interpolate(cut, size=(whole, whole), mode="bilinear", antialias=True, align_corners=False)[0]


def smaller(x: Tensor, draw: np.random.Generator) -> Tensor:
    """The photo at 60 to 90 % of its size, what is around it mirrored."""
    whole = x.shape[1]
    side = round(whole * draw.uniform(0.6, 0.9))
    small = F.interpolate(x[None], size=(side, side), mode="bilinear", antialias=True, align_corners=False)
    top, left = (int(v) for v in draw.integers(0, whole - side + 1, 2))
    return F.pad(small, (left, whole - side - left, top, whole - side - top), mode="reflect")[0]


def coloured(x: Tensor, draw: np.random.Generator) -> Tensor:
    """Another light: brightness, contrast about the mean, saturation, a tint."""
    gain, tint = math.exp(draw.uniform(-MUCH, MUCH)), np.exp(draw.uniform(-MUCH / 3, MUCH / 3, 3))
    contrast, saturation = math.exp(draw.uniform(-MUCH, MUCH)), math.exp(draw.uniform(-MUCH, MUCH))
    x = x * gain
    x = (x - x.mean()) * contrast + x.mean()
    grey = x.mean(0, keepdim=True)
    return ((x - grey) * saturation + grey) * torch.tensor(tint, dtype=torch.float32)[:, None, None]


def either(x: Tensor, draw: np.random.Generator) -> Tensor:
    """Mirrored or not."""
    return x.flip(2) if draw.random() < 0.5 else x


VIEWS: dict[str, Callable[[Tensor, np.random.Generator], Tensor]] = {
    "as is": lambda x, draw: x,
    "mirrored": lambda x, draw: x.flip(2),
    "colour": lambda x, draw: either(coloured(x, draw), draw),
    "both": lambda x, draw: either(coloured(part(x, draw), draw), draw),
    "out colour": lambda x, draw: either(coloured(smaller(x, draw), draw), draw),
}


def seen(x: Tensor, view: str) -> Tensor:
    """Photos (N, 3, S, S) uint8 by a view that is drawn by the bytes of each."""
    made = []
    for image in x:
        seed = int.from_bytes(hashlib.sha256(view.encode() + image.numpy().tobytes()).digest()[:8], "little")
        made.append(VIEWS[view](image.float(), np.random.default_rng(seed)).clamp(0, 255).round().byte())
    return torch.stack(made)


def known(data: Path, name: str, size: int, cache: Path) -> dict[str, Tensor]:
    """Roots of means (V, N, D) and products (V, N, F) of all views, labels and thumbnails; computed once."""
    file = cache / f"views-{name}-{size}.pt"
    if not file.exists():
        x, y = images(data, name, size)
        small = F.adaptive_avg_pool2d(x.float() / 255, 8).flatten(1)
        means, products = zip(*(features(seen(x, view)) for view in VIEWS), strict=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        made = {"means": root(torch.stack(means)), "products": torch.stack(products), "y": y, "small": small}
        torch.save(made, file)
    found: dict[str, Tensor] = torch.load(file, weights_only=True)
    return found


def kernel(x: Tensor, scaled: bool) -> Tensor:
    """Products (V N, V N) of features ``x`` (V, N, D) about their mean; ``scaled``: by the deviations of photos."""
    photos, rows = x[: len(AS_IS)].flatten(0, 1), x.flatten(0, 1)
    rows = rows - photos.mean(0)
    if scaled:
        deviation = photos.std(0)
        rows = rows / (deviation + STILL * deviation.mean())
    return rows @ rows.T


class Fit:
    """A variant on some photos: means of classes, and rows whose products are the covariance within them."""

    def __init__(self, y: Tensor, chosen: Tensor, variant: Variant) -> None:
        rows, views = torch.nonzero(chosen).flatten(), list(VIEWS)
        self.at = {view: views.index(view) * len(y) + rows for view in views}
        self.counted = torch.cat([self.at[view] for view in variant.counted])
        self.labels, self.variant = y[rows].repeat(len(variant.counted)), variant
        of_class = F.one_hot(self.labels).float()
        self.share = (of_class / of_class.sum(0)).T  # (C, counted)

    def means(self, k: Tensor) -> Tensor:
        """Of columns ``k`` (V N, M): (C, M)."""
        return self.share @ k[self.counted]

    def within(self, k: Tensor) -> Tensor:
        """Rows about the mean of their class, then differences of views from their photo, (R, M)."""
        rows = [k[self.counted] - self.means(k)[self.labels]]
        factor = math.sqrt(self.variant.weight * len(AS_IS) / max(1, len(self.variant.differ)))
        photo = (k[self.at["as is"]] + k[self.at["mirrored"]]) / 2
        rows += [factor * (k[self.at[view]] - photo) for view in self.variant.differ]
        return torch.cat(rows) / math.sqrt(len(self.counted))

    def slda(self, k: Tensor, width: int) -> Tensor:
        """Scores (V N, C) by shrunken LDA of ``width`` features: the inverse by Woodbury's identity."""
        rows, means = self.within(k), self.means(k)
        square, across = self.within(rows.T), self.within(means.T)  # (R, R), (R, C)
        least = SLDA * float(square.diagonal().sum()) / width
        inner = inverse(square, least / (1 - SLDA), across)
        length = self.means(means.T).diagonal() - (across * inner).sum(0)
        return ((means - inner.T @ rows).T - length / 2) / least

    def ridge(self, k: Tensor, width: int, ridge: float) -> Tensor:
        """Scores (V N, C) by ridge regression of one-hot classes; classes count the same."""
        apart = about_mean(self.means(k))
        rows = torch.cat([self.within(k), apart / math.sqrt(len(apart))])
        square = torch.cat([self.within(rows.T), about_mean(self.means(rows.T)) / math.sqrt(len(apart))])
        least = ridge * width / len(self.counted)
        inner = inverse(square, least, about_mean(self.means(rows.T)).T)
        scores = (apart - inner.T @ rows).T / least / len(apart)
        return scores - self.means(scores).mean(0)


def about_mean(x: Tensor) -> Tensor:
    """Rows about their mean."""
    return x - x.mean(0)


def inverse(square: Tensor, least: float, right: Tensor) -> Tensor:
    """(square + least I)^-1 right."""
    return torch.cholesky_solve(right, torch.linalg.cholesky(square + least * torch.eye(len(square))))


def measure(
    kernels: tuple[Tensor, ...], widths: tuple[int, int], of: dict[str, Tensor], order: int
) -> dict[str, float]:
    """Accuracy of every variant on the photos judged."""
    y = of["y"]
    judged, choosing = divided(of, True, order)
    found = {}
    for name, variant in VARIANTS.items():
        fit = Fit(y, ~judged & ~choosing, variant)
        scores = (
            fit.slda(kernels[0], widths[0]),
            fit.ridge(kernels[1], widths[0], RIDGE),
            fit.ridge(kernels[2], widths[1], OF_PRODUCTS),
        )
        asked = [list(VIEWS).index(view) for view in variant.asked]
        sure = torch.zeros(int(judged.sum()), int(y.max()) + 1)
        for said in scores:
            temperature = temperature_of(said[: len(y)][choosing], y[choosing])
            by_view = (said / temperature).log_softmax(1).view(len(VIEWS), len(y), -1)
            sure += by_view[asked][:, judged].mean(0)
        found[name] = float((sure.argmax(1) == y[judged]).double().mean())
    return found


def main() -> None:
    """Print a table: accuracy of what ``learn`` has, and differences in points, paired by draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--orders", nargs="+", type=int, default=list(range(100, 110)))
    parser.add_argument("--cache", type=Path, default=Path("runs/photos"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, list[dict[str, float]]] = {}
    for name in given.sets:
        of = known(given.data, name, given.size, given.cache)
        kernels = kernel(of["means"], False), kernel(of["means"], True), kernel(of["products"], True)
        widths = of["means"].shape[2], of["products"].shape[2]
        found[name] = [measure(kernels, widths, of, order) for order in given.orders]
    print(f"| held out | {' | '.join(found)} |\n|---|{'---|' * len(found)}")
    first = next(iter(VARIANTS))
    print(f"| {first} | {' | '.join(f'{statistics.mean(line[first] for line in of):.3f}' for of in found.values())} |")
    for variant in list(VARIANTS)[1:]:
        cells = []
        for lines in found.values():
            gains = [100 * (line[variant] - line[first]) for line in lines]
            cells.append(f"{statistics.mean(gains):+.1f} ± {statistics.stdev(gains) / math.sqrt(len(gains)):.1f}")
        print(f"| {variant} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
