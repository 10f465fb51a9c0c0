"""What images must be like for given weights. It belongs to the weights, and goes wherever they go. No torch here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preprocessing:
    """Side and standardisation of images as the weights were trained on."""

    size: int
    """Side in pixels; others work, at other accuracy."""
    mean: tuple[float, ...]
    """By channel, of values in [0, 1]."""
    std: tuple[float, ...]


IMAGENET = Preprocessing(224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
