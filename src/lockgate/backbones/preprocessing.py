"""What images must be like for given weights. It belongs to the weights, and goes wherever they go. No torch here."""

from __future__ import annotations

from lockgate.data.preprocessing import Preprocessing

__all__ = ["IMAGENET", "Preprocessing"]

IMAGENET = Preprocessing(224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), resize="crop")
