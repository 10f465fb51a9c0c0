"""What each rank does in the two-rank test: a whole run, then compare parameters and buffers across ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist

from lockgate import ranks
from lockgate.engine.run import Run


def work(fabric, experiment, scenario, folder):
    """Returns the summary and the names of tensors that differ between ranks."""
    torch.set_num_threads(1)
    run = Run(fabric, experiment, scenario, folder, None)
    run.go()
    summary = run.summary()
    differing = []
    for name, tensor in run.learner.state_dict().items():
        mine = tensor.detach().contiguous()
        everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, mine)
        if not all(torch.equal(mine, other) for other in everyone):
            differing.append(name)
    ranks.leave()
    return summary, differing
