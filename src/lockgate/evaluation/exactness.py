"""The promise made exact: digests of what a task left behind, taken when it ended, compared with now."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lockgate.evaluation.features import StreamFeatures
from lockgate.methods.base import Method
from lockgate.methods.protocols import Auditable
from lockgate.training.phase import eval_batch
from lockgate.types import Task

Promise = dict[str, Any]
"""{"task": id, "tensors": {name: SHA-256}, "logits": SHA-256 of the logits on the task's promised images,
"streams": {"stream on images": SHA-256 of features}} where some stream or some images are this task's.
Promised images are the test set, or in a model that grows its probes; where none are kept, "logits" is None."""


@dataclass(frozen=True)
class Verdict:
    """What an audit found. ``broken`` names every offender, the first one first."""

    tensors: int
    logits: int
    streams: int
    broken: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every promise holds."""
        return not self.broken

    def text(self) -> str:
        """One sentence for a person."""
        if self.ok:
            streams = f", {self.streams} sets of stream features" if self.streams else ""
            if not self.logits:
                return (
                    f"audit passed: {self.tensors} locked tensors are bit-equal; answers were not compared, because no "
                    "probe images are kept"
                )
            return (
                f"audit passed: {self.tensors} locked tensors{streams} and the logits of {self.logits} tasks "
                "are bit-equal"
            )
        more = f" (and {len(self.broken) - 1} more)" if len(self.broken) > 1 else ""
        return f"audit FAILED: {self.broken[0]} has changed{more}"

    def to_dict(self) -> dict[str, Any]:
        """For summaries."""
        return {
            "ok": self.ok,
            "tensors": self.tensors,
            "logits": self.logits,
            "streams": self.streams,
            "broken": list(self.broken),
        }


def digest(tensor: Tensor) -> str:
    """SHA-256 of a tensor's type, shape and bits."""
    plain = tensor.detach().cpu().contiguous()
    header = f"{plain.dtype} {tuple(plain.shape)} ".encode()
    return hashlib.sha256(header + plain.flatten().view(torch.uint8).numpy().tobytes()).hexdigest()


@torch.no_grad()
def logits(learner: Method, task: Task) -> Tensor:
    """Logits (N, classes) of a task's promised images, the task given. Batches are fixed: kernels depend on them."""
    learner.eval()
    device = learner.input.mean.device
    images = task.audit_images.parts(eval_batch(learner.image_shape))
    return torch.cat([learner.predict(x.to(device), task.id).cpu() for x in images])


def stream_digests(
    learner: Method, streams: Sequence[int], images: Task, features: StreamFeatures | None = None
) -> dict[str, str]:
    """Digests of the features of some tasks' ``streams`` on the promised images of ``images``: "stream on images"."""
    found = (features or StreamFeatures()).of(learner, streams, images)
    return {f"{t} on {images.id}": digest(part) for t, part in zip(streams, found, strict=bool(found))}


def promise(learner: Method, seen: Sequence[Task], features: StreamFeatures | None = None) -> Promise | None:
    """What ``learner`` promises about the last task of ``seen``, just ended; None if the method promises nothing.

    ``features`` keeps what had to be computed of streams.
    """
    task = seen[-1]
    if not isinstance(learner, Auditable):
        return None
    tensors = {name: digest(tensor) for name, tensor in learner.promised(task.id).items()}
    new = stream_digests(learner, range(task.id + 1), task, features)
    for images in seen[:-1]:
        new |= stream_digests(learner, [task.id], images, features)
    answers = digest(logits(learner, task)) if len(task.audit_images) else None
    return {"task": task.id, "tensors": tensors, "logits": answers, "streams": new}


def audit(
    learner: Method, tasks: Sequence[Task], promises: Sequence[Promise], tested: Collection[int] | None = None
) -> Verdict:
    """Check every promise against the learner as it is now: all tensors, and answers on the ``tested`` tasks' images.

    None: on all of them.
    """
    broken: list[str] = []
    count = pairs = compared = 0
    tested = [made["task"] for made in promises] if tested is None else tested
    streams: dict[str, str] = {}
    if any(made.get("streams") for made in promises):
        for t in tested:
            streams |= stream_digests(learner, range(promises[-1]["task"] + 1), tasks[t])
    for made in promises:
        task = tasks[made["task"]]
        assert isinstance(learner, Auditable)  # it has promised
        now = {name: digest(tensor) for name, tensor in learner.promised(task.id).items()}
        for name in sorted(made["tensors"].keys() | now.keys()):
            count += 1
            if made["tensors"].get(name) != now.get(name):
                broken.append(f"task {task.id}: tensor {name}")
        if made["logits"] is not None and task.id in tested:
            compared += 1
            if made["logits"] != digest(logits(learner, task)):
                broken.append(f"task {task.id}: logits on its {len(task.audit_images)} test images")
        for pair, value in made.get("streams", {}).items():
            stream, images = pair.split(" on ")
            if int(images) not in tested:
                continue
            pairs += 1
            if streams.get(pair) != value:
                broken.append(f"task {stream}: stream into the task classifier, on test images of task {images}")
    return Verdict(count, compared, pairs, tuple(broken))
