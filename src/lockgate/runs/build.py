"""From a description to things: check an experiment whole, build its scenario and its learner."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from lockgate.backbones import BACKBONES
from lockgate.config import Experiment, build, gather
from lockgate.data import DATASETS
from lockgate.errors import ConfigError
from lockgate.methods import METHODS
from lockgate.methods.base import Context, Method
from lockgate.runs.objects import NOTHING, Objects
from lockgate.scenario import Scenario, split
from lockgate.training.seeding import derive


def experiment_from(values: Mapping[str, Any], objects: Objects = NOTHING, data: bool = True) -> Experiment:
    """The experiment that nested plain values describe, complete, or ``ConfigError`` with every problem there is.

    Names in the place of ``objects`` are not looked up, nor is the data set's without ``data``.
    """
    problems: list[str] = []
    experiment = gather(Experiment, values, "", problems)
    for registry, name, given in (
        (METHODS, experiment.method, objects.method),
        (DATASETS, experiment.dataset, objects.scenario if data else "not needed"),
        (BACKBONES, experiment.backbone, objects.network),
    ):
        problem = registry.problem(name) if given is None else None
        problems += [problem] if problem else []
    options: Any = None
    if objects.method is not None or experiment.method in METHODS:
        method = objects.method or METHODS[experiment.method]
        options = gather(method.Options, experiment.options, "options.", problems)
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


def validated(experiment: Experiment, objects: Objects = NOTHING, data: bool = True) -> Experiment:
    """The experiment with its method's options filled in, or ``ConfigError`` with every problem there is."""
    return experiment_from(experiment.to_dict(), objects, data)


def build_scenario(experiment: Experiment, objects: Objects = NOTHING) -> Scenario:
    """Read the data and cut it into tasks; or the tasks that were given."""
    if objects.scenario is not None:
        return objects.scenario
    data_dir = None if experiment.data_dir is None else Path(experiment.data_dir)
    dataset = DATASETS[experiment.dataset](data_dir, experiment.data)
    return split(dataset, experiment.tasks, experiment.scenario, experiment.seed)


def build_learner(experiment: Experiment, image_shape: tuple[int, int, int], objects: Objects = NOTHING) -> Method:
    """A learner that has seen nothing, initialised by the experiment's seed."""
    method = objects.method or METHODS[experiment.method]
    options = build(method.Options, experiment.options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(experiment.seed, "backbone"))
        layer_factory = method.layer_factory(experiment.model.init, options)
        network = objects.network or BACKBONES[experiment.backbone]
        backbone = network(image_shape, layer_factory, experiment.model)
        return method(Context(backbone, options, image_shape, experiment.model.standardise, experiment.augment))
