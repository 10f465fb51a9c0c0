"""What answers on photos, chosen: closed forms on held-out *training* images of five sets. Test images are not read.

    python benchmarks/photo_choice.py DATA [--size 224] [--sets trashnet6 cifar10] [--orders 100 101 ...] [--cache ...]

DATA holds ``photos/<set>/train/<class>/*``, ``imagenet50`` and ``cifar-10-batches-bin``. 30 % of each class are judged,
all classes at once; a tenth of the rest, at random, chooses ridges and temperatures. Of photos, which are often taken
in series, those are judged that look most alike: the far end of a random direction (one of the first five principal
components, mixed) of thumbnails of 8x8 pixels. Of the other two sets 30 and 150 images a class are used, and those
judged are drawn at random. All are brought to ``--size`` pixels. Formulas are those of the methods, solved in images
and not in features, of which there are more. A line of JSON for each set and order, then a table of means.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.backbones.pretrained import efficientnet_lite0
from lockgate.config import DataConfig, ModelConfig
from lockgate.data import cifar10, folder, imagenet50
from lockgate.layers.pool import pooled, root
from lockgate.methods.closed_form import ClosedForm
from lockgate.methods.ranpac import Projection
from lockgate.methods.slda_bilinear import Bilinear, SLDABilinearOptions, middle_map
from lockgate.methods.slda_ridge import STILL
from lockgate.methods.temperature import temperature_of

SETS = ("flowers20", "grocery24", "trashnet6", "imagenet50", "cifar10")
PER_CLASS = {"imagenet50": 30, "cifar10": 150}
SLDA, RIDGES, OF_PRODUCTS, RANPAC = 0.3, (0.1, 0.3, 1.0), (0.1,), (0.01, 0.1, 0.3)


def images(data: Path, name: str, size: int) -> tuple[Tensor, Tensor]:
    """Training images (N, 3, S, S) uint8 and labels (N,)."""
    if name not in PER_CLASS:
        found = folder.read(data / "photos" / name, DataConfig(image_size=size, resize="crop")).train
        return torch.from_numpy(found.x), torch.from_numpy(found.y)
    found = (cifar10 if name == "cifar10" else imagenet50).read(data, DataConfig()).train
    y, draw = torch.from_numpy(found.y), torch.Generator().manual_seed(1)
    rows = []
    for label in range(int(y.max()) + 1):
        mine = torch.nonzero(y == label).flatten()
        rows.append(mine[torch.randperm(len(mine), generator=draw)[: PER_CLASS[name]]])
    x = torch.from_numpy(found.x)[torch.cat(rows)].float()
    larger = F.interpolate(x, size=(size, size), mode="bicubic", antialias=True, align_corners=False)
    return larger.clamp(0, 255).round().byte(), y[torch.cat(rows)]


@torch.no_grad()
def features(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of every layer of Lite0, pooled, (N, D); and products of channels, as slda-bilinear reads them, (N, F)."""
    network = efficientnet_lite0((3, *x.shape[2:]), ClosedForm.layer_factory("he", None), ModelConfig()).eval()
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (network.preprocessing.mean, network.preprocessing.std))
    torch.manual_seed(0)
    products: Bilinear | None = None
    means, multiplied = [], []
    for part in x.split(32):
        last, maps = network.read_given((part.float() / 255 - mean) / std)
        middle = middle_map(last, maps)
        products = products or Bilinear(middle.shape[1], SLDABilinearOptions().channels)
        means.append(torch.cat([pooled(h, 1) for h in maps.values()], dim=1))
        multiplied.append(products(middle))
    return torch.cat(means), torch.cat(multiplied)


def known(data: Path, name: str, size: int, cache: Path) -> dict[str, Tensor]:
    """Features of images and of their mirror images, labels and thumbnails; computed once."""
    file = cache / f"choice-{name}-{size}-products.pt"
    if not file.exists():
        x, y = images(data, name, size)
        small = F.adaptive_avg_pool2d(x.float() / 255, 8).flatten(1)
        file.parent.mkdir(parents=True, exist_ok=True)
        (as_is, products), (mirrored, of_mirrored) = features(x), features(x.flip(3))
        made = {"as is": as_is, "mirrored": mirrored, "products": products, "mirrored products": of_mirrored}
        torch.save({**made, "y": y, "small": small}, file)
    found: dict[str, Tensor] = torch.load(file, weights_only=True)
    return found


def divided(of: dict[str, Tensor], alike: bool, order: int) -> tuple[Tensor, Tensor]:
    """Which images are judged and which choose, (N,) bool each."""
    draw, y = torch.Generator().manual_seed(order), of["y"]
    judged, choosing = torch.zeros(len(y), dtype=torch.bool), torch.zeros(len(y), dtype=torch.bool)
    for label in range(int(y.max()) + 1):
        mine = torch.nonzero(y == label).flatten()
        count = round(0.3 * len(mine))
        if alike:
            components = torch.linalg.svd(of["small"][mine] - of["small"][mine].mean(0), full_matrices=False)[0][:, :5]
            far = (components @ torch.randn(5, generator=draw)).argsort(descending=True)
        else:
            far = torch.randperm(len(mine), generator=draw)
        judged[mine[far[:count]]] = True
        rest = mine[far[count:]]
        choosing[rest[torch.randperm(len(rest), generator=draw)[: max(1, round(0.1 * len(rest)))]]] = True
    return judged, choosing


def solved(gram: Tensor, right: Tensor, ridge: float) -> Tensor:
    """(gram + ridge I)^-1 right, in double precision."""
    whole = gram.double() + ridge * torch.eye(len(gram), dtype=torch.float64)
    return torch.cholesky_solve(right.double(), torch.linalg.cholesky(whole)).float()


def slda(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Scores of ``z`` by shrunken LDA of ``x``: the inverse by Woodbury's identity."""
    means = torch.stack([x[y == c].mean(0) for c in range(int(y.max()) + 1)])
    about = x - means[y]
    least = SLDA * float(about.square().mean())
    right = about @ means.T
    inner = solved(about @ about.T, right, least * len(y) / (1 - SLDA))
    square = means.square().sum(1) - (right * inner).sum(0)
    return (z @ means.T - z @ about.T @ inner - square / 2) / least


def ridges(x: Tensor, y: Tensor, z: Tensor, candidates: tuple[float, ...], standard: bool) -> dict[float, Tensor]:
    """Scores of ``z`` by ridge regressions of one-hot classes on ``x``; classes are of equal size here, nearly."""
    target = F.one_hot(y).float()
    if standard:
        middle, deviation = x.mean(0), x.std(0)
        scale = 1 / (deviation + STILL * deviation.mean())
        x, z, target = (x - middle) * scale, (z - middle) * scale, target - target.mean(0)
    gram = x @ x.T
    return {a: z @ x.T @ solved(gram, target, a * float(gram.diagonal().mean())) for a in candidates}


def scores(
    x: Tensor, y: Tensor, z: Tensor, products: tuple[Tensor, Tensor], order: int
) -> dict[str, dict[float, Tensor]]:
    """Of ``z`` by each method fitted to ``x``, and each of its candidates; ``products`` are those of both."""
    torch.manual_seed(order)
    project = Projection(x.shape[1], 2000)
    return {
        "slda, as read": {0: slda(x, y, z)},
        "slda": {0: slda(root(x), y, root(z))},
        "ridge": ridges(root(x), y, root(z), RIDGES, standard=True),
        "products": ridges(products[0], y, products[1], OF_PRODUCTS, standard=True),
        "ranpac": ridges(project(x), y, project(z), RANPAC, standard=False),
    }


PRODUCTS = (
    ("slda", "ridge"),
    ("slda", "products"),
    ("slda", "ridge", "products"),
    ("slda", "ranpac"),
    ("slda, as read", "ridge"),
)


def measure(of: dict[str, Tensor], alike: bool, order: int) -> dict[str, float]:
    """Accuracy of every method, and of products, on the images judged."""
    judged, choosing = divided(of, alike, order)
    y = of["y"]

    def fitted(rows: Tensor, asked: Tensor) -> dict[str, dict[float, Tensor]]:
        x = torch.cat([of["as is"][rows], of["mirrored"][rows]])
        products = torch.cat([of["products"][rows], of["mirrored products"][rows]]), of["products"][asked]
        return scores(x, y[rows].repeat(2), of["as is"][asked], products, order)

    tries, final = fitted(~judged & ~choosing, choosing), fitted(~judged, judged)
    sure: dict[str, Tensor] = {}
    for name, of_candidate in tries.items():
        tempered = [(c, temperature_of(s, y[choosing]), s) for c, s in of_candidate.items()]
        _, candidate, t = min((float(F.cross_entropy(s / t, y[choosing])), c, t) for c, t, s in tempered)
        sure[name] = (final[name][candidate] / t).log_softmax(1)
    sure |= {" x ".join(names): sum((sure[name] for name in names), torch.zeros(())) for names in PRODUCTS}
    return {name: float((said.argmax(1) == y[judged]).double().mean()) for name, said in sure.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--orders", nargs="+", type=int, default=list(range(100, 110)))
    parser.add_argument("--cache", type=Path, default=Path("runs/photos"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, list[dict[str, float]]] = {}
    for name in given.sets:
        of = known(given.data, name, given.size, given.cache)
        for order in given.orders:
            found.setdefault(name, []).append(measure(of, name not in PER_CLASS, order))
            print(json.dumps({"set": name, "order": order, **found[name][-1]}), file=sys.stderr, flush=True)
    print(f"| held out | {' | '.join(found)} | mean |\n|---|{'---|' * (len(found) + 1)}")
    for method in next(iter(found.values()))[0]:
        means = [statistics.mean(line[method] for line in lines) for lines in found.values()]
        spreads = [statistics.stdev(line[method] for line in lines) for lines in found.values()]
        cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(means, spreads, strict=True)]
        print(f"| {method} | {' | '.join(cells)} | {statistics.mean(means):.3f} |")


if __name__ == "__main__":
    main()
