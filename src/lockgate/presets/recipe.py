"""The recipe of a network: one file, `short/BACKBONE.yaml`, fitted to the size of a task and the side of its images.

No setting depends on the name of a data set. Which network a data set has where nobody says is the paper's choice.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockgate.config import merge, read_yaml
from lockgate.data.size import TaskSize

FOLDER = Path(__file__).parent
SHORT, DEFAULT = "short", "default"
RULES = ("schedule", "augment")
"""Groups of a recipe that are rules rather than settings."""

RESNET = ("cifar10", "cifar100", "imagenet50", "tiny_imagenet")
"""Data sets of photographs. The paper has ResNet-18 for them and its three convolutions for all else (Section 4.1):
a choice of network, not a setting."""


def network_of(dataset: str) -> str:
    """The network of a data set where nobody names one."""
    return "resnet18" if dataset in RESNET else "simple_cnn"


def settings_for(method: str, backbone: str, task: TaskSize, batch_size: int | None = None) -> dict[str, Any]:
    """What the file of a network has for tasks of this size; a ``batch_size`` that is given decides the epochs."""
    settings = recipe_file(backbone)
    batch = batch_for(settings["schedule"], task.images)
    fitted: dict[str, Any] = {
        "backbone": backbone,
        "epochs": epochs_for(settings["schedule"], task.images, batch_size or batch),
        "optim": {"batch_size": batch},
        "augment": augment_for(settings["augment"], task.side),
    }
    return merge(fitted, of_method(settings, method))


def batch_for(rule: Mapping[str, Any], images: int) -> int:
    """Images a step, for a task of ``images`` training images."""
    return int(max((least, size) for least, size in rule["batch_size"].items() if images >= least)[1])


def epochs_for(rule: Mapping[str, Any], images: int, batch_size: int) -> int:
    """As many epochs as make the steps that the rule wants, within its bounds."""
    fewest, most = rule["epochs"]
    steps = max(1, images // max(1, batch_size))  # an epoch has whole batches only
    return int(min(most, max(fewest, -(-rule["steps"] // steps))))


def augment_for(rule: Mapping[str, Any], side: int) -> dict[str, Any]:
    """How images of ``side`` pixels vary."""
    return {
        "random_translate": side // int(rule["translate"]),
        "random_affine": float(rule["affine"]),
        "random_flip": bool(rule["flip"]),
    }


def of_method(settings: Mapping[str, Any], method: str) -> dict[str, Any]:
    """What the groups of a file give a method: `all`, then whichever name it, in the order of the file."""
    values: dict[str, Any] = dict(settings["all"])
    for names, group in settings.items():
        if names not in RULES and method in names.split(", "):
            values = merge(values, group)
    return values


def recipe_file(backbone: str) -> dict[str, Any]:
    """The file of a network, or the one of all that have none."""
    file = FOLDER / SHORT / f"{backbone}.yaml"
    known = {path.stem for path in (FOLDER / SHORT).glob("*.yaml")}  # ``backbone`` is whatever somebody typed
    return read(file if backbone in known else FOLDER / SHORT / f"{DEFAULT}.yaml")


def read(file: Path) -> dict[str, Any]:
    """A file of a preset; the caller's own, since options of an experiment can be changed."""
    return copy.deepcopy(_parsed(file))


@functools.cache
def _parsed(file: Path) -> dict[str, Any]:
    return read_yaml(file)
