"""What a run did, seen from outside: its steps, and the state it left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from lockgate.methods.base import Method
from lockgate.runs import checkpoint
from lockgate.types import State, Task


@contextmanager
def useful_steps() -> Iterator[list[bool]]:
    """Fills a list: for every step of any optimiser, whether there was a gradient to follow."""
    steps: list[bool] = []

    def note(optimiser: torch.optim.Optimizer, *_: object) -> None:
        gradients = [p.grad for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
        steps.append(any(bool(gradient.any()) for gradient in gradients))

    hook = register_optimizer_step_pre_hook(note)
    try:
        yield steps
    finally:
        hook.remove()


@contextmanager
def counted_steps(cls: type[Method], stop_after: int = 0) -> Iterator[list[int]]:
    """A list that gets an entry for each step of a learner of ``cls``; after so many, training is interrupted.

    In closed form, the end of a task is the only step.
    """
    done: list[int] = []
    name = "end_task" if cls.closed_form else "after_step"
    step = getattr(cls, name)

    def counting(learner: Method, *task: Task) -> None:
        step(learner, *task)
        done.append(learner.step)
        if len(done) == stop_after:
            raise KeyboardInterrupt

    with patch.object(cls, name, counting):
        yield done


def last_state(out: Path) -> State:
    """The learner's state at the end of a run."""
    end = checkpoint.newest_end(out / "checkpoints")
    assert end is not None, f"{out} has no checkpoint of the end of a task"
    state = end.tensors("learner")
    assert state is not None
    return state
