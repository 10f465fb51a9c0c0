"""Multiply-accumulates: the paper's numbers, torch's own counter, and a loop over images and channels."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lockgate.backbones import BACKBONES
from lockgate.config import ModelConfig
from lockgate.evaluation.macs import layer_macs, macs_by_stage, stage_macs, task_macs
from lockgate.methods.base import Context
from lockgate.methods.ccgn.method import CCGN, CCGNOptions
from lockgate.methods.finetune import Finetune


def plain(name, shape, **config):
    backbone = BACKBONES[name](shape, Finetune.layer_factory("torch", None), ModelConfig(**config))
    learner = Finetune(Context(backbone, None, shape, False))
    learner.add_task(2)
    return learner


def images(count, shape):
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8)


def test_simple_cnn_on_28x28_true_and_in_the_papers_counting():
    macs = task_macs(plain("simple_cnn", (1, 28, 28)), images(2, (1, 28, 28)), 0)
    assert macs["dense"] == macs["open"] == 22_755_600
    assert macs["dense_paper"] == macs["open_paper"] == 926_100
    assert macs["gates"] == 0


@pytest.mark.parametrize(
    ("blocks", "macs"),
    [
        ((), 555_417_600),
        ((2, 2, 2, 2), 555_417_600),
        ((2, 2, 2, 1), 479_920_128),
        ((2, 2, 1, 2), 479_920_128),
        ((2, 1, 2, 2), 479_920_128),
        ((1, 2, 2, 2), 479_920_128),
    ],
)
def test_resnet_18_on_32x32_and_the_papers_count(blocks, macs):
    # A plain basic block costs 2 * 9 * c * c * h * w = 75,497,472 in every stage, so which one is left out is open.
    assert task_macs(plain("resnet18", (3, 32, 32), blocks=blocks), images(1, (3, 32, 32)), 0)["dense"] == macs


def test_a_gated_network_with_all_gates_open_costs_the_dense_one_and_its_gates():
    options = CCGNOptions(open_bias=100.0)
    backbone = BACKBONES["simple_cnn"]((1, 28, 28), CCGN.layer_factory("he", options), ModelConfig())
    learner = CCGN(Context(backbone, options, (1, 28, 28), False))
    learner.add_task(2)
    macs = task_macs(learner, images(2, (1, 28, 28)), 0)
    assert macs["dense"] == macs["open"] == 22_755_600
    assert macs["dense_paper"] == macs["open_paper"] == 926_100
    assert macs["gates"] == 16 * (1 + 100) + 2 * 16 * (100 + 100)


@pytest.mark.parametrize(
    ("name", "shape", "config"),
    [
        ("simple_cnn", (1, 8, 8), {"width": 7}),
        ("simple_cnn", (3, 30, 18), {"width": 5}),
        ("resnet18", (3, 32, 32), {"width": 4}),
        ("resnet18", (1, 28, 28), {"width": 3, "blocks": (1, 2)}),
        ("resnet18", (3, 9, 11), {"width": 3}),
        ("mlp", (3, 5, 4), {"width": 9}),
    ],
)
def test_dense_counts_are_half_of_torchs_flops(name, shape, config):
    learner = plain(name, shape, **config)
    x = images(3, shape)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        learner.backbone(learner.input(x), 0)
    assert counter.get_total_flops() == 2 * sum(layer.dense for layer in layer_macs(learner, x, 0))


def output_side(layer, side):
    """From torch itself, not from the formula."""
    conv = nn.Conv2d(1, 1, layer.kernel_size, layer.stride, layer.padding, device="meta")
    return conv(torch.empty(1, 1, side, side, device="meta")).shape[-1]


@pytest.mark.parametrize("backbone", ["simple_cnn", "resnet18", "mlp"])
@pytest.mark.parametrize("seal", [True, False])
def test_gated_counts_are_a_sum_over_images_and_open_pairs_of_channels(learnt, backbone, seal):
    learner, scenario = learnt(backbone=backbone, width=5, seal=seal)
    x = scenario.tasks[1].test.x[:4]
    layers = learner.backbone.layers
    truth = {name: [0, 0, 0] for name in layers}  # open, open in the paper's counting, gates
    for image in x:
        inputs = {}
        hooks = [
            layer.register_forward_hook(lambda _, args, __, name=name, seen=inputs: seen.__setitem__(name, args[0]))
            for name, layer in layers.items()
        ]
        with torch.no_grad():
            gates = learner.backbone(learner.input(image[None]), 1).gates
        for hook in hooks:
            hook.remove()
        for i, (name, layer) in enumerate(layers.items()):
            source = learner.backbone.sources[i]
            given = [1.0] * inputs[name].shape[1] if source is None else gates[source][0].tolist()
            pixels = 1
            if inputs[name].dim() == 4:
                pixels = output_side(layer, inputs[name].shape[-1]) ** 2 * layer.kernel_size**2
            for o in gates[i][0].tolist():
                truth[name][1] += pixels if o else 0
                for c in given:
                    truth[name][0] += pixels if o and c else 0
            # the gate network: 16 hidden units read the open inputs; outputs that are sealed shut need not be computed
            truth[name][2] += 16 * sum(given) + 16 * sum(layer.gate(1).seal.tolist())
    counted = {m.name: [m.open, m.open_paper, m.gates] for m in layer_macs(learner, x, 1)}
    assert counted == truth
    assert 0 < sum(t[0] for t in truth.values()) < sum(m.dense for m in layer_macs(learner, x, 1))


def test_task_counts_are_means_over_all_images_however_they_are_batched(learnt):
    learner, _ = learnt(backbone="mlp", width=5)
    x = images(515, (3, 16, 16))
    whole = task_macs(learner, x, 0)
    sums = [0.0, 0.0, 0.0]
    for part in torch.split(x, 103):
        for layer in layer_macs(learner, part, 0):
            sums = [sums[0] + layer.open, sums[1] + layer.open_paper, sums[2] + layer.gates]
    assert [whole["open"], whole["open_paper"], whole["gates"]] == pytest.approx([s / 515 for s in sums])


def test_counts_of_wide_layers_are_exact():
    macs = task_macs(plain("mlp", (1, 1, 1), width=1021), images(509, (1, 1, 1)), 0)
    assert macs["open"] == macs["dense"] == 1021 + 1021 * 1021


def test_a_stage_averages_over_the_test_images_of_all_tasks(learnt):
    learner, scenario = learnt()
    by_task = [task_macs(learner, task.test.x, task.id) for task in scenario.tasks]
    sizes = [len(task.test) for task in scenario.tasks]
    stage = stage_macs(learner, scenario.tasks)
    true = sum((m["open"] + m["gates"]) * n for m, n in zip(by_task, sizes, strict=True)) / sum(sizes)
    paper = sum(m["open_paper"] * n for m, n in zip(by_task, sizes, strict=True)) / sum(sizes)
    assert stage["by_task"] == by_task
    assert stage["mean"] == pytest.approx(true)
    assert stage["mean_paper"] == pytest.approx(paper)
    assert stage["dense"] == by_task[0]["dense"]


def test_nothing_is_reported_where_nothing_is_gated(learnt):
    learner, scenario = learnt("finetune")
    assert stage_macs(learner, scenario.tasks) is None


def test_counting_leaves_no_hook_behind(learnt):
    """Torch lists a module's hooks nowhere else than in its private ``_forward_hooks``."""
    learner, scenario = learnt()
    layer_macs(learner, scenario.tasks[0].test.x[:2], 0)
    assert not any(layer._forward_hooks for layer in learner.backbone.layers.values())


@pytest.mark.parametrize("readout", ["ridge", "mlp"])
def test_of_one_task_the_classifier_costs_something_and_the_read_out_nothing(readout):
    learner, scenario = tiny.world("ccgn-episodic", tasks=1, buffer=10, readout=readout)
    learner.begin_task(scenario.tasks[0])
    learner.end_task(scenario.tasks[0])
    found = macs_by_stage(learner, scenario.tasks)
    finder = found["class_incremental"][0] - found["task_incremental"][0]
    assert finder == 64 * (learner.backbone.features + 1)
