"""The training of one task as a phase of the loop, validated on the task's held-out data."""

from __future__ import annotations

import torch

from lockgate.config import Experiment
from lockgate.evaluation.accuracy import accuracy
from lockgate.methods.base import Method
from lockgate.training.phase import Phase, Validation, eval_batch, steps_per_epoch
from lockgate.types import Batch, Examples, Task


def task_phase(learner: Method, task: Task, data: Examples, experiment: Experiment) -> Phase:
    """Training of ``learner`` on a task, judged on the task's held-out data."""

    def validate() -> Validation:
        parts = task.parts or (task,)
        right = sum(accuracy(learner, part.val, part.id) for part in parts) / len(parts)
        return Validation(right, held_out_objective(learner, task.val))

    steps = steps_per_epoch(len(data), experiment.optim.batch_size)
    return learner.schedule(
        Phase(
            (task.id,), learner, data, experiment.epochs, steps, experiment.optim, validate, learner.augment.of_task()
        )
    )


@torch.no_grad()
def held_out_objective(learner: Method, examples: Examples) -> float:
    """The method's whole objective on held-out data, without noise: what the paper selects models by.

    A task loss is taken on the images it is rehearsed on: nothing is held out of a memory.
    """
    learner.eval()
    device = learner.input.mean.device
    total, size = 0.0, eval_batch(learner.image_shape)
    for start in range(0, len(examples), size):
        batch = examples.batch(slice(start, start + size))
        losses = learner.loss(Batch(*(part.to(device) for part in batch)))
        total += float(torch.stack(list(losses.values())).sum()) * len(batch.y)
    return total / len(examples)
