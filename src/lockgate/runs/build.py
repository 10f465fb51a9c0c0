"""From a description to things: check an experiment whole, build its scenario and its learner."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from lockgate.backbones import BACKBONES
from lockgate.backbones.base import Backbone
from lockgate.backbones.validation import make_backbone
from lockgate.config import Experiment, gather
from lockgate.data import DATASETS
from lockgate.data.validation import require_dataset
from lockgate.errors import ConfigError
from lockgate.importing import user_code
from lockgate.layers.plain import LayerFactory
from lockgate.methods import METHODS
from lockgate.methods.base import Context, Method
from lockgate.registry import Registry
from lockgate.scenario import Scenario, split
from lockgate.training.seeding import derive


def experiment_from(values: Mapping[str, Any]) -> Experiment:
    """The experiment that nested plain values describe, complete, or ``ConfigError`` with every problem there is."""
    problems: list[str] = []
    experiment = gather(Experiment, values, "", problems)
    named: list[tuple[Registry[Any], str]] = [
        (METHODS, experiment.method),
        (DATASETS, experiment.dataset),
        (BACKBONES, experiment.backbone),
    ]
    wrong = [registry.problems(name) for registry, name in named]
    problems += [problem for some in wrong for problem in some]
    options: Any = None
    if not wrong[0]:
        options = gather(METHODS[experiment.method].Options, experiment.options, "options.", problems)
    if experiment.optim.batch_size % experiment.devices:
        problems.append(
            f"'optim.batch_size' must be a multiple of the {experiment.devices} devices. "
            f"Got {experiment.optim.batch_size} instead."
        )
    if experiment.optim.schedule == "milestones" and not experiment.optim.milestones:
        problems.append(
            "'optim.milestones' must name an epoch when 'optim.schedule' is 'milestones'. Got none instead."
        )
    if problems:
        raise ConfigError(problems)
    return dataclasses.replace(experiment, options=dataclasses.asdict(options))


def validated(experiment: Experiment) -> Experiment:
    """The experiment with its method's options filled in, or ``ConfigError`` with every problem there is."""
    return experiment_from(experiment.to_dict())


def build_scenario(experiment: Experiment) -> Scenario:
    """Read the data and cut it into tasks."""
    data_dir = None if experiment.data_dir is None else Path(experiment.data_dir)
    read = DATASETS[experiment.dataset]
    if DATASETS.builtin(experiment.dataset):
        dataset = read(data_dir, experiment.data)
    else:
        with user_code(f"Reading the data set {experiment.dataset!r}"):
            found = read(data_dir, experiment.data)
        dataset = require_dataset(found, experiment.dataset)
    return split(dataset, experiment.tasks, experiment.scenario, experiment.seed)


def build_learner(experiment: Experiment, image_shape: tuple[int, int, int]) -> Method:
    """A learner that has seen nothing, initialised by the experiment's seed.

    ``ConfigError`` where the method cannot work on the backbone.
    """
    method = METHODS[experiment.method]
    options = method.Options(**experiment.options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(experiment.seed, "backbone"))
        layer_factory = method.layer_factory(experiment.model.init, options)
        backbone = _build_backbone(experiment, image_shape, layer_factory)
        problems = method.check_backbone(backbone)
        if problems:
            pair = f"method {experiment.method!r} cannot work on backbone {experiment.backbone!r}"
            raise ConfigError([f"{pair}: {problem}" for problem in problems])
        context = Context(backbone, options, image_shape, experiment.model.standardise)
        if METHODS.builtin(experiment.method):
            return method(context)
        with user_code(f"Making the method {experiment.method!r}"):
            return method(context)


def _build_backbone(experiment: Experiment, image_shape: tuple[int, int, int], layer_factory: LayerFactory) -> Backbone:
    factory = BACKBONES[experiment.backbone]
    if BACKBONES.builtin(experiment.backbone):
        return factory(image_shape, layer_factory, experiment.model)
    return make_backbone(factory, experiment.backbone, image_shape, layer_factory, experiment.model)
