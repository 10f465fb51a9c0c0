"""What a model that grows is made of when its user says little: choices from the images, and why.

| | from scratch | pretrained (``start.py`` says which) |
|---|---|---|
| image size | the median of the shorter sides, at most 32, in steps of 4 | 224, at which the weights were trained |
| made a square | stretched | its middle cut out, as the weights want it |
| channels | one if all images of the first task are grey, else three | three |
| the rest | the network's recipe, as `lockgate run` has it (`presets/short`): by a task's images | so too |

From scratch layers grow, because nobody knows how many tasks will come.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lockgate.app.experiment_file import scaled
from lockgate.app.start import Start, choose, memory_of, refuse_training
from lockgate.app.user_settings import UserSettings
from lockgate.backbones.efficientnet_lite0 import PREPROCESSING
from lockgate.config import Experiment, gather, leaves, merge
from lockgate.data.size import TaskSize
from lockgate.data.task_images import ImageStats
from lockgate.errors import ConfigError
from lockgate.methods import METHODS
from lockgate.presets.chosen import chosen_for
from lockgate.presets.recipe import augment_for, batch_for, epochs_for, recipe_file, settings_for
from lockgate.runs.build import experiment_from

LARGEST, SMALLEST, STEP = 32, 8, 4
"""Sides of images, in pixels."""
OF_PHOTOS = PREPROCESSING.size
"""For the pretrained network: smaller photos are enlarged, which held-out images like better (docs/photos.md)."""
GROW = 0.3
"""Share of the first width that is free when a task begins."""
KEPT = 500
"""Images that an episodic memory keeps."""


def first(settings: UserSettings, stats: ImageStats, threads: int, start: Start | None = None) -> Experiment:
    """The experiment of a new model that begins from ``start``; None: from scratch, unless the user says a network."""
    start = start or choose(settings, stats, installed=False)
    memory, method, backbone = start.memory, start.method, start.backbone
    _refuse_keep(settings, memory)
    refuse_training(settings, method)
    # None is the only word for "choose": a 0 is a setting too, which the bounds of the config refuse.
    size = _side(stats.side, start.pretrained) if settings.size is None else settings.size
    # How many images there are is each task's own: ``for_task``.
    values = merge(settings_for(method, backbone, TaskSize(0, size)), chosen_for(method, backbone, settings.options))
    options: dict[str, Any] = {} if start.pretrained else {"grow": GROW}
    if memory != "none":
        options = {**options, "inference": "joint"}  # so that probabilities and answers agree
    if memory == "episodic":
        options = {**options, "buffer": KEPT if settings.keep is None else settings.keep}
    data: dict[str, Any] = {"image_size": size, "greyscale": stats.grey}
    if start.pretrained:
        data = {"image_size": size, "greyscale": False, "resize": "crop"}
    over: dict[str, Any] = {
        "method": method,
        "dataset": "folder",
        "tasks": 1,
        "seed": 0 if settings.seed is None else settings.seed,
        "data": data,
        "model": {} if settings.width is None else {"width": settings.width},
        "runtime": {"threads": threads},
        "options": {**options, **settings.options},
    }
    return experiment_from(merge(values, over))


def _side(side: int, pretrained: bool) -> int:
    """The side that images of a shorter side of ``side`` pixels are brought to."""
    return OF_PHOTOS if pretrained else min(LARGEST, max(SMALLEST, side // STEP * STEP))


def _refuse_keep(settings: UserSettings, memory: str) -> None:
    """Raise for a ``keep`` that would not be kept to: these are the user's images."""
    keep, buffer = settings.keep, settings.options.get("buffer")
    problem = ""
    if memory != "episodic":
        problem = f"'keep' is for memory 'episodic'. Got {keep} with memory {memory!r} instead; leave one of them out."
    elif keep is not None and keep < 1:
        problem = (
            f"'keep' must be at least 1. Got {keep} instead; to keep no images, choose memory 'none' or 'generative', "
            "and 'probes' 0."
        )
    elif buffer not in (None, keep):
        problem = f"'keep' and 'options.buffer' are one number. Got {keep} and {buffer} instead; leave one of them out."
    if keep is not None and problem:
        raise ConfigError([problem])


def refuse_changes(settings: UserSettings, model: Experiment) -> None:
    """Raise for settings that differ from what the first task fixed."""
    fixed: dict[str, tuple[Any, Any]] = {
        "memory": (settings.memory, memory_of(model.method)),
        "size": (settings.size, model.data.image_size),
        "backbone": (settings.backbone, model.backbone),
        "width": (settings.width, model.model.width),
        "keep": (settings.keep, model.options.get("buffer", 0)),
        "seed": (settings.seed, model.seed),
    }
    problems: list[str] = []
    known = asdict(gather(METHODS[model.method].Options, settings.options, "options.", problems))
    wanted, now = dict(leaves(known)), dict(leaves(model.options))
    given = [name for name, _ in leaves(settings.options) if name in wanted]
    fixed |= {f"options.{name}": (wanted[name], now.get(name)) for name in given}
    problems += [
        f"'{name}' was fixed as {was} when the model was made. Got {asked} instead; leave it out, or make a new model."
        for name, (asked, was) in fixed.items()
        if asked is not None and asked != was
    ]
    if problems:
        raise ConfigError(problems)


def for_task(model: Experiment, settings: UserSettings, images: int) -> Experiment:
    """The model's experiment with the schedule of a task of ``images`` training images."""
    refuse_training(settings, model.method)
    rule = recipe_file(model.backbone)["schedule"]
    batch = batch_for(rule, images) if settings.batch_size is None else settings.batch_size
    epochs = epochs_for(rule, images, batch) if settings.epochs is None else settings.epochs
    over: dict[str, Any] = {"epochs": epochs, "optim": {"batch_size": batch}, "options": {}}
    if settings.device is not None:
        over["runtime"] = {"accelerator": settings.device}
    if settings.lr is not None:
        over["optim"]["lr"] = settings.lr
    if settings.patience is not None:
        over["options"]["sparsity_warmup"] = settings.patience
    if settings.augment is not None:
        over["augment"] = _augment(settings.augment, model)
    named = "gan.iterations" in dict(leaves(settings.options))
    shorter = 1.0 if named else epochs / epochs_for(rule, images, batch)
    return experiment_from(scaled(merge(model.to_dict(), over), shorter))


def _augment(kind: str, model: Experiment) -> dict[str, Any]:
    """How images of a task vary: not at all, as the recipe moves them, or mirrored too."""
    if kind == "none":
        return {"random_translate": 0, "random_affine": 0.0, "random_flip": False}
    moved = augment_for(recipe_file(model.backbone)["augment"], model.data.image_size)
    return {**moved, "random_flip": kind == "flip"}
