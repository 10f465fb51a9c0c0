"""What data-parallel ranks must agree on. With one rank every function here is the identity."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def several() -> bool:
    """Whether this process is one of several ranks."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def world_size() -> int:
    """How many ranks there are."""
    return dist.get_world_size() if several() else 1


def rank() -> int:
    """The index of this rank."""
    return dist.get_rank() if several() else 0


def total(value: Tensor) -> Tensor:
    """The sum of ``value`` over all ranks."""
    if several():
        dist.all_reduce(value)
    return value


def gathered(value: Tensor) -> Tensor:
    """``value`` of every rank, one after another along the first dimension; they are alike in shape."""
    if not several():
        return value
    parts = [torch.empty_like(value, memory_format=torch.contiguous_format) for _ in range(world_size())]
    dist.all_gather(parts, value.contiguous())
    return torch.cat(parts)


def barrier() -> None:
    """Wait until every rank has come here."""
    if several():
        dist.barrier()


def leave() -> None:
    """End this rank's part: gloo's threads abort the process at exit unless they are taken down first."""
    barrier()
    if several():
        dist.destroy_process_group()


def average_gradients(module: nn.Module) -> None:
    """The mean over ranks of every gradient there is."""
    if several():
        for parameter in module.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()


@torch.no_grad()
def share_state(module: nn.Module) -> None:
    """Give every rank the parameters and buffers of rank 0: BatchNorm statistics differ until this is done."""
    share(module.state_dict(keep_vars=True).values())


@torch.no_grad()
def share(tensors: Iterable[Tensor]) -> None:
    """Give every rank rank 0's values of ``tensors``, in place."""
    if several():
        for tensor in tensors:
            dist.broadcast(tensor.data, 0)


def from_rank_zero(value: Tensor) -> Tensor:
    """``value`` as rank 0 has it: decisions that depend on it are then the same on every rank."""
    if several():
        dist.broadcast(value, 0)
    return value
