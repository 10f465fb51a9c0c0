"""From a description to things: check an experiment whole, build its scenario and its learner."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from lockgate.backbones import BACKBONES, OWN
from lockgate.backbones.base import Backbone
from lockgate.backbones.foreign import ForeignBackbone
from lockgate.backbones.validation import make_backbone
from lockgate.backbones.weights import HUB, UNTRAINED
from lockgate.config import Experiment, build, gather
from lockgate.data import DATASETS
from lockgate.data.validation import require_dataset
from lockgate.errors import ConfigError
from lockgate.importing import user_code
from lockgate.layers.plain import LayerFactory
from lockgate.methods import METHODS
from lockgate.methods.base import Context, Method
from lockgate.registry import Registry
from lockgate.runs.objects import NOTHING, Objects
from lockgate.scenario import Scenario, split
from lockgate.scenario.limit import limit_tests
from lockgate.training.seeding import derive


def experiment_from(values: Mapping[str, Any], objects: Objects = NOTHING, data: bool = True) -> Experiment:
    """The experiment that nested plain values describe, complete, or ``ConfigError`` with every problem there is.

    Names in the place of ``objects`` are not looked up, nor is the data set's without ``data``.
    """
    problems: list[str] = []
    experiment = gather(Experiment, values, "", problems)
    named: list[tuple[Registry[Any], str, object]] = [
        (METHODS, experiment.method, objects.method),
        (DATASETS, experiment.dataset, objects.scenario if data else "not needed"),
        (BACKBONES, experiment.backbone, objects.network),
    ]
    wrong = [registry.problems(name) if given is None else [] for registry, name, given in named]
    problems += [problem for some in wrong for problem in some]
    options: Any = None
    if not wrong[0]:
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
    if experiment.eval.images and experiment.scenario.evaluate == "held_out":
        problems.append(
            "'eval.images' limits test images, and 'scenario.evaluate' held_out uses none. Leave one of them out."
        )
    if problems:
        raise ConfigError(problems)
    return dataclasses.replace(experiment, options=dataclasses.asdict(options))


def validated(experiment: Experiment, objects: Objects = NOTHING, data: bool = True) -> Experiment:
    """The experiment with its method's options filled in, or ``ConfigError`` with every problem there is."""
    return experiment_from(experiment.to_dict(), objects, data)


def anchored(experiment: Experiment) -> Experiment:
    """The same with whole paths: what it began with in one directory goes on in another."""
    here = dataclasses.replace
    if experiment.data_dir is not None:
        experiment = here(experiment, data_dir=str(Path(experiment.data_dir).absolute()))
    weights = experiment.model.weights
    if weights not in ("", UNTRAINED, HUB) and Path(weights).exists():
        experiment = here(experiment, model=here(experiment.model, weights=str(Path(weights).absolute())))
    scheme, _, rest = experiment.backbone.partition(":")
    if rest and Path(rest).is_dir():
        experiment = here(experiment, backbone=f"{scheme}:{Path(rest).absolute()}")
    return experiment


def build_scenario(experiment: Experiment, objects: Objects = NOTHING) -> Scenario:
    """Read the data and cut it into tasks; or the tasks that were given."""
    return limit_tests(_read_scenario(experiment, objects), experiment.eval.images, experiment.seed)


def _read_scenario(experiment: Experiment, objects: Objects) -> Scenario:
    if objects.scenario is not None:
        return objects.scenario
    data_dir = None if experiment.data_dir is None else Path(experiment.data_dir)
    read = DATASETS[experiment.dataset]
    if DATASETS.builtin(experiment.dataset):
        dataset = read(data_dir, experiment.data)
    else:
        with user_code(f"Reading the data set {experiment.dataset!r}"):
            found = read(data_dir, experiment.data)
        dataset = require_dataset(found, experiment.dataset, test=experiment.scenario.evaluate == "test")
    return split(dataset, experiment.tasks, experiment.scenario, experiment.seed)


def require_choice(scenario: Scenario, learner: Method) -> str:
    """Raise where every task has one class and the task is always given: there is nothing to learn, and all is right.

    Else what is to be said of accuracy, or nothing.
    """
    alone = sum(len(task.classes) == 1 for task in scenario.tasks)
    count = len(scenario.tasks)
    if not alone or count == 1:
        return ""
    if not learner.class_incremental and alone == count:
        most = sum(len(task.classes) for task in scenario.tasks) // 2
        raise ConfigError(
            [
                f"'tasks' must leave each task at least two classes to tell apart: {type(learner).__name__} is always "
                f"told the task, and with one class it is right whatever it learns. Got {count} tasks of one class "
                f"instead; choose at most {most}, or a method that finds the task (ccgn-episodic, er, icarl ...)."
            ]
        )
    return (
        f"{alone} of {count} tasks have one class: with the task given, accuracy there is 1 by definition and says "
        "nothing. Look at accuracy without the task."
    )


def build_learner(
    experiment: Experiment, image_shape: tuple[int, int, int], objects: Objects = NOTHING, weights: bool = True
) -> Method:
    """A learner that has seen nothing, initialised by the experiment's seed.

    Without ``weights``, files of weights are not read: all of the state will be loaded. ``ConfigError`` where the
    method cannot work on the backbone.
    """
    if not weights and (experiment.model.weights or experiment.backbone not in OWN):
        experiment = dataclasses.replace(experiment, model=dataclasses.replace(experiment.model, weights=UNTRAINED))
    method = objects.method or METHODS[experiment.method]
    options = build(method.Options, experiment.options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(experiment.seed, "backbone"))
        layer_factory = method.layer_factory(experiment.model.init, options)
        backbone = _build_backbone(experiment, image_shape, layer_factory, objects)
        problems = method.check_backbone(backbone)
        if problems:
            pair = f"method {experiment.method!r} cannot work on backbone {experiment.backbone!r}"
            raise ConfigError([f"{pair}: {problem}" for problem in problems])
        context = Context(
            backbone,
            options,
            image_shape,
            experiment.model.standardise,
            experiment.augment,
            experiment.tasks,
            _plain_maker(experiment, image_shape, backbone, objects),
        )
        if objects.method is None and METHODS.builtin(experiment.method):
            return method(context)
        with user_code(f"Making the method {experiment.method!r}"):
            return method(context)


def _plain_maker(
    experiment: Experiment, image_shape: tuple[int, int, int], backbone: Backbone, objects: Objects
) -> Callable[[float], Backbone] | None:
    """What makes ``backbone`` again without gates, at a share of its width; None: its width is not ours to choose."""
    if backbone.given or isinstance(backbone, ForeignBackbone) or not backbone.channels:
        return None

    def make(share: float) -> Backbone:
        width = max(1, round(share * backbone.widths()[0]))
        narrow = dataclasses.replace(experiment, model=dataclasses.replace(experiment.model, width=width))
        return _build_backbone(narrow, image_shape, Method.layer_factory(experiment.model.init, None), objects)

    return make


def _build_backbone(
    experiment: Experiment, image_shape: tuple[int, int, int], layer_factory: LayerFactory, objects: Objects
) -> Backbone:
    if objects.network is not None:
        return objects.network(image_shape, layer_factory, experiment.model)
    factory = BACKBONES[experiment.backbone]
    if BACKBONES.builtin(experiment.backbone):
        if experiment.model.weights and experiment.backbone in OWN:
            raise ConfigError([f"'model.weights' is for networks of one's own. {experiment.backbone!r} starts anew."])
        return factory(image_shape, layer_factory, experiment.model)
    return make_backbone(factory, experiment.backbone, image_shape, layer_factory, experiment.model)
