"""The promise made exact: digests of what a task left behind, taken when it ended, compared with now."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lockgate.evaluation.accuracy import BATCH
from lockgate.methods.base import Learner
from lockgate.types import Task

Promise = dict[str, Any]
"""{"task": id, "tensors": {name: SHA-256}, "logits": SHA-256 of the logits on the task's test set}"""


@dataclass(frozen=True)
class Verdict:
    """What an audit found. ``broken`` names every offender, the first one first."""

    tensors: int
    logits: int
    broken: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every promise holds."""
        return not self.broken

    def text(self) -> str:
        """One sentence for a person."""
        if self.ok:
            return f"audit passed: {self.tensors} locked tensors and the logits of {self.logits} tasks are bit-equal"
        more = f" (and {len(self.broken) - 1} more)" if len(self.broken) > 1 else ""
        return f"audit FAILED: {self.broken[0]} has changed{more}"

    def to_dict(self) -> dict[str, Any]:
        """For summaries."""
        return {"ok": self.ok, "tensors": self.tensors, "logits": self.logits, "broken": list(self.broken)}


def digest(tensor: Tensor) -> str:
    """SHA-256 of a tensor's type, shape and bits."""
    plain = tensor.detach().cpu().contiguous()
    header = f"{plain.dtype} {tuple(plain.shape)} ".encode()
    return hashlib.sha256(header + plain.flatten().view(torch.uint8).numpy().tobytes()).hexdigest()


@torch.no_grad()
def logits(learner: Learner, task: Task) -> Tensor:
    """Logits (N, classes) of a task's test set, the task given. The batch size is fixed: kernels depend on it."""
    learner.eval()
    device = learner.input.mean.device
    return torch.cat([learner.predict(x.to(device), task.id).cpu() for x in torch.split(task.test.x, BATCH)])


def promise(learner: Learner, task: Task) -> Promise | None:
    """What ``learner`` promises about ``task``, which has just ended; None if the method promises nothing."""
    kept = learner.kept(task.id)
    if not kept:
        return None
    tensors = {name: digest(tensor) for name, tensor in kept.items()}
    return {"task": task.id, "tensors": tensors, "logits": digest(logits(learner, task))}


def audit(learner: Learner, tasks: Sequence[Task], promises: Sequence[Promise]) -> Verdict:
    """Check every promise against the learner as it is now."""
    broken: list[str] = []
    count = 0
    for made in promises:
        task = tasks[made["task"]]
        now = {name: digest(tensor) for name, tensor in learner.kept(task.id).items()}
        for name in sorted(made["tensors"].keys() | now.keys()):
            count += 1
            if made["tensors"].get(name) != now.get(name):
                broken.append(f"task {task.id}: tensor {name}")
        if made["logits"] != digest(logits(learner, task)):
            broken.append(f"task {task.id}: logits on its {len(task.test)} test images")
    return Verdict(count, len(promises), tuple(broken))
