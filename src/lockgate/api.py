"""The functions of ``import lockgate``: experiments with names or objects, one run folder each, one result object."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from lockgate.app.audit import audit_run
from lockgate.app.experiment_file import over_preset, read_file
from lockgate.app.result import Result
from lockgate.config import Experiment
from lockgate.errors import ConfigError
from lockgate.evaluation.exactness import Verdict
from lockgate.methods.base import Method
from lockgate.runs.build import build_learner, experiment_from, validated
from lockgate.runs.given import Given
from lockgate.runs.objects import Network, NetworkFactory, Objects
from lockgate.runs.run import begin
from lockgate.runs.run import resume as go_on
from lockgate.scenario import Scenario
from lockgate.training.callbacks import Callback

PathLike = str | os.PathLike[str]


def run(
    experiment: Experiment | Mapping[str, Any] | PathLike,
    out: PathLike | None = None,
    *,
    scenario: Scenario | str | None = None,
    method: type[Method] | str | None = None,
    network: nn.Module | NetworkFactory | str | None = None,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> Result:
    """Carry out an experiment in a new folder ``out``, or in a fresh one below ``runs``.

    ``experiment`` is an ``Experiment``, its keywords (also ``preset``), or a YAML file as the command reads it. The
    rest stands in for what it names: ``scenario`` for its data set (see ``split_tasks``), ``method`` for its method,
    ``network`` for its backbone: a ``Backbone`` or any other module to begin with, or a function
    ``(image_shape, layer_factory, config)`` that makes one. What is given as an object is given again to ``resume``.
    """
    names = {"dataset": scenario, "method": method, "backbone": network}
    objects = _objects(scenario, method, network)
    described = _described(experiment, {key: name for key, name in names.items() if isinstance(name, str)}, objects)
    command = "lockgate.run in Python" if objects.note() else None
    given = Given(objects, tuple(callbacks), quiet)
    return Result(begin(described, None if out is None else Path(out), command, given)[0], objects)


def resume(
    out: PathLike,
    *,
    scenario: Scenario | None = None,
    method: type[Method] | None = None,
    network: nn.Module | NetworkFactory | None = None,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
    previous: bool = False,
) -> Result:
    """Continue the run in ``out`` from its newest checkpoint (``previous``: the one before) to the same bits.

    What the run was given as an object is given again; the data must be the same to the last pixel.
    """
    objects = _objects(scenario, method, network)
    go_on(Path(out), previous, Given(objects, tuple(callbacks), quiet))
    return Result(Path(out), objects)


def load(
    out: PathLike,
    *,
    method: type[Method] | None = None,
    network: nn.Module | NetworkFactory | None = None,
) -> Result:
    """The run in ``out``, finished or not. To ``predict``, what it was given as an object is given again."""
    return Result(Path(out), _objects(None, method, network))


def audit(
    out: PathLike,
    *,
    scenario: Scenario | None = None,
    method: type[Method] | None = None,
    network: nn.Module | NetworkFactory | None = None,
) -> Verdict:
    """Prove that the past answers of the run (or model) in ``out`` have not changed by a bit: see ``Verdict.ok``."""
    return audit_run(Path(out), _objects(scenario, method, network))


def make_method(
    method: type[Method] | str,
    image_shape: tuple[int, int, int],
    *,
    network: nn.Module | NetworkFactory | str = "simple_cnn",
    model: Mapping[str, Any] | None = None,
    augment: Mapping[str, Any] | None = None,
    seed: int = 0,
    **options: Any,
) -> Method:
    """A method that has learnt nothing, for images (C, H, W): what ``train_task`` takes.

    ``model`` are keywords of ``ModelConfig``, ``augment`` of ``AugmentConfig``; ``options`` those of the method. The
    weights are decided by ``seed``.
    """
    objects = _objects(None, method, network)
    values = {"model": dict(model or {}), "augment": dict(augment or {}), "seed": seed, "options": options}
    names = {"method": method, "backbone": network}
    values |= {key: name for key, name in names.items() if isinstance(name, str)}
    return build_learner(experiment_from(values, objects), image_shape, objects)


def _objects(scenario: Any, method: Any, network: Any) -> Objects:
    """What of these is no name."""
    if isinstance(method, Method):
        raise ConfigError([f"'method' must be a class. Got a {type(method).__name__} instead; pass its class."])
    for name, given, kind in (("scenario", scenario, Scenario), ("method", method, type)):
        if given is not None and not isinstance(given, (str, kind)):
            remedy = "Make one with lockgate.split_tasks." if kind is Scenario else "Sub-class lockgate.Method."
            wanted = "a Scenario" if kind is Scenario else "a sub-class of Method"
            raise ConfigError([f"'{name}' must be {wanted} or a name. Got {type(given).__name__} instead. {remedy}"])
    if isinstance(method, type) and not issubclass(method, Method):
        raise ConfigError([f"'method' must be a sub-class of Method. Got {method.__name__} instead."])
    return Objects(
        None if isinstance(scenario, str) else scenario,
        None if isinstance(method, str) else method,
        None if network is None or isinstance(network, str) else Network(network),
    )


def _described(
    experiment: Experiment | Mapping[str, Any] | PathLike, names: Mapping[str, Any], objects: Objects
) -> Experiment:
    """The experiment whole, with ``names`` in the place of its own, or ``ConfigError`` with every problem there is."""
    if isinstance(experiment, Experiment):
        return validated(replace(experiment, **names), objects)
    given = dict(experiment) if isinstance(experiment, Mapping) else read_file(Path(experiment))
    if objects.network is not None:
        names = {**names, "backbone": objects.note()["network"]}  # so that it has the recipe of a network of one's own
    values = over_preset({**given, **names}, None if objects.scenario is None else objects.scenario.task_size)
    if objects.method is not None:  # a preset has options for the method it knows
        values["options"] = given.get("options", {})
    return experiment_from(values, objects)
