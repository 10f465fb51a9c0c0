"""The gated layers of a network and what in them differs between training and evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from lockgate.backbones.base import Backbone
from lockgate.layers.gated import TaskGated
from lockgate.training.phase import evaluating


def gated_layers(backbone: Backbone) -> dict[str, TaskGated]:
    """The gated layers by name, in the order of a stream's gates; none in a network of another make without gates."""
    return {name: layer for name, layer in backbone.layers.items() if isinstance(layer, TaskGated)}


def stream_norms(backbone: Backbone, task: int) -> list[nn.Module]:
    """Every norm of a task's stream, those of its gates included."""
    gates: list[nn.Module] = [layer.gate(task).norm for layer in gated_layers(backbone).values()]
    return [*gates, *backbone.norms(task)]


@contextmanager
def deciding(backbone: Backbone, task: int, annealing: bool, noisy: bool) -> Iterator[None]:
    """Gates with or without noise; statistics of norms move, but while ``annealing``."""
    for layer in gated_layers(backbone).values():
        layer.gate(task).noisy = noisy
    with evaluating(*(stream_norms(backbone, task) if annealing else [])):
        yield


@contextmanager
def as_in_evaluation(backbone: Backbone, task: int) -> Iterator[None]:
    """Gates and norms of a task's stream without noise, and with their statistics held; gradients flow."""
    gates = [layer.gate(task) for layer in gated_layers(backbone).values()]
    with evaluating(*gates, *stream_norms(backbone, task)):
        yield
