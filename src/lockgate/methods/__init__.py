"""Room 6: one file per method. Registering a method here enrols it in every contract test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockgate.registry import Entry, Registry

if TYPE_CHECKING:
    from lockgate.methods.base import Learner

METHODS: Registry[type[Learner]] = Registry(
    "method",
    {
        "ccgn": Entry(
            "lockgate.methods.ccgn:CCGN", "Conditional channel gated network (the paper): gates open, filters lock."
        ),
        "finetune": Entry(
            "lockgate.methods.finetune:Finetune", "Trains on each task in turn and protects nothing: forgets."
        ),
        "joint": Entry(
            "lockgate.methods.joint:Joint", "All tasks at once, one head each: the task-incremental upper bound."
        ),
    },
)
