"""What the user of a model that grows may ask for."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from lockgate.errors import ConfigError

MemoryKind = Literal["none", "episodic", "generative"]
AugmentKind = Literal["none", "move", "flip"]
NO_NETWORK, SCRATCH = "none", "simple_cnn"
"""Instead of a network's name: none that was trained elsewhere; and the one that begins from scratch."""


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


def settings_of(given: object, options: Mapping[str, Any]) -> UserSettings:
    """The settings that ``given`` has as attributes of these names: what the command line, or a constructor, took."""
    named = (setting.name for setting in fields(UserSettings) if setting.name != "options")
    return UserSettings(options=options, **{name: getattr(given, name) for name in named})


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
    if isinstance(settings.memory, str) and settings.memory not in get_args(MemoryKind):
        known = ", ".join(get_args(MemoryKind))
        problems.append(f"'memory' must be one of {known}. Got {settings.memory!r} instead.")
    if not isinstance(settings.options, Mapping):
        problems.append(f"'options' must be a group of keys. Got {settings.options!r} instead.")
    if problems:
        raise ConfigError(problems)
    if settings.backbone == NO_NETWORK:
        whole["backbone"] = SCRATCH
    return replace(settings, **whole)
