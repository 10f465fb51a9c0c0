"""The two presets, `short` and `paper`, for every method and data set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lockgate.config import Experiment, ModelConfig, OptimConfig
from lockgate.data import DATASETS
from lockgate.errors import ConfigError

CLASS_INCREMENTAL = ("ccgn-episodic", "ccgn-generative")
GATED = ("ccgn", *CLASS_INCREMENTAL)
GENERATIVE = ("ccgn-generative", "dgm", "cgen")
REPLAY = ("full-replay", "icarl", "agem")
"""Baselines that see real images of past tasks again."""
REHEARSING = ("full-replay", "icarl")
"""Those that learn from them. A-GEM only compares gradients: of images as they are, here as there."""

_OWN = ("ours", "streams", "options", "generative", "cgen")
"""Keys of a row of presets that are for some methods only; under "options", by method."""

_SGD: dict[str, Any] = {"optimiser": "sgd", "momentum": 0.9, "weight_decay": 5e-4, "clip": 1.0}

# The supplement's generators: 200,000 iterations of five critic steps and one of the generator. For GPUs.
_PAPER_GAN: dict[str, Any] = {
    "gan_width": 1.0,
    "gan_iterations": 200_000,
    "gan_critic_steps": 5,
    "gan_penalty_every": 1,
    "gan_batch_size": 64,
    "gan_lr": 1e-4,
}

_PAPER: dict[str, dict[str, Any]] = {
    # The hyperparameter table of the supplement. "-" for lr decay is a constant learning rate.
    "mnist": {
        "backbone": "simple_cnn",
        "epochs": 400,
        "optim": OptimConfig(**_SGD, batch_size=256, lr=0.01, schedule="constant"),
        "ours": {"sparsity": 0.5, "patience": 20},
    },
    "svhn": {
        "backbone": "simple_cnn",
        "epochs": 800,
        "optim": OptimConfig(**_SGD, batch_size=256, lr=0.01, schedule="milestones", milestones=(400, 600)),
        "ours": {"sparsity": 0.5, "patience": 20},
    },
    "cifar10": {
        "backbone": "resnet18",
        "epochs": 200,
        "optim": OptimConfig(**_SGD, batch_size=64, lr=0.1, schedule="milestones", milestones=(100, 150)),
        "ours": {"sparsity": 1.0, "patience": 10},
    },
    "imagenet50": {
        "backbone": "resnet18",
        "epochs": 200,
        "optim": OptimConfig(**_SGD, batch_size=64, lr=0.1, schedule="milestones", milestones=(100, 150)),
        "ours": {"sparsity": 1.0, "patience": 0},
    },
}

_RESNET: dict[str, Any] = {
    "backbone": "resnet18",
    "model": ModelConfig(width=16),
    "optim": OptimConfig(batch_size=64),
    "ours": {"gate_lr": 5.0, "anneal": 0.3},
}

_SHORT: dict[str, dict[str, Any]] = {
    # AdamW and one-cycle reach in a few epochs what SGD needs hundreds for; narrow ResNets fit two cores.
    "digits": {
        "epochs": 20,
        "optim": OptimConfig(batch_size=16),
        "ours": {"patience": 4, "gate_lr": 10.0},
        "streams": {"anneal": 0.5},
    },
    "mnist": {
        "epochs": 8,
        "optim": OptimConfig(batch_size=64),
        "ours": {"sparsity": 0.7, "patience": 3, "anneal": 0.3},
        "streams": {
            "sparsity": 1.0,
            "patience": 1,
            "gate_lr": 5.0,
            "anneal": 0.5,
            "rehearsal": 32,
            "random_translate": 2,
            "random_affine": 0.15,
        },
        "options": {
            # The paper's sparsity: more filters, more to tell tasks apart by.
            "ccgn-episodic": {"targets": "class", "sparsity": 0.5, "hidden": 256, "refit": 2000},
            "ccgn-generative": {"gan_iterations": 3000, "gan_average": 0.05},
        },
        "cgen": {"epochs": 4},  # its network computes all filters, and its images
    },
    "svhn": {
        "epochs": 10,
        "optim": OptimConfig(batch_size=64),
        "ours": {"sparsity": 0.5, "patience": 3, "anneal": 0.45},
        "streams": {
            "sparsity": 0.7,
            "patience": 1,
            "earned": True,
            "gate_lr": 5.0,
            "rehearsal": 32,
            "random_translate": 2,
            "random_affine": 0.1,
        },
        "options": {"ccgn-episodic": {"targets": "class"}, "ewc-online": {"strength": 0.1}},
        "generative": {"epochs": 3},  # the generators take their time too
    },
    "cifar10": {
        **_RESNET,
        "epochs": 16,
        "optim": OptimConfig(batch_size=64, random_translate=2, flip=True),
        # Twenty layers of noise: gates start wide open, or nothing is learnt before sparsity sets in. A network this
        # narrow fills up after two tasks, so it grows.
        "ours": {"sparsity": 0.8, "patience": 7, "gate_lr": 5.0, "anneal": 0.35, "open_bias": 2.5, "grow": 0.35},
    },
    "imagenet50": {"epochs": 10, **_RESNET},
    # Folders can be small: a few steps do not close gates, so layers grow instead of running out. They can also be
    # hard: gates must not close before something is learnt.
    "folder": {
        "epochs": 20,
        "optim": OptimConfig(batch_size=16),
        "ours": {"patience": 4, "earned": True, "gate_lr": 10.0, "anneal": 0.4, "grow": 0.3},
    },
    "synthetic": {"epochs": 4, "optim": OptimConfig(batch_size=32)},
}


def paper(method: str, dataset: str) -> Experiment:
    """The paper's schedule for one of its four data sets. Gates learn at the network's rate."""
    DATASETS.require(dataset)
    if dataset not in _PAPER:
        raise ConfigError([f"The paper has no schedule for {dataset!r}; it has for {', '.join(_PAPER)}. Use `short`."])
    return _experiment(method, dataset, _PAPER[dataset], {"gate_lr": 1.0}, _PAPER_GAN)


def short(method: str, dataset: str) -> Experiment:
    """A schedule of a few epochs a task: gates learn several times faster than the network, or they would not close."""
    DATASETS.require(dataset)
    experiment = _experiment(method, dataset, _SHORT.get(dataset, _SHORT["folder"]), {"prune": 1e-3}, {})
    if method == "hat":  # as gates do, masks learn faster than the network, or they would not close
        experiment = replace(experiment, options={"embedding_lr": 5.0})
    return _keeping_last(experiment) if method in (*CLASS_INCREMENTAL, *REPLAY, "cgen") else experiment


def _experiment(
    method: str, dataset: str, row: dict[str, Any], gates: dict[str, Any], generators: dict[str, Any]
) -> Experiment:
    options = {**gates, **row.get("ours", {})} if method in GATED else {}
    common = {key: value for key, value in row.items() if key not in _OWN}
    if method in CLASS_INCREMENTAL:
        options |= row.get("streams", {})
    options |= row.get("options", {}).get(method, {})
    if method in GENERATIVE:
        options |= generators
        common |= row.get("generative", {})
    if method == "cgen":
        common |= row.get("cgen", {})
    experiment = Experiment(method=method, dataset=dataset, options=options, **common)
    if method in REHEARSING:  # images vary as those of ours do
        varied = {
            key: value for key, value in row.get("streams", {}).items() if key in ("random_translate", "random_affine")
        }
        experiment = replace(experiment, optim=replace(experiment.optim, **varied))
    return experiment


def _keeping_last(experiment: Experiment) -> Experiment:
    """Held-out data are of the current task only; by them, a method with a memory is judged by what it learnt last."""
    return replace(experiment, optim=replace(experiment.optim, selection="last"))
