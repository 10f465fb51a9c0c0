"""Features of parallel streams on test images, each stream's on each task's computed once.

Answers without a task need every stream on every image. Past streams do not change, so after a task only the new stream
on old images and old streams on new images are computed: the work grows with the tasks, not with their square.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lockgate.methods.base import Method
from lockgate.methods.protocols import ParallelStreams
from lockgate.training.phase import eval_batch
from lockgate.types import Task

LIMIT = 2**30
"""Bytes to keep; what is beyond is computed anew."""


class StreamFeatures:
    """What has been computed of a learner that does not change; ``forget`` where it has."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], Tensor] = {}  # (stream, images of): (N, F), on the CPU

    def of(self, learner: Method, streams: Sequence[int], images: Task) -> list[Tensor]:
        """Features (N, F) of ``streams`` on the promised images of a task; [] where answers do not come from streams.

        Batches are fixed: kernels, and so bits, depend on them.
        """
        found = {t: self._kept[t, images.id] for t in streams if (t, images.id) in self._kept}
        missing = [t for t in streams if t not in found]
        size = sum(map(_size, self._kept.values()))
        for t, features in zip(missing, self._run(learner, missing, images), strict=False):  # none without streams
            found[t] = features
            if (size := size + _size(features)) <= LIMIT:
                self._kept[t, images.id] = features
        return [found[t] for t in streams if t in found]

    def forget(self) -> None:
        """The streams have changed."""
        self._kept.clear()

    @torch.no_grad()
    def _run(self, learner: Method, streams: Sequence[int], images: Task) -> list[Tensor]:
        if not streams or not len(images.audit_images) or not isinstance(learner, ParallelStreams):
            return []
        learner.eval()
        device = learner.input.mean.device
        parts = images.audit_images.parts(eval_batch(learner.image_shape))
        batches = [learner.streams(x.to(device), streams) for x in parts]
        return [torch.cat([part.cpu() for part in parts]) for parts in zip(*batches, strict=True)]


def _size(features: Tensor) -> int:
    return features.numel() * features.element_size()
