"""A wrong object answers with what is missing: every problem, before training."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lockgate.backbones import BACKBONES
from lockgate.backbones.base import Backbone, Stream
from lockgate.config import option
from lockgate.data import DATASETS, Arrays, Dataset
from lockgate.errors import ConfigError, DataError, PluginError
from lockgate.methods import METHODS
from lockgate.methods.base import Method
from lockgate.methods.validation import method_problems
from lockgate.plugins import register_backbone, register_dataset, register_method
from lockgate.runs.build import build_learner, build_scenario
from lockgate.testing import tiny_experiment

SHAPE = (3, 16, 16)


@pytest.mark.parametrize("name", METHODS)
def test_lockgates_own_methods_have_no_problems(name):
    assert method_problems(METHODS[name]) == []


@pytest.mark.parametrize("name", BACKBONES)
def test_lockgates_own_backbones_have_no_problems(name):
    assert BACKBONES.check(BACKBONES[name]) == []


# -- methods -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (3, "is a int. Wanted a class that inherits from lockgate.methods.base.Method."),
        (len, "is a builtin_function_or_method. Wanted a class"),
        (lambda: None, "is the function <lambda>. Wanted a class"),
        (
            nn.Linear,
            "is the class Linear, which does not inherit from lockgate.methods.base.Method; it has no begin_task",
        ),
    ],
)
def test_what_is_no_method_at_all(found, told):
    (problem,) = method_problems(found)
    assert problem.startswith(told)


def test_every_problem_of_a_method_is_listed_at_once():
    class Wrong(Method):
        class Options:
            rate = 0.1

        joint = "yes"
        first_selectable_epoch = 3

        def __init__(self, backbone, options):
            pass

        def loss(self, x, y):
            return {}

        def predict(self, x):
            return x

        def layer_factory(self, init, options):
            return None

        def after_step(self, optimiser):
            pass

    problems = method_problems(Wrong)
    assert sorted(problems) == sorted(
        [
            "must have a dataclass as its Options. Got Options instead: put @dataclass(frozen=True) above it.",
            "has loss(self, x, y), which must take (self, batch).",
            "has after_step(self, optimiser), which must take (self).",
            "has __init__(self, backbone, options), which must take (self, context).",
            "has 'joint', which must be True or False. Got 'yes' instead.",
            "has 'layer_factory', which must be a classmethod, as in Method.",
            "has predict(self, x), which must take (self, x, task).",
            "has 'first_selectable_epoch', which must be a property, as in Method.",
        ]
    )
    with pytest.raises(ConfigError) as caught:
        register_method("wrong")(Wrong)
    assert len(caught.value.problems) == 8
    assert caught.value.problems[0].startswith("method 'wrong' must have a dataclass")


def test_more_parameters_with_defaults_are_fine():
    class Fine(Method):
        def __init__(self, context, extra=3):
            super().__init__(context)

        def predict(self, x, task, temperature=1.0):
            return x

        def loss(self, *batches):
            return {}

    assert method_problems(Fine) == []


@dataclass(frozen=True)
class Plain:
    rate: float = 0.1
    size: int = option(3, "Fine.")


@dataclass(frozen=True)
class OutOfBounds:
    rate: float = option(2.0, "Too much.", le=1)
    size: int = option("three", "Text.")


@dataclass(frozen=True)
class Unknown:
    rate: NotImported = option(1, "What type is this?")  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (Plain, ["whose 'rate' must be lockgate.config.option"]),
        (OutOfBounds, ["'options.rate' must be at most 1", "'options.size' must be a whole number"]),
        (Unknown, ["name 'NotImported' is not defined"]),
        (Plain(), ["must have a dataclass as its Options"]),
        (dict, ["must have a dataclass as its Options. Got dict instead"]),
    ],
)
def test_options_that_no_flag_can_be_made_of(options, told):
    problems = method_problems(type("Mine", (Method,), {"Options": options}))
    assert len(problems) == len(told)
    assert all(part in problem for part, problem in zip(told, problems, strict=True))


def test_an_error_in_a_methods_constructor_shows_the_users_line():
    @register_method("mine")
    class Mine(Method):
        def __init__(self, context):
            super().__init__(context)
            self.rate = context.options.rate

    with pytest.raises(PluginError, match=r"Making the method 'mine' failed(.|\n)*self\.rate = context\.options\.rate"):
        build_learner(tiny_experiment("mine"), SHAPE)


# -- data sets ---------------------------------------------------------------------------------------------------------


def arrays(count=8, **changes: Any) -> Arrays:
    values = {"x": np.zeros((count, 1, 8, 8), np.uint8), "y": np.arange(count) % 4}
    return Arrays(**{**values, **changes})


def good(**changes: Any) -> Dataset:
    return dataclasses.replace(Dataset("mine", ("a", "b", "c", "d"), arrays(40), arrays()), **changes)


def read_by(returned):
    register_dataset("mine")(lambda data_dir, config: returned)
    try:
        return build_scenario(tiny_experiment(dataset="mine"))
    finally:
        DATASETS.unregister("mine")


def test_a_data_set_of_ones_own_is_cut_into_tasks():
    assert read_by(good()).image_shape == (1, 8, 8)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, ["must return a lockgate.data.Dataset. Got NoneType"]),
        (
            good(classes=["a", "b"]),
            ["'classes' must be a tuple of two names", "'train.y' must be labels 0 to 1. Got 0 to 3"],
        ),
        (good(classes=("a", "b", "b", "d")), ["'classes' must name each class once. Got 'b'"]),
        (good(train=3), ["'train' must be lockgate.data.Arrays. Got int"]),
        (good(train=arrays(x=np.zeros((8, 8, 8, 1)))), ["'train.x' must be a numpy array (N, C, H, W) of uint8"]),
        (
            good(test=arrays(x=torch.zeros(8, 1, 8, 8))),
            ["'test.x' must be a numpy array", "Tensor torch.float32 (8, 1, 8, 8)"],
        ),
        (good(test=arrays(y=np.zeros(8, np.int32))), ["'test.y' must be a numpy array (N,) of int64. Got int32 (8,)"]),
        (good(test=arrays(y=np.arange(7))), ["'test.y' must have a label for each of 8 images. Got 7", "Got 0 to 6"]),
        (good(test=arrays(x=np.zeros((8, 3, 8, 8), np.uint8))), ["images of one shape. Got (1, 8, 8) and (3, 8, 8)"]),
        (good(train=arrays(y=np.zeros(8, np.int64))), ["no training image of class 'b', 'c', 'd'"]),
        (good(train=arrays(0), test=None), ["'train.x' must be", "'test' must be"]),
    ],
)
def test_what_a_data_set_returns_is_checked(returned, told):
    with pytest.raises(DataError) as caught:
        read_by(returned)
    assert all(part in str(caught.value) for part in told), caught.value


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (good(), "is a Dataset itself"),
        ("mine", "is a str. Wanted a function (data_dir, config)"),
        (lambda: None, "takes (). Wanted a function"),
        (lambda a, b, c: None, "takes (a, b, c)."),
    ],
)
def test_what_cannot_read_a_data_set(found, told):
    (problem,) = DATASETS.check(found)
    assert told in problem


def test_an_error_while_reading_shows_the_users_line():
    @register_dataset("mine")
    def read(data_dir, config):
        return open(data_dir / "images")

    with pytest.raises(PluginError, match=r"Reading the data set 'mine' failed(.|\n)*data_dir / \"images\""):
        build_scenario(tiny_experiment(dataset="mine"))


# -- backbones ---------------------------------------------------------------------------------------------------------


class Shaped(Backbone):
    """Says it has three features, and gives what it is told to."""

    features = 3
    given: Any = None

    def __init__(self, image_shape, layer_factory, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x, task):
        return self.given


def told_of(factory) -> str:
    register_backbone("mine")(factory)
    try:
        with pytest.raises((ConfigError, PluginError)) as caught:
            build_learner(tiny_experiment(backbone="mine"), SHAPE)
    finally:
        BACKBONES.unregister("mine")
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (torch.zeros(2, 3), "must return a lockgate.backbones.base.Stream. Got Tensor"),
        (Stream(torch.zeros(2, 4), ()), "float features (B, F), F = 3 as it says. Got torch.float32 (2, 4)"),
        (Stream(torch.zeros(2, 3, 1, 1), ()), "Got torch.float32 (2, 3, 1, 1)"),
        (Stream(torch.zeros(2, 3).long(), ()), "Got torch.int64 (2, 3)"),
        (Stream(torch.zeros(2, 3), (torch.zeros(2, 3),)), "the gate of each of its 0 `layers`"),
    ],
)
def test_what_a_backbone_returns_is_checked(given, told):
    assert told in told_of(type("Mine", (Shaped,), {"given": given}))


def test_a_backbone_that_does_not_say_how_wide_it_is():
    class Mine(Backbone):
        def __init__(self, image_shape, layer_factory, config):
            super().__init__()

    assert "must say how wide its features are" in told_of(Mine)


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (lambda image_shape, layer_factory, config: None, "must make a Backbone or an nn.Module. Got NoneType"),
        (lambda a, b, c: 3, "must make a Backbone or an nn.Module. Got int"),
        (lambda: nn.Flatten(0), "features (B, F) or (B, F, h, w). Got torch.float32 (1536,)"),
        (lambda: nn.Linear(3, 4, bias=False), "mat1 and mat2"),
        (lambda: nn.LSTM(16, 4), "LSTM: Expected input to be 2D or 3D, got 4D"),
        (lambda: [][0], "IndexError"),
    ],
)
def test_what_a_factory_makes_is_checked(factory, told):
    assert told in told_of(factory)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (nn.Linear(3, 3), "is one network, already made"),
        ("net", "is a str. Wanted an nn.Module class"),
        (dict, "is the class dict, which is no nn.Module"),
        (nn.Linear, "takes 'in_features', 'out_features', which nobody gives it"),
        (lambda image_shape, depth: None, "takes 'depth', which nobody gives it"),
    ],
)
def test_what_cannot_make_a_backbone(found, told):
    (problem,) = BACKBONES.check(found)
    assert told in problem
