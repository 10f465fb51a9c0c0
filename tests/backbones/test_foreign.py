"""What a network becomes, what of it a task owns, and what is refused by name."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tests.support.networks import HAND_WRITTEN, Concatenated, Functional, Loose, Plain, Shared
from torch import nn

from lockgate.backbones.foreign import gate
from lockgate.backbones.preprocessing import Preprocessing
from lockgate.errors import ConfigError
from lockgate.layers.passes import running
from lockgate.layers.slots import SlotMap

X = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def logits_of(module):
    with torch.no_grad():
        return module.eval()(X)


@pytest.mark.parametrize("kind", HAND_WRITTEN.values(), ids=HAND_WRITTEN)
def test_a_stream_starts_as_the_network_was_given(kind):
    module = kind().eval()
    module(X)  # lazy layers
    given = copy.deepcopy(module)
    backbone = gate(module, X)
    backbone.add_task()
    backbone.eval()
    wanted = []
    head = given.get_submodule(backbone.found.head) if backbone.found.head else None
    if head is not None:
        head.register_forward_hook(lambda _, args, out: wanted.append(args[0]))
    out = logits_of(given)
    features = wanted[-1] if wanted else out.mean((2, 3))
    with torch.no_grad():
        torch.testing.assert_close(backbone(X, 0).features, features, rtol=0, atol=1e-6)


def test_modules_keep_their_class_their_attributes_and_their_names():
    module = Concatenated()
    names = set(module.state_dict())
    gate(module, X).add_task()
    assert isinstance(module.stem, nn.Conv2d)
    assert isinstance(module.batch_norm, nn.BatchNorm2d)
    assert (module.grouped.stride, module.grouped.groups, module.stem.out_channels) == ((2, 2), 4, 8)
    assert names - set(module.state_dict()) == {"out.weight", "out.bias"}  # of the head


def test_private_rows_are_copies_of_a_share_of_the_filters():
    module = Concatenated()
    backbone = gate(module, X, private=0.3)
    backbone.add_task()
    rows = module.stem.own[0]
    assert rows.weight.shape == (3, 3, 3, 3)  # ceil of 0.3 * 8
    assert torch.equal(rows.weight, module.stem._parameters["weight"][rows.index])
    with torch.no_grad():
        rows.weight.add_(1)
    others = torch.tensor([i for i in range(8) if i not in rows.index])
    with running(0):
        mixed = module.stem.weight
    assert torch.equal(mixed[rows.index], rows.weight)
    assert torch.equal(mixed[others], module.stem.weight[others])  # outside of a stream: as given


def test_before_the_depth_all_is_frozen():
    backbone = gate(Concatenated(), X, depth=0.34)  # two of six maps
    backbone.add_task()
    assert [slot.name for slot in backbone.slots] == ["grouped", "batch_norm", "depthwise"]
    assert not gate(Concatenated(), X, depth=0.0).slots


def test_only_the_newest_task_trains_and_nothing_given_does():
    module = Plain()
    backbone = gate(module, X)
    for _ in range(2):
        backbone.add_task()
    backbone.train()
    learning = {name for name, p in backbone.named_parameters() if p.requires_grad}
    assert learning
    assert all(".own.1." in name for name in learning)
    assert not module.fc[3].training  # dropout


@pytest.mark.parametrize("momentum", [0.001, 0.99, None])
def test_norms_of_a_task_follow_its_images_whatever_rate_the_network_says(momentum):
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=momentum), nn.ReLU(), nn.Conv2d(4, 4, 3))
    module(X)
    backbone = gate(module, X)
    backbone.add_task()
    backbone.train()
    bright = [X + 5 + 0.1 * number for number in range(50)]
    for x in bright:
        backbone(x, 0)
    norm = module[1].own[0]
    batches = [module[0](x).detach().mean((0, 2, 3)) for x in bright]
    wanted = torch.zeros(4)
    for mean in batches:
        wanted = 0.9 * wanted + 0.1 * mean
    torch.testing.assert_close(norm.running_mean, wanted, rtol=0.02, atol=0.02)
    assert module[1].momentum == momentum, "what was given is as it was"


def test_a_weight_that_is_used_without_calling_its_layer_stays_as_given():
    backbone = gate(Functional(), X)
    assert "a" not in [slot.name for slot in backbone.slots]


def test_what_is_shared_or_tied_gets_tensors_of_its_own_and_computes_the_same(tmp_path):
    module = Shared()
    before = logits_of(copy.deepcopy(module))
    backbone = gate(module, X, head="")
    assert torch.equal(before, logits_of(module))
    backbone.add_task()
    save_file(backbone.state_dict(), tmp_path / "state.safetensors")  # refuses tensors that share memory


def test_gates_shut_channels_whatever_is_in_them():
    module = Concatenated()
    backbone = gate(module, X, gates=True)
    backbone.add_task()
    backbone.eval()
    gates = backbone(X, 0).gates
    assert [gate.shape[1] for gate in gates] == [8, 8, 8, 8, 24]
    assert all(bool((gate == 1).all()) for gate in gates), "gates open late: bias 4"
    stem = module.stem
    stem.seal(torch.arange(8) > 0, 0)
    with torch.no_grad():
        stem._parameters["weight"][0] = torch.inf
        stem.own[0].weight[stem.own[0].index == 0] = torch.inf
        stem.gate(0).squeeze.weight.zero_()
        assert backbone(X, 0).features.isfinite().all()


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += len(x)
        return self.conv(x)


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Conv2d(3, 4, 3)]

    def forward(self, x):
        return self.layers[0](x)


class Attribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.scale = nn.Conv2d(3, 4, 3), torch.ones(4, 1, 1)

    def forward(self, x):
        return self.conv(x) * self.scale


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return F.dropout(self.conv(x))


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        h = self.conv(x)
        return h - h.mean(0, keepdim=True)


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self._last = nn.Conv2d(3, 4, 3), None

    def forward(self, x):
        h = self.conv(x)
        last, self._last = self._last, h
        return h if last is None else h + last


def batch_statistics():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Counting, "'seen' is changed by a pass"),
        (Listed, "'layers' holds layers in a plain list"),
        (Attribute, "'scale' is a tensor outside of the state"),
        (Dropped, "answers differently to the same images"),
        (Remembering, "answers differently to the same images"),
        (Mixing, "lets images of a batch see each other"),
        (batch_statistics, "'1' normalises by the other images of a batch"),
    ],
)
def test_what_could_change_past_answers_is_refused_by_name(kind, told):
    with pytest.raises(ConfigError, match="cannot keep past answers") as caught:
        gate(kind(), X)
    assert told in str(caught.value)


def test_a_network_without_a_head_gives_features_and_one_that_is_named_is_left_out():
    assert gate(Loose(), X).features == 12
    backbone = gate(Plain(), X, head="fc.1")
    assert backbone.features == 8 * 6 * 6
    with pytest.raises(ConfigError, match="no linear map 'nonsense'"):
        gate(Plain(), X, head="nonsense")


def test_wrong_arguments_are_told_all_at_once():
    with pytest.raises(ConfigError) as caught:
        gate(Plain(), X[:1], private=2.0)
    assert len(caught.value.problems) == 2


def test_preprocessing_goes_with_the_weights():
    from lockgate import make_method

    module = Concatenated()
    module.preprocessing = Preprocessing(16, (0.5, 0.4, 0.3), (0.2, 0.2, 0.1))
    method = make_method("ccgn", (3, 16, 16), network=module)
    assert method.input.mean.flatten().tolist() == pytest.approx([0.5, 0.4, 0.3])
    assert method.input.std.flatten().tolist() == pytest.approx([0.2, 0.2, 0.1])
    assert not method.standardise  # the first task's are not taken


def test_every_slot_of_a_map_is_a_map():
    backbone = gate(Shared(), X)
    assert {slot.name for slot in backbone.slots if isinstance(slot, SlotMap)} == set(backbone.found.maps)


class Packed(nn.Module):
    """Returns its features among other things, as many networks do."""

    def __init__(self, pack):
        super().__init__()
        self.inner, self.pack = Plain(), pack

    def forward(self, x):
        return self.pack(self.inner(x))


@pytest.mark.parametrize("pack", [lambda f: (f, None), lambda f: [f], lambda f: {"features": f, "more": f * 2}])
def test_the_first_of_several_outputs_is_what_a_network_gives(pack):
    bare, packed = gate(Packed(lambda f: f), X), gate(Packed(pack), X)
    packed.load_state_dict(bare.state_dict())
    for backbone in (bare, packed):
        backbone.add_task()
    with torch.no_grad():
        assert torch.equal(packed.eval()(X, 0).features, bare.eval()(X, 0).features)


@pytest.mark.parametrize("pack", [lambda f: (), lambda f: f.argmax(1), lambda f: "text"])
def test_an_output_without_features_is_refused(pack):
    with pytest.raises(ConfigError):
        gate(Packed(pack), X)
