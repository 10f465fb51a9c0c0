"""Statistics of a stream, taken of images as they are.

While a task is learnt its images are moved, turned and stretched, which makes them softer, and BatchNorm keeps running
statistics of those. The images that the stream is asked about later are not softened. A gate sees a layer's input as
its mean over all pixels, so to a gate a bold image is then one that it has never met: it opens the filters of another
class, which have never met it either. So when a task ends, before relevance is counted, the statistics of its stream
are taken anew, of its training images as they are. Weights do not move. Where images were not varied nothing is done.
"""

from __future__ import annotations

from typing import Any

import torch

from lockgate.methods.ccgn.gating import stream_norms
from lockgate.methods.network import MultiHeadNetwork
from lockgate.training.phase import eval_batch, evaluating
from lockgate.types import Examples

IMAGES = 4096
"""So many training images at most are looked at."""


@torch.no_grad()
def recalibrate(network: MultiHeadNetwork, examples: Examples, task: int) -> None:
    """Running statistics of the norms in ``task``'s stream, its gates' too: their mean over batches of one size."""
    norms: list[Any] = stream_norms(network.backbone, task)
    size = min(len(examples), eval_batch(network.image_shape))
    order = torch.randperm(len(examples))[: max(size, min(len(examples), IMAGES) // size * size)]
    momenta = [norm.momentum for norm in norms]
    with evaluating(network, *norms):
        for number, rows in enumerate(torch.split(order, size), start=1):
            for norm in norms:
                norm.train().momentum = 1 / number  # a plain mean of all batches
            network.backbone(network.input(examples.batch(rows).x.to(network.input.mean.device)), task)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
