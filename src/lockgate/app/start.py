"""What a new model starts from: a network that has seen a million photos, or nothing. Chosen from the images, and why.

| photos | start |
|---|---|
| of a shorter side of 64 pixels or more (the median), and the extra `pretrained` is here | EfficientNet-Lite0, frozen |
| smaller, or the extra is not here, or what the user asks for is of the other start | from scratch |

From the pretrained start nothing is trained unless something that trains is asked for: answers are solved for from
statistics (``methods/slda_bilinear.py``), which forget nothing and keep no image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from lockgate.app.user_settings import SCRATCH, MemoryKind, UserSettings
from lockgate.data.task_images import ImageStats
from lockgate.errors import ConfigError
from lockgate.methods import METHODS

PHOTO = 64
"""Pixels of the shorter side from which on an image is taken for a photo."""
PRETRAINED = "efficientnet_lite0"
CLOSED_FORM = "slda-bilinear"
"""What answers from statistics: chosen on held-out training images (docs/photos.md)."""
METHOD_OF_MEMORY: dict[str, str] = {"none": "ccgn", "episodic": "ccgn-episodic", "generative": "ccgn-generative"}
"""From scratch."""
TRAINS = ("keep", "epochs", "batch_size", "lr", "patience")
"""Settings that only something that is trained has."""
BRING = "pip install 'lockgate[pretrained]'"


class Start(NamedTuple):
    """What was chosen."""

    backbone: str
    method: str
    memory: MemoryKind
    reason: str
    """Why, and how to have the other; empty: the user chose."""

    @property
    def pretrained(self) -> bool:
        """Whether it starts from weights of others."""
        return self.backbone == PRETRAINED


def choose(settings: UserSettings, stats: ImageStats, installed: bool) -> Start:
    """The start of a new model, of images that a first look says ``stats`` of; ``installed``: the extra is here."""
    against = "" if settings.backbone == PRETRAINED else _against(settings, stats, installed)
    if settings.backbone not in (None, PRETRAINED) or against:
        memory: MemoryKind = settings.memory or "episodic"
        backbone = SCRATCH if settings.backbone is None else settings.backbone  # an empty name is refused elsewhere
        return Start(backbone, METHOD_OF_MEMORY[memory], memory, against)
    if settings.memory == "generative":
        raise ConfigError(
            [
                f"'memory' generative is for small images: generators do not make photos for {PRETRAINED}. Choose "
                "memory 'none' or 'episodic', or '--network none' to begin from scratch."
            ]
        )
    memory = settings.memory or ("episodic" if _trains(settings) else "none")
    method = CLOSED_FORM if memory == "none" else METHOD_OF_MEMORY[memory]
    why = f"photos have {stats.side} pixels a side (the median); from scratch: --network none"
    return Start(PRETRAINED, method, memory, why if settings.backbone is None else "")


def memory_of(method: str) -> str:
    """What a model of ``method`` keeps, in the user's words."""
    return next((memory for memory, other in METHOD_OF_MEMORY.items() if other == method), "none")


def refuse_training(settings: UserSettings, method: str) -> None:
    """Raise for settings of training where nothing is trained: they would be passed over."""
    if not METHODS[method].closed_form:
        return
    given = [name for name in (*TRAINS, "augment") if getattr(settings, name) not in (None, "none", "flip")]
    if given:
        raise ConfigError(
            [
                f"'{name}' is for what is trained, and {method} solves for its answers in one pass. Leave it out; or "
                "make a model with memory 'episodic', which trains."
                for name in given
            ]
        )


def _against(settings: UserSettings, stats: ImageStats, installed: bool) -> str:
    """What speaks for beginning from scratch where the user does not say; empty: nothing."""
    if settings.backbone is not None:
        return ""
    other = f"pretrained: --network {PRETRAINED}"
    if stats.side < PHOTO:
        return f"images have {stats.side} pixels a side (the median), fewer than {PHOTO}; {other}"
    if settings.size is not None and settings.size < PHOTO:
        return f"'size' {settings.size} is below {PHOTO}; {other}"
    asked = ["width"] if settings.width is not None else []
    asked += [f"options.{name}" for name in _gated_options(settings.options)]
    if settings.memory == "generative":
        asked.append("memory generative")
    if asked:
        return f"{', '.join(map(repr, asked))} was asked for; pretrained: without"
    return "" if installed else f"the network that is better for photos is not here; pretrained: {BRING}"


def _gated_options(options: Mapping[str, Any]) -> list[str]:
    """Options that closed forms do not have; that of an episodic memory is no reason to begin from scratch."""
    known = {field.name for field in fields(METHODS[CLOSED_FORM].Options)} | {"buffer"}
    return [name for name in options if name.partition(".")[0] not in known]


def _trains(settings: UserSettings) -> bool:
    return any(getattr(settings, name) is not None for name in TRAINS) or "buffer" in settings.options
