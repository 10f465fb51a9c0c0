"""The end of a task (paper, Section 3.2): relevance -> freeze -> re-initialise -> seal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from lockgate.layers.gated import Gated, TaskGated
from lockgate.layers.lock import Lockable
from lockgate.layers.norm import TaskNorm
from lockgate.methods.capacity import LayerCapacity
from lockgate.methods.network import MultiHeadNetwork
from lockgate.training import distributed
from lockgate.training.phase import eval_batch, evaluating


@torch.no_grad()
def relevance(network: MultiHeadNetwork, x: Tensor, task: int) -> list[Tensor]:
    """Eq. 6: for each layer, for what share of the images ``x`` each gate of ``task``'s stream fires, (c_out,).

    Fires are counted and divided once: a mean of batch means would weigh a short last batch too much.
    """
    fires: list[Tensor] = []
    with evaluating(network):
        for part in torch.split(x, eval_batch(x.shape)):
            gates = network.backbone(network.input(part.to(network.input.mean.device)), task).gates
            counts = [gate.sum(0, dtype=torch.float32) for gate in gates]
            fires = [a + b for a, b in zip(fires, counts, strict=True)] if fires else counts
    # Divided on the CPU: not every device knows float64.
    return [distributed.from_rank_zero(count).cpu().double() / len(x) for count in fires]


def consolidate(
    layers: Mapping[str, TaskGated], scores: Sequence[Tensor], task: int, seal: bool = True
) -> list[LayerCapacity]:
    """Lock what ``task`` needs, free the rest, and keep the task inside what it needs; how much of each layer is taken.

    ``scores`` (c_out,) of each layer are the ``relevance``: a filter that fires for any held-out image is relevant.
    Without the ``seal``, the paper as printed, a gate that was silent here may later open a filter of another task.
    """
    report = []
    for (name, layer), score in zip(layers.items(), scores, strict=True):
        relevant = (score > 0).to(layer.locked.device)
        if seal:
            layer.seal(relevant, task)
        if isinstance(layer, Lockable):  # in a network that was given, all is locked, and every task brings its own
            layer.lock(relevant, task)
            layer.reinitialise_free()
            report.append(LayerCapacity(name, layer.width, int(layer.locked.sum()), int(relevant.sum())))
    return report


def forget_shut(network: MultiHeadNetwork, task: int) -> None:
    """Zero weights of ``task`` that meet nothing but zeros for ever: no answer changes, and zeros need no room on disk.

    They are those of channels that its stream can never open, in its gates, its norms and its head.
    """
    for group in network.backbone.channels:
        for norm in group.norms:
            if isinstance(norm, TaskNorm):
                norm.forget_shut(task)
    for layer in network.backbone.layers.values():
        if isinstance(layer, Gated):
            layer.gate(task).forget_shut(layer.reads.get(task))
    if network.backbone.channels:
        head = cast(nn.Linear, network.heads[task])
        shut = torch.ones(head.in_features, dtype=torch.bool, device=head.weight.device)
        with torch.no_grad():
            head.weight[:, shut.index_fill(0, network.backbone.open_features(task), False)] = 0
