"""Training in one phase of a run: the only loop there is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lockgate.config import Experiment
from lockgate.errors import TrainingError
from lockgate.layers.per_task import live_state, load_live_state
from lockgate.training import distributed
from lockgate.training.augment import augment
from lockgate.training.optim import lr_factor, make_optimiser, set_lr
from lockgate.training.phase import Phase
from lockgate.training.progress import Progress
from lockgate.training.seeding import derive, generator
from lockgate.types import Batch, State

CHECK_EVERY = 50
"""Steps between two looks at whether the losses are finite: looking waits for the device."""
SHARE_EVERY = 20
"""Steps after which all ranks take over the first one's statistics, which is when an epoch can be checkpointed."""

SCALER = "scaler"
"""Where the optimiser's state keeps that of the loss scaler."""


@dataclass
class FitState:
    """Where training inside a task stands; with the learner's and the optimiser's tensors, all there is to resume."""

    epoch: int = 0
    step: int = 0
    sums: dict[str, Tensor | float] = field(default_factory=dict)
    """Losses summed over the steps of this epoch; they stay on the device until looked at."""
    counts: dict[str, int] = field(default_factory=dict)
    """Steps that had each loss: those of a critic and its generator take turns."""
    best_score: float = -math.inf
    best_epoch: int = -1
    best: State | None = None
    """What the best epoch so far left in the part of the state that can change."""
    optimiser: dict[str, Any] | None = None

    def meta(self) -> dict[str, Any]:
        """The part that is not tensors, for the manifest."""
        sums = {name: float(value) for name, value in self.sums.items()}
        score = None if math.isinf(self.best_score) else self.best_score
        return {
            "epoch": self.epoch,
            "step": self.step,
            "sums": sums,
            "counts": self.counts,
            "best_score": score,
            "best_epoch": self.best_epoch,
        }

    @staticmethod
    def from_meta(meta: dict[str, Any], best: State | None, optimiser: dict[str, Any] | None) -> FitState:
        """The state a manifest and its tensors describe."""
        score = -math.inf if meta["best_score"] is None else meta["best_score"]
        counts = meta.get("counts") or dict.fromkeys(meta["sums"], meta["step"])  # earlier versions did not count
        return FitState(meta["epoch"], meta["step"], meta["sums"], counts, score, meta["best_epoch"], best, optimiser)


class Fit:
    """Trains in one phase, from wherever ``state`` says, and reloads the weights of the selected epoch."""

    def __init__(
        self,
        fabric: Any,
        phase: Phase,
        experiment: Experiment,
        state: FitState,
        save: Callable[[FitState], None],
        progress: Progress,
        advice: str = "",
    ) -> None:
        self.fabric, self.phase, self.trainable = fabric, phase, phase.trainable
        self.experiment, self.state, self.progress = experiment, state, progress
        self._save, self._advice = save, advice
        self.model: Any = phase.trainable
        self.optimiser: Any = make_optimiser(phase.trainable, phase.optim)
        if phase.trainable.wrapped:
            self.model, self.optimiser = fabric.setup(self.model, self.optimiser)
        if state.optimiser is not None:
            saved = dict(state.optimiser)
            fabric.strategy.precision.load_state_dict(saved.pop(SCALER, {}))
            self.optimiser.load_state_dict(saved)
        self._saved_at = time.monotonic()
        self._accuracy: float | None = None  # on held-out data, after the last epoch

    def run(self, record: Callable[[dict[str, Any]], None]) -> None:
        """All remaining epochs; ``record`` is given one record for each."""
        for epoch in range(self.state.epoch, self.phase.epochs):
            start = time.monotonic()
            losses = self.train_epoch(epoch)
            record({**self.close_epoch(epoch), "losses": losses, "seconds": time.monotonic() - start})
            self.save()
        if self.state.best is not None:
            load_live_state(self.trainable, self.state.best)

    def train_epoch(self, epoch: int) -> dict[str, float]:
        """The remaining steps of an epoch; returns the mean of each loss over the steps that had it."""
        seed, state, phase, trainable = self.experiment.seed, self.state, self.phase, self.trainable
        order = torch.randperm(len(phase.data), generator=generator(seed, "order", *phase.key, epoch))
        trainable.epoch, trainable.epochs, trainable.steps = epoch, phase.epochs, phase.steps
        trainable.train()
        for step in range(state.step, phase.steps):
            torch.manual_seed(derive(seed, "step", *phase.key, epoch, step, distributed.rank()))
            trainable.step = epoch * phase.steps + step
            trainable.progress = trainable.step / (phase.epochs * phase.steps)
            set_lr(self.optimiser, lr_factor(phase.optim, epoch, trainable.progress))
            losses = self.train_step(self.draw(order, step))
            for name, value in losses.items():
                state.sums[name] = state.sums.get(name, 0.0) + value.detach()
                state.counts[name] = state.counts.get(name, 0) + 1
            state.step = step + 1
            due = time.monotonic() - self._saved_at >= self.experiment.runtime.checkpoint_seconds
            look = due or state.step % CHECK_EVERY == 0 or state.step == phase.steps
            if look:
                self.require_finite()
            self.progress.step(self.note(epoch) if look or step == 0 else None)
            # A checkpoint holds the first rank's statistics: it is written where all ranks have them, at steps that no
            # clock decides.
            shared = not distributed.several() or state.step % SHARE_EVERY == 0
            if shared and distributed.several():
                distributed.share(live_state(trainable).values())
            if due and shared and state.step < phase.steps:
                self.save()
        return {name: float(value) / state.counts[name] for name, value in state.sums.items()}

    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        """One step of the optimiser."""
        losses: dict[str, Tensor] = self.model(batch)
        self.backward(torch.stack(list(losses.values())).sum())
        self.trainable.after_backward()
        self.clip()
        self.trainable.before_step()
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.trainable.after_step()
        return losses

    def backward(self, loss: Tensor) -> None:
        """Gradients of the whole batch, on every rank."""
        if self.trainable.wrapped:
            self.fabric.backward(loss)
        else:
            loss.backward()  # type: ignore[no-untyped-call]
            distributed.average_gradients(self.trainable)

    def clip(self) -> None:
        """Bound the norm of the gradient, and apart from it that of what is to be clipped apart."""
        largest, apart = self.phase.optim.clip, self.trainable.clipped_apart()
        if largest and not self.trainable.wrapped:
            torch.nn.utils.clip_grad_norm_(self.trainable.parameters(), largest)
        elif largest:
            bound = math.inf if apart else largest  # without a bound it still undoes the scaling of the loss
            self.fabric.clip_gradients(self.model, self.optimiser, max_norm=bound, error_if_nonfinite=False)
        if largest and apart:
            ids, groups = set(map(id, apart)), self.optimiser.param_groups
            others = [p for group in groups for p in group["params"] if id(p) not in ids]
            for part in (others, apart):
                torch.nn.utils.clip_grad_norm_(part, largest)

    def draw(self, order: Tensor, step: int) -> Batch:
        """This rank's share of one batch, on the device."""
        optim, world = self.phase.optim, distributed.world_size()
        size = min(optim.batch_size, len(order)) // world * world
        index = order[torch.arange(step * optim.batch_size, step * optim.batch_size + size) % len(order)]
        index = index[distributed.rank() :: world]
        x, y, task = (part.to(self.fabric.device, non_blocking=True) for part in self.phase.data.batch(index))
        return Batch(augment(x, self.phase.augment), y, task)

    def close_epoch(self, epoch: int) -> dict[str, Any]:
        """Judge the epoch on held-out data and keep its weights if they are the best so far."""
        distributed.share_state(self.trainable)
        state, phase = self.state, self.phase
        state.epoch, state.step, state.sums, state.counts = epoch + 1, 0, {}, {}
        record = {"task": phase.key[0], "epoch": epoch, "lr": self.optimiser.param_groups[0]["lr"]}
        if phase.validate is None:
            return {"event": str(phase.key[-1]), **record}
        judged = torch.tensor(phase.validate(), dtype=torch.float64)
        if distributed.several():
            judged = distributed.from_rank_zero(judged.to(self.fabric.device))
        right, objective = judged.tolist()
        if not math.isfinite(objective):  # the last step can diverge after its own, finite, loss
            raise self.not_finite("held-out objective")
        self._accuracy = right
        score = right if phase.optim.selection == "accuracy" else -objective
        selectable = phase.optim.selection != "last" and epoch >= self.trainable.first_selectable_epoch
        if selectable and score >= state.best_score:
            state.best_score, state.best_epoch = score, epoch
            state.best = {name: value.detach().clone() for name, value in live_state(self.trainable).items()}
        return {"event": "epoch", **record, "val_objective": objective, "val_accuracy": right}

    def save(self) -> None:
        """Checkpoint now; what a step made of the weights after its own, finite, loss is looked at before."""
        learning = (p for group in self.optimiser.param_groups for p in group["params"])
        if not all(bool(p.isfinite().all()) for p in learning):
            raise self.not_finite("network")
        scaler = self.fabric.strategy.precision.state_dict()  # of 16-mixed
        self.state.optimiser = {**self.optimiser.state_dict(), **({SCALER: scaler} if scaler else {})}
        self._save(self.state)
        self._saved_at = time.monotonic()

    def note(self, epoch: int) -> str:
        """Epoch, mean loss so far in it, and accuracy after the one before."""
        loss = sum(float(value) for value in self.state.sums.values()) / self.state.step
        accuracy = "" if self._accuracy is None else f"  accuracy {self._accuracy:.3f}"
        return f"epoch {epoch + 1}/{self.phase.epochs}  loss {loss:.3f}{accuracy}"

    def require_finite(self) -> None:
        """Stop before a loss that is not finite reaches a checkpoint."""
        wrong = [name for name, value in self.state.sums.items() if not math.isfinite(float(value))]
        if wrong:
            raise self.not_finite(f"{' and '.join(wrong)} loss")

    def not_finite(self, what: str) -> TrainingError:
        """The error that stops a run that has diverged."""
        where = f"task {self.phase.key[0]}, epoch {self.state.epoch}, step {self.state.step}"
        return TrainingError(
            f"The {what} is not finite at {where}. The last good state is kept in the checkpoints. {self._advice}"
        )
