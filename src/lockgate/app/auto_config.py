"""What a model that grows is made of when its user says little: choices from the images, and why.

| | choice |
|---|---|
| image size | the median of the shorter sides, at most 32, in steps of 4 |
| channels | one if all images of the first task are grey, else three |
| the rest | the network's recipe, as `lockgate run` has it (`presets/short`): batch and epochs by a task's images |

Layers grow, because nobody knows how many tasks will come.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from lockgate.app.experiment_file import scaled
from lockgate.config import Experiment, gather, leaves, merge
from lockgate.data.size import TaskSize
from lockgate.data.task_images import ImageStats
from lockgate.errors import ConfigError
from lockgate.methods import METHODS
from lockgate.presets.chosen import chosen_for
from lockgate.presets.recipe import augment_for, batch_for, epochs_for, recipe_file, settings_for
from lockgate.runs.build import experiment_from
from lockgate.scenario.incremental import class_weights

MemoryKind = Literal["none", "episodic", "generative"]
AugmentKind = Literal["none", "move", "flip"]
METHOD_OF_MEMORY: dict[str, str] = {"none": "ccgn", "episodic": "ccgn-episodic", "generative": "ccgn-generative"}

LARGEST, SMALLEST, STEP = 32, 8, 4
"""Sides of images, in pixels."""
GROW = 0.3
"""Share of the first width that is free when a task begins."""
KEPT = 500
"""Images that an episodic memory keeps."""


@dataclass(frozen=True)
class UserSettings:
    """What the user asked for; None: choose. The first task fixes all but what is of a task: see ``OF_A_TASK``."""

    memory: MemoryKind | None = None
    size: int | None = None
    backbone: str | None = None
    width: int | None = None
    keep: int | None = None
    seed: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    epochs: int | None = None
    batch_size: int | None = None
    device: str | None = None
    lr: float | None = None
    patience: int | None = None
    augment: AugmentKind | None = None


OF_A_TASK = ("epochs", "batch_size", "device", "lr", "patience", "augment")
"""Settings that each task may have of its own."""
WHOLE = ("size", "width", "keep", "seed", "epochs", "batch_size", "patience")
TEXT = ("memory", "backbone", "device", "augment")


def checked(settings: UserSettings) -> UserSettings:
    """The settings, with NumPy's whole numbers as Python's; raises for every one of another type."""
    problems: list[str] = []
    whole: dict[str, Any] = {}
    for name in (*WHOLE, *TEXT, "lr"):
        value = getattr(settings, name)
        if value is None or (name in TEXT and isinstance(value, str)):
            continue
        if name == "lr" and isinstance(value, numbers.Real) and not isinstance(value, bool):
            whole[name] = float(value)
            continue
        if name in WHOLE and isinstance(value, numbers.Integral) and not isinstance(value, bool):
            whole[name] = int(value)
            continue
        wanted = "text" if name in TEXT else "a number" if name == "lr" else "a whole number"
        problems.append(f"'{name}' must be {wanted}. Got {value!r} instead.")
    if isinstance(settings.augment, str) and settings.augment not in get_args(AugmentKind):
        known = ", ".join(get_args(AugmentKind))
        problems.append(f"'augment' must be one of {known}. Got {settings.augment!r} instead.")
    if not isinstance(settings.options, Mapping):
        problems.append(f"'options' must be a group of keys. Got {settings.options!r} instead.")
    if problems:
        raise ConfigError(problems)
    return replace(settings, **whole)


def first(settings: UserSettings, stats: ImageStats, threads: int) -> Experiment:
    """The experiment of a new model."""
    if settings.memory is not None and settings.memory not in METHOD_OF_MEMORY:
        raise ConfigError([f"'memory' must be one of {', '.join(METHOD_OF_MEMORY)}. Got {settings.memory!r} instead."])
    memory = "episodic" if settings.memory is None else settings.memory
    _refuse_keep(settings, memory)
    method = METHOD_OF_MEMORY[memory]
    # None is the only word for "choose": a 0 is a setting too, which the bounds of the config refuse.
    backbone = "simple_cnn" if settings.backbone is None else settings.backbone
    size = min(LARGEST, max(SMALLEST, stats.side // STEP * STEP)) if settings.size is None else settings.size
    # How many images there are is each task's own: ``for_task``.
    values = merge(settings_for(method, backbone, TaskSize(0, size)), chosen_for(method, backbone, settings.options))
    options: dict[str, Any] = {"grow": GROW}
    if memory != "none":
        options = {**options, "inference": "joint"}  # so that probabilities and answers agree
    if memory == "episodic":
        options = {**options, "buffer": KEPT if settings.keep is None else settings.keep}
    over: dict[str, Any] = {
        "method": method,
        "dataset": "folder",
        "tasks": 1,
        "seed": 0 if settings.seed is None else settings.seed,
        "data": {"image_size": size, "greyscale": stats.grey},
        "model": {} if settings.width is None else {"width": settings.width},
        "runtime": {"threads": threads},
        "options": {**options, **settings.options},
    }
    return experiment_from(merge(values, over))


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
    memory = next(name for name, method in METHOD_OF_MEMORY.items() if method == model.method)
    fixed: dict[str, tuple[Any, Any]] = {
        "memory": (settings.memory, memory),
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


def describe(
    schedule: Experiment,
    name: str,
    classes: Sequence[str],
    counts: Sequence[int],
    probes: int,
    first: bool,
) -> list[str]:
    """The choices in words."""
    lines = [f"task {name!r}: {sum(counts)} images of {len(classes)} classes ({_some(classes)})"]
    if first:
        size, grey = schedule.data.image_size, schedule.data.greyscale
        lines.append(f"  images: resized to {size}x{size}, {'grey' if grey else 'colour'}; fixed for this model")
        width = f" {schedule.model.width} wide" if schedule.model.width else ""
        lines.append(f"  network: {schedule.backbone}{width}, method {schedule.method}; fixed for this model")
        if schedule.method == METHOD_OF_MEMORY["episodic"]:
            kept = schedule.options["buffer"]
            lines.append(f"  memory: up to {kept} of your images are kept inside the model, to tell tasks apart")
        if schedule.method == METHOD_OF_MEMORY["none"]:
            lines.append("  memory: none, so you must say the task when you ask")
    gan = schedule.options.get("gan", {}).get("iterations")
    generator = f"; {gan} iterations of its generator" if gan else ""
    lines.append(f"  schedule: {schedule.epochs} epochs, {schedule.optim.batch_size} images a step{generator}")
    if class_weights(counts):
        lines.append(f"  classes differ in size ({min(counts)} to {max(counts)}): each counts the same in the loss")
    if probes:
        lines.append(f"  probes: up to {probes} test images of this task are kept, to prove later that answers stayed")
    return lines


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
