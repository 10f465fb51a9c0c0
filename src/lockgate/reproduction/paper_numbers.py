"""Every number that the paper publishes, as data, under the table or figure it comes from.

Abati, Tomczak, Blankevoort, Calderara, Cucchiara, Bejnordi: *Conditional Channel Gated Networks for Task-Aware
Continual Learning*, CVPR 2020. Accuracies are final, on all tasks; rows bear the paper's names.
"""

from __future__ import annotations

from dataclasses import dataclass

BUFFERS = (500, 1000, 1500, 2000)
"""Capacities C of the episodic memory."""


@dataclass(frozen=True)
class Mean:
    """A mean over runs, and its standard deviation."""

    value: float
    std: float


@dataclass(frozen=True)
class Budget:
    """An accuracy, and the memory in MiB that it was bought with."""

    accuracy: float
    mebibytes: float


TASK_INCREMENTAL: dict[str, dict[str, tuple[float, ...]]] = {
    # Table 1: accuracy on T1 .. T5, the task given, and their average.
    "mnist": {
        "Joint (UB)": (0.999, 0.999, 0.999, 1.000, 0.995, 0.999),
        "EWC-On": (0.971, 0.994, 0.934, 0.982, 0.932, 0.963),
        "LwF": (0.998, 0.979, 0.997, 0.999, 0.985, 0.992),
        "HAT": (0.999, 0.996, 0.999, 0.998, 0.990, 0.997),
        "ours": (1.000, 0.994, 1.000, 0.999, 0.993, 0.997),
    },
    "svhn": {
        "Joint (UB)": (0.983, 0.972, 0.982, 0.983, 0.941, 0.972),
        "EWC-On": (0.906, 0.966, 0.967, 0.965, 0.889, 0.938),
        "LwF": (0.974, 0.928, 0.863, 0.832, 0.513, 0.822),
        "HAT": (0.971, 0.967, 0.970, 0.976, 0.924, 0.962),
        "ours": (0.978, 0.972, 0.983, 0.988, 0.946, 0.974),
    },
    "cifar10": {
        "Joint (UB)": (0.996, 0.964, 0.979, 0.995, 0.983, 0.983),
        "EWC-On": (0.758, 0.804, 0.803, 0.952, 0.960, 0.855),
        "LwF": (0.948, 0.873, 0.671, 0.505, 0.514, 0.702),
        "HAT": (0.988, 0.911, 0.953, 0.985, 0.977, 0.963),
        "ours": (0.994, 0.917, 0.950, 0.983, 0.978, 0.964),
    },
}

EPISODIC: dict[str, dict[str, tuple[float, ...]]] = {
    # Figure 4, and the supplement's table of its numbers: accuracy without the task, for each of BUFFERS.
    "mnist": {
        "Full replay": (0.9861, 0.9861, 0.9861, 0.9861),
        "A-GEM": (0.1567, 0.1892, 0.1937, 0.2115),
        "iCaRL-rand": (0.8493, 0.8455, 0.8716, 0.8728),
        "iCaRL-mean": (0.8140, 0.8443, 0.8433, 0.8426),
        "ours": (0.9401, 0.9594, 0.9608, 0.9594),
    },
    "svhn": {
        "Full replay": (0.9081, 0.9081, 0.9081, 0.9081),
        "A-GEM": (0.5680, 0.5411, 0.5933, 0.5704),
        "iCaRL-rand": (0.4972, 0.5492, 0.4788, 0.5484),
        "iCaRL-mean": (0.5626, 0.5469, 0.5252, 0.5511),
        "ours": (0.6745, 0.7399, 0.7673, 0.8102),
    },
}

GENERATIVE: dict[str, dict[str, float]] = {
    # Table 2: accuracy without the task, rehearsed from generated images.
    "mnist": {"DGMw": 0.9646, "DGMa": 0.9792, "ours": 0.9727},
    "svhn": {"DGMw": 0.7438, "DGMa": 0.6689, "ours": 0.8341},
    "cifar10": {"DGMw": 0.5621, "DGMa": 0.5175, "ours": 0.7006},
    "imagenet50": {"DGMw": 0.1782, "DGMa": 0.1516, "ours": 0.3524},
}

BUDGET: dict[str, dict[str, Budget]] = {
    # Figure 5, and the supplement's table of its numbers. "MB" there are MiB: 500 x 3072 bytes are 1.46.
    "svhn": {
        "Em1": Budget(0.6745, 1.46),
        "Em2": Budget(0.7399, 2.93),
        "Em3": Budget(0.7673, 4.39),
        "Em4": Budget(0.8102, 5.86),
        "Em5": Budget(0.8600, 32.22),
        "DGM": Budget(0.7438, 15.82),
        "Gm1": Budget(0.8341, 33.00),
    },
    "cifar10": {
        "Em1": Budget(0.6991, 1.46),
        "Em2": Budget(0.7540, 2.93),
        "Em3": Budget(0.7573, 4.39),
        "Em4": Budget(0.7746, 5.86),
        "Em5": Budget(0.8132, 32.22),
        "Gm1": Budget(0.7006, 33.00),
    },
}

MACS: dict[str, dict[str, tuple[float, ...]]] = {
    # Table 3: millions of multiply-accumulates an image, mean over the tasks up to T1 .. T5. SimpleCNN's counts leave
    # out the number of input channels, ResNet-18's do not.
    "mnist": {
        "HAT, task given": (0.151, 0.168, 0.194, 0.221, 0.240),
        "ours, task given": (0.064, 0.101, 0.137, 0.136, 0.142),
        "ours, no task given": (0.064, 0.209, 0.428, 0.559, 0.725),
    },
    "cifar10": {
        "HAT, task given": (31.937, 32.234, 36.328, 38.040, 39.835),
        "ours, task given": (2.650, 4.628, 5.028, 5.181, 5.005),
        "ours, no task given": (2.650, 9.199, 15.024, 20.680, 24.927),
    },
}

DENSE_MACS: dict[str, float] = {"mnist": 0.926, "cifar10": 479.920}
"""Of the backbones, in millions, from the same table."""

CONDITIONAL: dict[str, dict[str, float]] = {
    # Supplement: generators of classes against generators of tasks.
    "svhn": {"C-Gen": 0.7847, "ours": 0.8341},
    "cifar10": {"C-Gen": 0.6384, "ours": 0.7006},
}

CONFIDENCE: dict[str, dict[str, Mean]] = {
    # Supplement: task-incremental accuracy over five runs.
    "mnist": {"HAT": Mean(0.997, 4.00e-4), "ours": Mean(0.998, 4.89e-4)},
    "svhn": {"HAT": Mean(0.964, 1.72e-3), "ours": Mean(0.974, 4.00e-4)},
    "cifar10": {"HAT": Mean(0.964, 1.20e-3), "ours": Mean(0.966, 1.67e-3)},
}
