"""What is to be answered for an image that is rehearsed: its task (the paper), or its class among all seen."""

from __future__ import annotations

import torch
from torch import Tensor

from lockgate.methods.network import MultiHeadNetwork
from lockgate.training.phase import eval_batch
from lockgate.types import Examples


def class_targets(network: MultiHeadNetwork, examples: Examples, known: int) -> Tensor:
    """The class of each image among all seen, (N,); -1 where it is not known yet."""
    y = named(network, examples, known)
    return torch.where(y < 0, y, y + first_classes(network).to(y.device)[examples.task])


def named(network: MultiHeadNetwork, examples: Examples, known: int) -> Tensor:
    """The label of each image within its task, (N,); -1 where it is not known yet.

    Generated images have none. Past tasks tell those of their own: nothing could do it better, and with the seal the
    answer never changes. The newest will, step by step, while it learns them. ``known``: how many tasks are learnt.
    """
    y = examples.y.clone()
    for task in range(known):
        rows = torch.nonzero((y < 0) & (examples.task == task)).flatten()
        for part in torch.split(rows, eval_batch(network.image_shape)) if len(rows) else ():  # not of no image at all
            images = examples.batch(part).x.to(network.input.mean.device)
            y[part] = network.logits(images, task).argmax(1).to(y.device)
    return y


def first_classes(network: MultiHeadNetwork) -> Tensor:
    """The first class of each task among all seen, (tasks,)."""
    classes = torch.tensor([entry["classes"] for entry in network.structure()])
    return classes.cumsum(0) - classes
