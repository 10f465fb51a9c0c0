"""Experiment and its parts: one validated, immutable description of a run. Imports no torch.

A sentence under each field is its documentation and the help text of its flag. Validation gathers every problem and
raises once.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Any, Literal

from lockgate.settings import build, gather, leaves, merge, nested, option, read_yaml

__all__ = [
    "AugmentConfig",
    "DataConfig",
    "EvalConfig",
    "Experiment",
    "ModelConfig",
    "OptimConfig",
    "Precision",
    "RuntimeConfig",
    "ScenarioConfig",
    "build",
    "gather",
    "leaves",
    "merge",
    "nested",
    "option",
    "read_yaml",
]


@dataclass(frozen=True)
class DataConfig:
    """How image files become arrays."""

    image_size: int = option(32, "Side in pixels that `folder` and `imagenet50` images are resized to.", ge=4, le=1024)
    greyscale: bool = option(False, "Read `folder` images as one channel instead of three.")
    resize: Literal["stretch", "crop"] = option(
        "stretch", "Make a picture a square by stretching all of it, or by cutting out its middle (larger photos)."
    )
    background: int = option(255, "Grey level on which transparent pixels are laid: 0 black, 255 white.", ge=0, le=255)
    in_memory: int = option(
        4096, "MiB that images of a split may take in memory; more are decoded once, into a file that is mapped.", ge=0
    )
    wnids: tuple[str, ...] = option((), "ILSVRC class ids of `imagenet50`; empty: a seeded choice of 50.")
    class_seed: int = option(0, "Seed of that choice, and of `synthetic` images.", ge=0)
    synthetic_classes: int = option(10, "Number of classes of `synthetic`.", ge=2)
    synthetic_per_class: int = option(100, "Training images per class of `synthetic` (a fifth as many test).", ge=5)


@dataclass(frozen=True)
class ScenarioConfig:
    """How a data set becomes a sequence of tasks."""

    class_order: Literal["consecutive", "random"] | int = option(
        "consecutive",
        "Classes in their own order, shuffled by `order_seed`, or by a number as in iCaRL and PyCIL (1993).",
        ge=0,
        le=2**32 - 1,
    )
    order_seed: int = option(0, "Seed of the random class order, and of `permuted` pixels.", ge=0)
    per_class: int = option(0, "Training images of each class to use, held-out ones included; 0: all.", ge=0)
    held_out: float = option(0.1, "Share of each task's training images held out for validation.", gt=0, lt=0.9)
    kind: Literal["classes", "permuted", "rotated"] = option(
        "classes", "What a task has of its own: its classes; or, all classes shared, the order or the angle of pixels."
    )
    evaluate: Literal["test", "held_out"] = option(
        "test", "Which images accuracy is of; with held_out, to choose settings, test images are not even read."
    )


@dataclass(frozen=True)
class ModelConfig:
    """The network before any task."""

    width: int = option(
        0, "Filters of the first layer (0: the backbone's own: 100 in simple_cnn, 64 in resnet18).", ge=0
    )
    blocks: tuple[int, ...] = option(
        (), "Residual blocks per stage; empty: (2, 2, 2, 2). The paper's count fits (2, 2, 2, 1)."
    )
    init: Literal["he", "torch"] = option("he", "Initialisation of convolutions: He (fan-in, ReLU) or torch's default.")
    standardise: bool = option(
        True,
        "Standardise input channels by mean and standard deviation of the first task; false: scale to [0, 1]. Weights "
        "that come with their own mean and standard deviation have those.",
    )
    private: float = option(
        0.25,
        "Of a network of one's own: the share of each layer's filters of which a task trains copies of its own.",
        ge=0,
        le=1,
    )
    private_depth: float = option(
        1.0,
        "The share of its layers, counted from the output, in which a task has filters and norms of its own; before "
        "them all is frozen.",
        ge=0,
        le=1,
    )
    gates: bool = option(False, "Gate its layers as the paper does, opening late.")
    weights: str = option(
        "",
        "A file of weights for it: safetensors or a state dict. `none`: random ones; `pretrained`, of timm: its own; "
        "empty: as the network comes.",
    )


@dataclass(frozen=True)
class OptimConfig:
    """The optimiser, one for all methods (the paper's *optim* group)."""

    optimiser: Literal["sgd", "adamw"] = option("adamw", "SGD with momentum (the paper) or AdamW (short schedules).")
    lr: float = option(3e-3, "Peak learning rate.", gt=0)
    momentum: float = option(0.9, "Momentum of SGD.", ge=0, lt=1)
    betas: tuple[float, float] = option((0.9, 0.999), "Decay rates of AdamW's two averages.", ge=0, lt=1)
    weight_decay: float = option(5e-4, "Weight decay.", ge=0)
    clip: float = option(1.0, "Largest norm of the gradient; 0 turns clipping off.", ge=0)
    batch_size: int = option(128, "Images per step, over all ranks together.", ge=1)
    schedule: Literal["constant", "milestones", "one_cycle"] = option(
        "one_cycle", "How the learning rate moves within a task."
    )
    milestones: tuple[int, ...] = option((), "Epochs after which `milestones` divides the learning rate by ten.")
    selection: Literal["objective", "accuracy", "last"] = option(
        "objective",
        "Which epoch's weights a task keeps, judged on its held-out data: least objective, best accuracy, or the last.",
    )


@dataclass(frozen=True)
class AugmentConfig:
    """How images vary each time they are learnt from; by default they do not."""

    random_translate: int = option(0, "Move each image by up to this many pixels each way.", ge=0)
    random_affine: float = option(
        0.0, "Turn, stretch and shear each image by up to this share; 0.15: 9 degrees, 15 %.", ge=0, lt=1
    )
    random_crop: float = option(
        0.0,
        "Cut out a part of each image, at most this share less of its area and of proportions 3:4 to 4:3, and enlarge "
        "it again; 0.92 on ImageNet, 0.5 for few photos.",
        ge=0,
        lt=1,
    )
    random_flip: bool = option(False, "Mirror images left to right, half of the time.")
    brightness: float = option(0.0, "Make images darker or brighter by up to this share.", ge=0, lt=1)
    contrast: float = option(0.0, "Change contrast by up to this share.", ge=0, lt=1)
    saturation: float = option(0.0, "Change how strong colours are by up to this share; 1: down to grey.", ge=0, le=1)
    colour_images: Literal["all", "rehearsed"] = option(
        "all", "Which images vary in these three: those that vary, or of them only those that are rehearsed."
    )
    images: Literal["all", "rehearsed"] = option(
        "all", "Which images vary: all, or only those that a task classifier is rehearsed on."
    )

    @property
    def active(self) -> bool:
        """Whether anything varies."""
        moves = self.random_translate or self.random_affine or self.random_crop or self.random_flip
        return bool(moves or self.photometric)

    @property
    def photometric(self) -> bool:
        """Whether brightness or colours vary."""
        return bool(self.brightness or self.contrast or self.saturation)

    def of_task(self) -> AugmentConfig:
        """How a task's own images vary."""
        if self.images == "rehearsed":
            return AugmentConfig()
        if self.colour_images == "rehearsed":
            return dataclasses.replace(self, brightness=0.0, contrast=0.0, saturation=0.0)
        return self


@dataclass(frozen=True)
class EvalConfig:
    """How long testing may take."""

    images: int = option(0, "Test images of each task to use, the classes in turn; 0: all.", ge=0)


Precision = Literal["32-true", "bf16-mixed", "16-mixed"]
"""Of training, as Lightning Fabric calls them; the first is the default."""


@dataclass(frozen=True)
class RuntimeConfig:
    """Where and how the run executes; nothing here changes what is learnt, up to rounding."""

    accelerator: str = option("auto", "Device type Lightning Fabric should use: auto, cpu, cuda, mps.")
    precision: Precision = option("32-true", "Precision of training; gates always decide in fp32.")
    threads: int = option(0, "CPU threads of torch (0: as torch chooses).", ge=0)
    checkpoint_seconds: float = option(
        60.0, "Longest time between two checkpoints inside an epoch (0: after every step).", ge=0
    )
    tune_allocator: bool = option(
        True, "On CPU, keep large blocks mapped between steps (glibc mallopt); measured faster."
    )
    loggers: tuple[str, ...] = option(
        (), "Where records also go: tensorboard, trackio, wandb, or package.module:Class of a lockgate.Callback."
    )
    feature_cache: str | None = option(
        None,
        "Folder in which to keep what the frozen beginning of a network of one's own makes of each training image, so "
        "that it is computed once; where `model.private_depth` leaves one, and images do not vary.",
    )
    channels_last: bool = option(True, "Store images and filters channels-last; measured faster on CPU.")


@dataclass(frozen=True)
class Experiment:
    """Everything that decides what a run computes."""

    method: str = option("ccgn", "Learning method; `lockgate list methods` shows all; or package.module:Class.")
    dataset: str = option("digits", "Data set; `lockgate list datasets` shows all; or package.module:function.")
    backbone: str = option(
        "simple_cnn",
        "Network; `lockgate list backbones` shows all; or package.module:Class, timm:NAME, transformers:NAME.",
    )
    tasks: int = option(5, "Number of tasks the classes are split into.", ge=1)
    epochs: int = option(5, "Epochs per task.", ge=1)
    seed: int = option(0, "Seed of everything random in the run.", ge=0)
    devices: int = option(1, "Data-parallel ranks.", ge=1)
    data_dir: str | None = option(None, "Folder that holds the data sets (else LOCKGATE_DATA, else they are fetched).")
    data: DataConfig = field(default_factory=DataConfig)
    scenario: ScenarioConfig = field(default_factory=ScenarioConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the method, e.g. ``sparsity``; each method documents its own."""

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionaries and lists, fit for YAML or JSON."""
        return typing.cast(dict[str, Any], _plain(dataclasses.asdict(self)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value
