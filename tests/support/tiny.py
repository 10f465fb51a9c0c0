"""``lockgate.testing``'s tiny experiments for Lockgate's own methods, and other tiny worlds."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from lockgate.config import DataConfig, Experiment, ModelConfig, merge
from lockgate.methods.base import Method
from lockgate.runs.build import build_learner, build_scenario, validated
from lockgate.scenario import Scenario
from lockgate.testing import tiny_experiment

BACKBONES = ("simple_cnn", "resnet18", "mlp")
GATED = ("ccgn", "ccgn-episodic", "ccgn-generative")
CLOSED_FORM = ("ncm", "slda", "slda-ridge", "slda-bilinear", "ranpac")
"""Methods that learn without steps."""
AUDITED = (*GATED, "hat", *CLOSED_FORM)
"""Methods that promise that past answers never change."""

# Half of the gates start shut, so that one epoch on forty images locks some filters and leaves some free.
_CCGN: dict[str, Any] = {"open_bias": 0.0, "sparsity_warmup": 1, "gate_lr": 2.0, "prune": 0.2, "companion": 0.5}
ANNEALING: dict[str, Any] = {"sparsity_warmup": "loss", "anneal": 0.5, "budget": 0.8, "head_start": 1.0}
"""Pruning for good, held statistics and the prices of a budget are state that must survive."""
_GAN: dict[str, Any] = {"gan": {"width": 0.02, "iterations": 3, "critic_steps": 2, "batch_size": 8, "average": 0.5}}
_OPTIONS: dict[str, dict[str, Any]] = {
    "ccgn": _CCGN,
    "ccgn-episodic": {**_CCGN, "buffer": 20},
    "ccgn-generative": {**_CCGN, **_GAN, "hidden": 10, "unasked": 0.5},
    "dgm": _GAN,
    "cgen": _GAN,
    "icarl": {"buffer": 20},
    "agem": {"buffer": 20},
    "gdumb": {"buffer": 60},
    "slda-bilinear": {"channels": 4},
    "ranpac": {"projections": 40},
    "er": {"buffer": 20},
    "er-ace": {"buffer": 20},
    "der++": {"buffer": 20},
}


def experiment(method: str = "finetune", backbone: str = "simple_cnn", **over: Any) -> Experiment:
    """``lockgate.testing``'s tiny experiment, with options that are as tiny; keyword arguments are merged over it."""
    base: dict[str, Any] = {"options": _OPTIONS.get(method, {})}
    if method == "ccgn-episodic":
        base["augment"] = {"random_translate": 1, "images": "rehearsed"}
    if method == "ccgn":  # whose statistics are then taken anew of images as they are
        base["augment"] = {"random_translate": 1}
    if backbone == "resnet18-deep":
        backbone, base["model"] = "resnet18", {"width": 4, "blocks": [2, 2, 2, 2]}
    return tiny_experiment(method, backbone, **merge(base, over))


def sign(checkpoint: Path) -> None:
    """Make a checkpoint's manifest fit its files again, as somebody with bad intentions would."""
    file = checkpoint / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["self"]
    for name in manifest["files"]:
        manifest["files"][name] = hashlib.sha256((checkpoint / name).read_bytes()).hexdigest()
    manifest["self"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps(manifest, indent=1))


def world(
    method: str = "ccgn", backbone: str = "simple_cnn", width: int = 6, tasks: int = 3, **options: Any
) -> tuple[Method, Scenario]:
    """A learner that has seen nothing, and its tasks: synthetic images, a narrow network, the method's own defaults."""
    experiment = validated(
        Experiment(
            method=method,
            dataset="synthetic",
            backbone=backbone,
            tasks=tasks,
            data=DataConfig(synthetic_classes=2 * tasks, synthetic_per_class=20),
            model=ModelConfig(width=width, blocks=(1, 1)),
            options=options,
        )
    )
    scenario = build_scenario(experiment)
    torch.manual_seed(0)
    return build_learner(experiment, scenario.image_shape), scenario


@torch.no_grad()
def vary_gates(learner: Any, task: int) -> None:
    """Make the gates of a task depend on the image: some never fire, some always, some now and then."""
    for layer in learner.gated.values():
        excite = layer.gate(task).excite
        excite.weight.normal_(0, 2)
        excite.bias.copy_(torch.linspace(-4, 4, layer.width)[torch.randperm(layer.width)])
