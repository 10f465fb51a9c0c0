"""Options of the paper's method: its own first, ours behind them. `lockgate list ccgn-episodic` prints them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lockgate.config import option
from lockgate.layers.gate import OPEN_BIAS
from lockgate.memory.gan.options import GanOptions


@dataclass(frozen=True)
class CCGNOptions:
    """Options of ccgn. Defaults fit short schedules; the `paper` preset sets the paper's."""

    sparsity: float = option(1.0, "Coefficient lambda_s of the sparsity objective (Eq. 5). Paper: 0.5 or 1.", ge=0)
    budget: float = option(
        0.0,
        "Share of each layer that all expected tasks together may take. A controller then sets the coefficient of "
        "sparsity, layer by layer, beginning with `sparsity`; what is above a task's part all the same is shut, little "
        "by little until annealing (or the last epoch) begins. 0 (paper): the coefficient is `sparsity`; layers may "
        "fill up.",
        ge=0,
        le=1,
    )
    head_start: float = option(
        0.0,
        "Of the budget, how many tasks' parts the first may take besides its own: it finds no filters to reuse.",
        ge=0,
    )
    sparsity_warmup: int | Literal["loss"] = option(
        1,
        "Epochs before the sparsity objective sets in (paper: 0 to 20); or `loss`: not before a fifth of the epochs, "
        "and not before the class loss is well below chance, until when gates have no noise (with a budget it waits no "
        "longer than three fifths of the time until that is kept); then it grows as the loss falls, so that gates "
        "close as the task is learnt.",
        ge=0,
    )
    gate_lr: float = option(3.0, "Learning rate of gates, as a factor on the network's. Paper: 1 (400 epochs).", gt=0)
    open_bias: float = option(OPEN_BIAS, "Start of the gates' last bias; positive: gates start open. Paper: not said.")
    anneal: float = option(
        0.0,
        "Share of a task's steps, at its end, in which gates decide without noise, the sparsity objective rests and "
        "statistics of BatchNorm are held. Paper: 0.",
        ge=0,
        lt=1,
    )
    prune: float = option(
        0.0,
        "While sparsity is at work, do not compute filters whose gates fired for less than this share of the images "
        "seen lately; 0: compute all. What is pruned when annealing begins stays shut. Paper: 0.",
        ge=0,
        lt=1,
    )
    grow: float = option(
        0.0, "Widen layers so that each task begins with this share of the first width free; 0 (paper): never.", ge=0
    )
    seal: bool = option(
        True, "Keep a past task's gates inside its relevant set for ever. False, for the ablation: as printed."
    )
    companion: float = option(
        0.0,
        "Width, as a share of the network's, of a plain network that learns beside the streams: from the second task "
        "on a stream begins as it stands then. Where there is a memory it is rehearsed, and answers beside the streams "
        "when no task is given. 0 (paper): none. A network that was brought along has none.",
        ge=0,
        le=1,
    )


@dataclass(frozen=True)
class ClassIncrementalOptions(CCGNOptions):
    """Options of the methods that find the task by themselves."""

    readout: Literal["mlp", "ridge"] = option(
        "ridge",
        "What finds the task: the paper's task classifier, an MLP on the last features; or a ridge regression on all "
        "gated layers, in closed form after each task (a memory then keeps held-out images, as many of each class).",
    )
    hidden: int = option(64, "Hidden units of the task classifier. Paper: 64.", ge=1)
    unasked: float = option(
        0.0,
        "Where there are a read-out and a companion: the companion is not asked about images that the read-out is sure "
        "of, so sure that of the stored images that it gets wrong when they are left out it is as sure of no more than "
        "this share (or as many as this share of those it gets right, where these are fewer). 0: it is asked about "
        "all.",
        ge=0,
        lt=1,
    )
    inference: Literal["argmax", "joint"] = option(
        "argmax",
        "Without a task: the most likely task's head (the paper); or the most likely class by both, log p(t|x) + "
        "log p(y|x,t); with a read-out, by what that says, log p(y|x), and a companion.",
    )
    targets: Literal["task", "class"] = option(
        "task", "What the task classifier tells apart: tasks (the paper), or classes, summed up by task."
    )
    rehearsal: int = option(0, "Images in a rehearsal batch; 0 (paper): as many as in a batch of the task.", ge=0)


@dataclass(frozen=True)
class EpisodicOptions(ClassIncrementalOptions):
    """Options of ccgn-episodic."""

    buffer: int = option(2000, "Capacity C of the memory: real images kept in all. Paper: 500 to 2000.", ge=1)


@dataclass(frozen=True)
class GenerativeOptions(ClassIncrementalOptions):
    """Options of ccgn-generative."""

    gan: GanOptions = field(default_factory=GanOptions)
    mix_real: bool = option(
        False, "For the ablation: rehearse the current task on its real images, the flaw of mixing (supplement)."
    )
