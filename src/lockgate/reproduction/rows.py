"""The experiments behind rows: ours twice, as printed and as Lockgate has it, and rivals with the same means.

*Ours, as printed* is what verdicts about the paper are of. *Lockgate* is our own recipe and stands beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from lockgate.config import Experiment, merge
from lockgate.methods import METHODS
from lockgate.presets import PRESETS
from lockgate.reproduction.paper_table import Schedule
from lockgate.runs.build import validated

PRINTED = "ours, as printed"
LOCKGATE = "Lockgate"
SVM = "SVM on the stored images"

SHORTER, SHORTER_ON = 10, {"digits": 4, "fashion_mnist": 4}
"""By what the paper's number of epochs is divided on the short schedule; there an epoch is a few steps only."""
WITH_TASK, WITHOUT_TASK, GENERATIVE = "ccgn", "ccgn-episodic", "ccgn-generative"
"""The methods of ours that all rows of a table share their means with; the last, the budget of GANs."""
BUDGET = ("width", "iterations", "critic_steps", "penalty_every", "batch_size")
"""What of a GAN's options is means; rate and averaging are settings of a method."""


def printed_row(
    schedule: Schedule,
    method: str,
    dataset: str,
    options: Mapping[str, Any] | None = None,
    scenario: Mapping[str, Any] | None = None,
) -> Experiment:
    """The paper to the letter, for ``schedule``: the preset `printed`, and by `short` less of it, in one way only.

    By `paper` it is the whole schedule. By `short` it has a tenth of the paper's epochs (digits: a quarter), since
    two CPU cores would need weeks for all; milestones are epochs and shrink with them; GANs have the budget of the
    table's other rows. Everything else is as printed: gates' bias 0, no seal, task targets, 64 units, argmax, SGD,
    batches, Eq. 5's coefficient, and its patience in *epochs*, uncut: gates that begin to close sooner than in the
    paper would close on filters that have learnt less. ``options`` are what a table varies: the buffer; ``scenario``
    is what it uses of the data.
    """
    experiment = PRESETS["printed"](method, dataset)
    experiment = dataclasses.replace(
        experiment,
        options=merge(experiment.options, options or {}),
        scenario=dataclasses.replace(experiment.scenario, **(scenario or {})),
    )
    if schedule != "short":
        return experiment
    less, optim = SHORTER_ON.get(dataset, SHORTER), experiment.optim
    milestones = tuple(epoch // less for epoch in optim.milestones)
    return dataclasses.replace(
        experiment,
        epochs=experiment.epochs // less,
        optim=dataclasses.replace(optim, milestones=milestones),
        options=merge(experiment.options, gan_budget(schedule, method, dataset)),
    )


def equal(
    schedule: Schedule,
    method: str,
    dataset: str,
    like: str,
    options: Mapping[str, Any] | None = None,
    scenario: Mapping[str, Any] | None = None,
) -> Experiment:
    """The preset's experiment of ``method``, its means those that our own method ``like`` has: nobody has more.

    Means are epochs, images in a batch, the network and its width, augmentation and the budget of GANs. Nothing grows:
    a network that widens would end with more filters than its rivals. What is chosen by `lockgate select` (optimiser,
    rate, a method's own options) stays the method's. Rivals have no task classifier, so that augmentation of what
    is rehearsed is, for them, augmentation of all images.
    """
    used = {"scenario": scenario} if scenario else {}  # a recipe is fitted to what is used of the data
    asked = {**used, "options": options or {}}  # a variant may have settings of its own (presets/chosen.py)
    mine, ours = PRESETS[schedule](method, dataset, asked), PRESETS[schedule](like, dataset, used)
    grows = {"grow": 0.0} if "grow" in option_names(method) else {}
    return dataclasses.replace(
        mine,
        backbone=ours.backbone,
        epochs=ours.epochs,
        scenario=dataclasses.replace(mine.scenario, **(scenario or {})),
        model=ours.model,
        optim=dataclasses.replace(mine.optim, batch_size=ours.optim.batch_size),
        augment=ours.augment if method.startswith("ccgn") else dataclasses.replace(ours.augment, images="all"),
        options=merge(merge(mine.options, {**gan_budget(schedule, method, dataset), **grows}), options or {}),
    )


def gan_budget(schedule: Schedule, method: str, dataset: str) -> dict[str, Any]:
    """What every GAN of a table may cost: as much as ours; empty where ``method`` has none."""
    if "gan" not in option_names(method):
        return {}
    gan = validated(PRESETS[schedule](GENERATIVE, dataset)).options["gan"]
    return {"gan": {name: gan[name] for name in BUDGET}}


def option_names(method: str) -> set[str]:
    """The options that ``method`` has."""
    return {field.name for field in dataclasses.fields(METHODS[method].Options)}
