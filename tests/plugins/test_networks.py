"""A plain nn.Module is a network for methods that need but features; those that need its layers say so beforehand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockgate.backbones import BACKBONES, OWN
from lockgate.backbones.adapter import ModuleBackbone
from lockgate.backbones.base import Backbone, Channels, as_stream
from lockgate.backbones.wiring import channel_problems
from lockgate.errors import ConfigError
from lockgate.evaluation.accuracy import task_incremental
from lockgate.methods import METHODS
from lockgate.plugins import register_backbone
from lockgate.runs.build import build_learner
from lockgate.runs.loading import load
from lockgate.runs.run import run
from lockgate.testing import method_contract, tiny_experiment

SHAPE = (3, 16, 16)
ANY_NETWORK = ("finetune", "joint", "full-replay", "icarl", "agem", "lwf", "ewc-online")
OWN_LAYERS = ("hat",)


class Net(nn.Module):
    """A convolution, BatchNorm and the ``view`` of every tutorial."""

    def __init__(self, image_shape=SHAPE):
        super().__init__()
        self.conv = nn.Conv2d(image_shape[0], 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 16, 6)

    def forward(self, x):
        h = F.adaptive_avg_pool2d(F.relu(self.norm(self.conv(x))), 4)
        return self.fc(h.view(len(h), -1))


class Maps(Net):
    """Gives feature maps."""

    def __init__(self):
        super().__init__()
        self.fc = None

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


TestICaRLOnAnyNetwork = method_contract("icarl", [f"{__name__}:Net"], {"buffer": 20})
TestEWCOnAnyNetwork = method_contract("ewc-online", [f"{__name__}:Net"])


@pytest.fixture(params=[Net, Maps])
def own(request):
    register_backbone("own")(request.param)
    yield request.param
    BACKBONES.unregister("own")


def test_features_are_the_modules_pooled_over_what_is_left_of_the_image(own):
    learner = build_learner(tiny_experiment(backbone="own"), SHAPE).eval()
    x = torch.rand(5, *SHAPE)
    stream = learner.backbone(x, 0)
    module = learner.backbone.module(x).detach()
    wanted = module
    if module.dim() == 4:
        wanted = torch.tensor([[float(plane.sum()) / plane.numel() for plane in image] for image in module])
    torch.testing.assert_close(stream.features.detach(), wanted)
    assert learner.backbone.features == wanted.shape[1]
    assert stream.gates == ()


def test_the_seed_makes_the_network_and_asking_for_its_width_leaves_no_trace(own):
    one, same, other = (build_learner(tiny_experiment(backbone="own", seed=s), SHAPE).state_dict() for s in (0, 0, 1))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["backbone.module.conv.weight"], other["backbone.module.conv.weight"])
    assert not one["backbone.module.norm.num_batches_tracked"]


@pytest.mark.parametrize("channels", [1, 3])
def test_a_view_works_whatever_the_memory_format_of_the_run(channels):
    shape = (channels, 16, 16)
    backbone = ModuleBackbone(Net(shape), shape).to(memory_format=torch.channels_last)
    images = torch.rand(2, *shape).to(memory_format=torch.channels_last)
    assert backbone(images, 0).features.shape == (2, 6)


def test_lazy_modules_know_their_shapes_before_the_optimiser_is_made(tmp_path):
    register_backbone("lazy")(lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(7)))
    try:
        assert run(tiny_experiment("icarl", "lazy", options={"buffer": 8}), tmp_path / "run")["tasks"] == 2
    finally:
        BACKBONES.unregister("lazy")


@pytest.mark.parametrize("method", ANY_NETWORK)
def test_methods_that_need_but_features_learn_and_are_loaded(method, own, tmp_path):
    options = {"buffer": 20} if method in ("icarl", "agem") else {}
    summary = run(tiny_experiment(method, "own", options=options), tmp_path / "run")
    learner, scenario, _ = load(tmp_path / "run")
    assert isinstance(learner.backbone, ModuleBackbone)
    assert task_incremental(learner, scenario.tasks) == summary["task_incremental"]["matrix"][-1]


@pytest.mark.parametrize("method", OWN_LAYERS)
def test_methods_that_need_the_layers_refuse_before_training(method, own):
    with pytest.raises(ConfigError) as caught:
        build_learner(tiny_experiment(method, "own"), SHAPE)
    (problem,) = caught.value.problems
    assert problem.startswith(f"method '{method}' cannot work on backbone 'own': it works by the layers")
    assert "layer_factory.conv" in problem
    assert "finetune" in problem


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("backbone", list(BACKBONES))
def test_every_method_works_on_lockgates_own_networks_or_says_why_not(method, backbone):
    if backbone not in OWN and method in OWN_LAYERS:  # it masks layers of its own making
        with pytest.raises(ConfigError, match=f"method '{method}' cannot work on backbone '{backbone}'"):
            build_learner(_untrained(method, backbone), SHAPE)
        return
    assert build_learner(_untrained(method, backbone), SHAPE).backbone is not None


def _untrained(method, backbone):
    return tiny_experiment(method, backbone, model={} if backbone in OWN else {"weights": "none"})


class Wired(Backbone):
    """Two convolutions, with one mistake in how they are listed."""

    mistake = ""

    def __init__(self, image_shape, layer_factory, config):
        super().__init__()
        conv = nn.Conv2d if self.mistake == "foreign layer" else layer_factory.conv
        self.conv1 = layer_factory.conv(3, 8, 3, padding=1)
        self.conv2 = layer_factory.conv(8, 8, 3, padding=1)
        self.add_layer("conv1", self.conv1, None)
        if self.mistake != "not listed":
            self.add_layer("conv2", self.conv2, 1 if self.mistake == "own source" else 0)
        if self.mistake in ("foreign layer", "hidden layer"):
            self.extra = conv(8, 8, 1)
        if self.mistake == "shared norm":
            self.norm = nn.BatchNorm2d(8, affine=False)
        if self.mistake == "narrow":
            self.conv2 = self.layers["conv2"] = layer_factory.conv(4, 8, 3, padding=1)
        if self.mistake == "sources":
            self.sources.pop()
        readers = [] if self.mistake == "no reader" else [self.conv2]
        self.channels = [Channels([self.conv1], readers, []), Channels([self.conv2], [], [])]
        if self.mistake == "no writer":
            self.channels.pop(0)

    @property
    def features(self):
        return 8

    def forward(self, x, task):
        x, one = self.conv1(x, task, F.relu)
        x, two = self.conv2(x, task, F.relu)
        return as_stream(self.conv2, x.mean((2, 3)), task, [one, two])


def wired(mistake, method="ccgn"):
    backbone = type("Mine", (Wired,), {"mistake": mistake})
    factory = METHODS[method].layer_factory("he", METHODS[method].Options())
    return METHODS[method].check_backbone(backbone(SHAPE, factory, None))


@pytest.mark.parametrize("method", ["ccgn", "hat"])
@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ("foreign layer", ["'extra.weight', 'extra.bias' would change past answers"]),
        ("hidden layer", ["'extra': made by the layer factory, but not in `layers`"]),
        ("not listed", ["'conv2': made by the layer factory, but not in `layers`"]),
        ("own source", ["The source of 'conv2' must be the index of a layer before it, or None. Got 1"]),
        ("shared norm", ["'norm' would change past answers"]),
        ("narrow", ["'conv2' reads 4 channels and its source 'conv1' writes 8"]),
        ("sources", ["`sources` must name one source for each of 2 layers. Got 1"]),
        ("", []),
    ],
)
def test_layers_that_are_not_listed_as_they_are_wired_are_named(method, mistake, told):
    problems = wired(mistake, method)
    assert len(problems) == len(told), problems
    assert all(part in problem for part, problem in zip(told, problems, strict=True))


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ("no reader", "'conv2' must be a reader of the channels that 'conv1' writes"),
        ("no writer", "'conv1' must be a writer of exactly one of `channels`"),
    ],
)
def test_only_gating_asks_who_reads_and_writes_which_channels(mistake, told):
    (problem,) = wired(mistake)
    assert told in problem
    assert wired(mistake, "hat") == []


def test_channels_of_one_set_are_equally_wide_and_normed_one_by_one():
    factory = METHODS["ccgn"].layer_factory("he", METHODS["ccgn"].Options())
    backbone = Wired(SHAPE, factory, None)
    wide = backbone._modules["wide"] = factory.conv(3, 9, 1)
    backbone.channels[0].writers.append(wide)
    backbone.channels[1].norms += [factory.norm(8), factory.norm(8)]
    told = " ".join(channel_problems(backbone))
    assert "`channels[0]` must have writers of one width" in told
    assert "`channels[1]` must have a norm for each writer" in told
