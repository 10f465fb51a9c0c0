"""Closed-form methods on photos, from a frozen EfficientNet-Lite0: task after task, without and with the task given.

    python benchmarks/photos.py DATA [--sets flowers20 grocery24] [--orders 0 1 2] [--size 224] [--flip] [--held-out]

DATA holds ``<set>/train/<class>/*`` and ``<set>/test/<class>/*``, or for the set cifar10 its own files, of which
``--per-class`` training images a class are used, enlarged to ``--size``; all test images are. What the network makes
of an image is computed once and kept in ``--cache``; methods, tasks and tests are those of a run. Numbers are the mean
over class orders of the accuracy after the last task, and their spread; seconds are of learning all tasks, of one
order. With ``--held-out``, to choose by, test images are not looked at: half of 30 % of the training images are tested
on.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from lockgate.backbones.base import Backbone
from lockgate.backbones.pretrained import efficientnet_lite0
from lockgate.config import AugmentConfig, DataConfig, ModelConfig, ScenarioConfig
from lockgate.data import cifar10, folder
from lockgate.data.arrays import Arrays, Dataset, UnreadArrays
from lockgate.evaluation.accuracy import class_incremental, task_incremental
from lockgate.layers.pool import pooled
from lockgate.methods import METHODS
from lockgate.methods.base import Context
from lockgate.methods.closed_form import ClosedForm
from lockgate.methods.slda_bilinear import middle_map
from lockgate.scenario import split

TASKS = {"flowers20": 4, "grocery24": 6, "trashnet6": 3}
CIFAR = {"cifar10": 5}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "ncm, last features": ("ncm", {"features": "last"}),
    "ncm, all layers": ("ncm", {}),
    "slda, last features": ("slda", {"features": "last"}),
    "slda, all layers, no roots": ("slda", {"roots": False}),
    "slda, all layers": ("slda", {}),
    "slda-ridge, all layers": ("slda-ridge", {}),
    "slda-bilinear": ("slda-bilinear", {}),
    "ranpac, last features": ("ranpac", {"features": "last"}),
    "ranpac, all layers": ("ranpac", {}),
}


class Remembering(Backbone):
    """A frozen network that knows images it has seen: maps by the SHA-256 of the standardised image, pooled, but one
    that slda-bilinear reads whole."""

    given = True

    def __init__(self, network: Backbone, file: Path) -> None:
        super().__init__()
        self.network, self.file = network, file
        self.preprocessing = network.preprocessing
        self.known: dict[str, Tensor] = load_file(file) if file.exists() else {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def widths(self) -> list[int]:
        return []

    def read_given(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if not self.shapes:
            features, maps = self.network.read_given(x[:1])
            whole = middle_map(features, maps)
            self.shapes = {name: tuple(h.shape[1:] if h is whole else h.shape[1:2]) for name, h in maps.items()}
        keys = [hashlib.sha256(image.contiguous().numpy().tobytes()).hexdigest() for image in x]
        new = [i for i, key in enumerate(keys) if key not in self.known]
        if new:
            _, maps = self.network.read_given(x[new])
            kept = [h.flatten(1) if len(self.shapes[name]) == 3 else pooled(h, 1) for name, h in maps.items()]
            self.known.update({keys[i]: row.clone() for i, row in zip(new, torch.cat(kept, dim=1), strict=True)})
        parts = torch.stack([self.known[key] for key in keys]).split([prod(s) for s in self.shapes.values()], dim=1)
        found = zip(self.shapes.items(), parts, strict=True)
        maps = {name: part.reshape(len(x), *shape) for (name, shape), part in found}
        return maps["features"], maps

    def save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        save_file(self.known, self.file)


def measure(
    data: Dataset, tasks: int, backbone: Backbone, row: str, order: int, flip: bool, how: dict[str, Any]
) -> dict[str, float]:
    """Accuracy after the last task, without and with the task, and the seconds that solving took."""
    method, options = ROWS[row]
    scenario = split(data, tasks, ScenarioConfig(class_order="random", order_seed=order, **how), seed=order)
    cls = METHODS[method]
    torch.manual_seed(order)
    context = Context(backbone, cls.Options(**options), scenario.image_shape, augment=AugmentConfig(random_flip=flip))
    learner = cls(context)
    assert isinstance(learner, ClosedForm)
    began = time.process_time()
    for task in scenario.tasks:
        learner.begin_task(task)
        learner.end_task(task)
    seconds = time.process_time() - began
    without = class_incremental(learner, scenario.tasks)
    assert without is not None
    given = task_incremental(learner, scenario.tasks)
    return {"without": sum(without) / tasks, "given": sum(given) / tasks, "seconds": seconds}


def enlarged(found: Arrays, size: int, per_class: int) -> Arrays:
    """The same images of each class whatever the order of classes; 0: all."""
    y, draw = torch.from_numpy(found.y), torch.Generator().manual_seed(1)
    rows = torch.arange(len(y))
    if per_class:
        of_class = [torch.nonzero(y == label).flatten() for label in range(int(y.max()) + 1)]
        rows = torch.cat([mine[torch.randperm(len(mine), generator=draw)[:per_class]] for mine in of_class])
    x = torch.empty(len(rows), 3, size, size, dtype=torch.uint8)
    for start in range(0, len(rows), 500):
        part = torch.from_numpy(found.x[rows[start : start + 500].numpy()]).float()
        larger = F.interpolate(part, size=(size, size), mode="bicubic", antialias=True, align_corners=False)
        x[start : start + 500] = larger.clamp(0, 255).round().byte()
    return Arrays(x.numpy(), y[rows].numpy())


def dataset(data: Path, name: str, size: int, resize: str, per_class: int) -> Dataset:
    if name not in CIFAR:
        return folder.read(data / name, DataConfig(image_size=size, resize=resize))
    found = cifar10.read(data, DataConfig())
    test = UnreadArrays(lambda: enlarged(found.test, size, 0))
    return Dataset(name, found.classes, enlarged(found.train, size, per_class), test)


def shown(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=[*TASKS, *CIFAR], default=list(TASKS))
    parser.add_argument("--orders", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--resize", choices=["crop", "stretch"], default="crop")
    parser.add_argument("--per-class", type=int, default=500, help="training images a class, of cifar10")
    parser.add_argument("--flip", action="store_true", help="count mirror images as well")
    parser.add_argument("--held-out", action="store_true", help="to choose by: test images are not looked at")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--cache", type=Path, default=Path("runs/photos"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    how: dict[str, Any] = {"held_out": 0.3, "evaluate": "held_out"} if given.held_out else {}
    print("| photos | method | without the task | with the task | CPU seconds |\n|---|---|---|---|---|", flush=True)
    for name in given.sets:
        data, tasks = dataset(given.data, name, given.size, given.resize, given.per_class), (TASKS | CIFAR)[name]
        shape = (3, given.size, given.size)
        network = efficientnet_lite0(shape, ClosedForm.layer_factory("he", None), ModelConfig()).eval()
        backbone = Remembering(network, given.cache / f"{name}-{given.size}-{given.resize}-maps.safetensors")
        for row in given.rows:
            found = [measure(data, tasks, backbone, row, order, given.flip, how) for order in given.orders]
            cells = [shown([f[key] for f in found]) for key in ("without", "given")]
            seconds = statistics.mean(f["seconds"] for f in found)
            print(f"| {name}, {tasks} tasks | {row} | {cells[0]} | {cells[1]} | {seconds:.1f} |", flush=True)
        backbone.save()


if __name__ == "__main__":
    main()
