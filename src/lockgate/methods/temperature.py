"""How sure scores are: the temperature by which they become probabilities, from images that nothing was fitted to.

    p(y|x) = softmax(s / T),   T = argmin of the cross-entropy on held-out images, labels smoothed

A few held-out images may all be right, and no T would be too small then. As in Platt's scaling, each label is trusted
as far as its number allows: 1 in n + 2 of them may be wrong.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

STEPS: tuple[float, ...] = tuple(2.0 ** (k / 4) for k in range(-28, 9))
"""Candidates, by the spread of the scores of an image: from a hundredth to four times."""


def temperature_of(scores: Tensor, y: Tensor) -> float:
    """T for scores (N, classes) of images of the classes ``y`` (N,); 1 where there is nothing to learn it from."""
    count, classes = scores.shape
    if not count or classes < 2:
        return 1.0
    spread = float(scores.std(1).mean()) or 1.0
    smoothed = classes / (classes - 1) / (count + 2)  # torch shares this out over all classes, the right one too
    losses = [
        (float(F.cross_entropy(scores / (step * spread), y, label_smoothing=min(1.0, smoothed))), step)
        for step in STEPS
    ]
    return min(losses)[1] * spread
