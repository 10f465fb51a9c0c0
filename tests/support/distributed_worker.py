"""What each rank does in the two-rank tests."""

from __future__ import annotations

import shutil

import torch
import torch.distributed as dist

from lockgate.runs.process import Run
from lockgate.training import distributed


def work_all(fabric, cases):
    """Whole runs one after another, ``(experiment, scenario, folder, kept)`` each; then parameters are compared.

    Returns of each its summary and the names of tensors that differ between ranks, and leaves a copy in ``kept``. One
    start of two ranks for all: to import torch twice takes longer than a tiny run."""
    torch.set_num_threads(1)
    results = []
    for experiment, scenario, folder, kept in cases:
        run = Copied(fabric, experiment, scenario, folder, None)
        run.kept = kept
        run.go()
        results.append((run.summary(), differing(run.learner)))
    distributed.leave()
    return results


def differing(learner):
    """Names of parameters and buffers that are not the same on all ranks."""
    names = []
    for name, tensor in learner.state_dict().items():
        mine = tensor.detach().contiguous()
        everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, mine)
        if not all(torch.equal(mine, other) for other in everyone):
            names.append(name)
    return names


class Copied(Run):
    """Copies its folder when it has written a checkpoint inside the second epoch of its second task.

    ``_save`` is private, and overridden all the same: the instant after a checkpoint of the first rank is what a kill
    would find, and two ranks cannot be killed at one instant from outside.
    """

    kept = None

    def _save(self, kind, meta, *rest):
        super()._save(kind, meta, *rest)
        fit = meta.get("fit", {})
        if self.first and meta["stage"] == 1 and fit.get("epoch") == 1 and fit.get("step"):
            shutil.copytree(self.folder.path, self.kept, dirs_exist_ok=True)
