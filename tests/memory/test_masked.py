"""DGM's generator: the supplement's network under masks, task by task, with past images that keep every bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lockgate.layers.growing import UnitMasked, WeightMasked
from lockgate.memory.gan.acgan import LABEL, NOISE
from lockgate.memory.gan.masked import ClassOutputs, MaskedGenerator
from lockgate.memory.gan.nets import Up, make_generator, plan_generator

KINDS = pytest.mark.parametrize("kind", [UnitMasked, WeightMasked])
SHAPES = pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 9, 15)], ids=str)
OPTIMISERS = {
    "sgd": lambda groups: torch.optim.SGD(groups, lr=0.01, momentum=0.9, weight_decay=0.1),
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1),
}


def make(kind, shape=(3, 32, 32), width=0.03) -> MaskedGenerator:
    torch.manual_seed(0)
    generator = MaskedGenerator(plan_generator(shape, width), kind)
    generator.add_task(2)
    return generator


def train(generator: MaskedGenerator, optimiser: torch.optim.Optimizer, steps: int = 4) -> None:
    """A few steps towards brighter images, in the engine's order."""
    task = generator.tasks - 1
    generator.train()
    for step in range(steps):
        for layer in generator.layers:
            layer.scale = 2.0**step
        y = torch.arange(6) % 2
        (-generator(torch.randn(6, NOISE), y, task).mean()).backward()
        for layer in generator.layers:
            layer.hold_gradients()
            layer.compensate(8.0)
        optimiser.step()
        optimiser.zero_grad()
        for layer in generator.layers:
            layer.restore()
            layer.bound()


def images(generator: MaskedGenerator, task: int) -> torch.Tensor:
    generator.eval()
    noise = torch.randn(5, NOISE, generator=torch.Generator().manual_seed(task))
    with torch.no_grad():
        return generator(noise, torch.tensor([0, 1, 1, 0, 1]), task)


@KINDS
@SHAPES
def test_with_open_masks_it_is_the_supplements_generator(kind, shape):
    generator = make(kind, shape)
    plain = make_generator(shape, 0.03).eval()
    *torchs, last = [m for m in plain.net if isinstance(m, (nn.Linear, nn.ConvTranspose2d))]
    norms = [m for m in plain.net if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d))]
    with torch.no_grad():
        for layer, other in zip(generator.layers, torchs, strict=True):
            layer.embeddings[0].fill_(1.0)
            weight = other.weight.transpose(0, 1)
            if isinstance(other, nn.Linear):
                weight = other.weight.reshape(layer.width, *layer.weight.shape[2:], -1).permute(0, 3, 1, 2)
            layer.weight.copy_(weight)
            layer.biases[0].copy_(other.bias.reshape(layer.biases[0].shape))
        for output in generator.outputs[0]:
            output.load_state_dict(last.state_dict())
        for ours, theirs in zip(generator.norms, norms, strict=True):
            for tensor in (theirs.running_mean, theirs.weight, theirs.bias):
                tensor.normal_()
            ours.norms[0].load_state_dict(theirs.state_dict())
    noise, y = torch.randn(5, NOISE), torch.tensor([0, 1, 1, 0, 1])
    code = torch.cat([noise, generator.labels[0].weight[y]], dim=1)
    torch.testing.assert_close(generator.eval()(noise, y, 0), plain(code))


@KINDS
def test_it_begins_with_the_supplements_1_731_203_parameters_and_one_more_output_layer(kind):
    generator = make(kind, width=1.0)
    assert generator.kept_bytes == 4 * (1_731_203 + (128 * 3 * 2 * 2 + 3) + 2 * LABEL)


def test_each_image_goes_through_the_output_layer_of_its_class():
    torch.manual_seed(0)
    outputs = ClassOutputs(3, 4, Up(2, 5, 2))
    x, y = torch.randn(6, 4, 3, 3), torch.tensor([2, 0, 2, 0, 0, 2])
    out = outputs(x, y)
    for image, label, got in zip(x, y.tolist(), out, strict=True):
        torch.testing.assert_close(got, outputs[label](image[None])[0])
    out.sum().backward()
    assert outputs[1].weight.grad.abs().sum() == 0, "none of its class, yet there is a gradient to be averaged"
    assert outputs[0].weight.grad.abs().sum() > 0


def test_a_new_output_layer_keeps_the_scale_of_its_input():
    torch.manual_seed(0)
    outputs = ClassOutputs(2, 64, Up(32, 4, 2))
    inner = outputs(torch.randn(16, 64, 12, 12), torch.arange(16) % 2)[:, :, 4:-4, 4:-4]
    assert inner.var().item() == pytest.approx(1.0, rel=0.1)  # no ReLU follows that would halve it


@KINDS
@SHAPES
@pytest.mark.parametrize("name", list(OPTIMISERS))
def test_images_and_locked_tensors_of_past_tasks_keep_every_bit_while_it_grows_and_learns(kind, shape, name):
    generator = make(kind, shape)
    made: list[torch.Tensor] = []
    kept: list[dict[str, torch.Tensor]] = []
    for task in range(3):
        if task:
            generator.grow(generator.widths_with_free())
            generator.add_task(2)
        groups = [{"params": generator.learning()}, {"params": generator.embeddings(), "weight_decay": 0.0}]
        train(generator, OPTIMISERS[name](groups))
        generator.end_task()
        made.append(images(generator, task))
        kept.append({key: value.clone() for key, value in generator.promised(task).items()})
        for past in range(task + 1):
            assert torch.equal(images(generator, past), made[past])
            now = generator.promised(past)
            assert now.keys() == kept[past].keys()
            assert all(torch.equal(value, kept[past][key]) for key, value in now.items())
    assert generator.widths(2)[0] > generator.widths(0)[0], "nothing grew: the test would prove nothing"
    assert not torch.equal(made[0], made[1])
    assert all(value.isfinite().all() for value in kept[-1].values())


@KINDS
def test_growth_keeps_as_much_free_as_there_was_at_first(kind):
    generator = make(kind)
    first = [layer.free for layer in generator.layers]
    widths = [generator.widths(0)]
    for task in range(1, 4):
        generator.end_task()
        generator.grow(generator.widths_with_free())
        generator.add_task(2)
        widths.append(generator.widths(task))
        hidden = list(zip(generator.layers, first, strict=True))
        assert all(layer.free >= wanted for layer, wanted in hidden)
        if kind is UnitMasked:
            assert all(layer.free == wanted for layer, wanted in hidden)
    assert widths == sorted(widths)
    assert [layers[0].in_channels for layers in generator.outputs] == [w[-1] for w in widths], "of their own time"
    assert generator.growth == sum(widths[-1]) / sum(widths[0]) > 1


@KINDS
def test_only_what_belongs_to_the_newest_task_learns(kind):
    generator = make(kind)
    generator.end_task()
    generator.add_task(2)
    learning = {id(p) for p in generator.learning() + generator.embeddings()}
    resting = {name for name, p in generator.named_parameters() if id(p) not in learning}
    assert resting == {name for name, p in generator.named_parameters() if not p.requires_grad}
    assert {
        "labels.0.weight",
        "_layers.0.biases.0",
        "_layers.0.embeddings.0",
        "norms.2.norms.0.bias",
        "outputs.0.1.weight",
    } <= resting
