"""Experiment and its parts: one validated, immutable description of a run. Imports no torch.

A sentence under each field is its documentation and the help text of its flag. Validation gathers every problem and
raises once.
"""

from __future__ import annotations

import dataclasses
import operator
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from lockgate.errors import ConfigError
from lockgate.registry import near_matches

C = TypeVar("C")


def option(default: Any, help: str, **bounds: float) -> Any:
    """A config field: its default, one sentence of help, and bounds ``ge``, ``gt``, ``le``, ``lt``."""
    metadata = {"help": help, "bounds": bounds}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class DataConfig:
    """How image files become arrays."""

    image_size: int = option(32, "Side in pixels that `folder` and `imagenet50` images are resized to.", ge=4)
    greyscale: bool = option(False, "Read `folder` images as one channel instead of three.")
    wnids: tuple[str, ...] = option((), "ILSVRC class ids of `imagenet50`; empty: a seeded choice of 50.")
    class_seed: int = option(0, "Seed of that choice, and of `synthetic` images.", ge=0)
    synthetic_classes: int = option(10, "Number of classes of `synthetic`.", ge=2)
    synthetic_per_class: int = option(100, "Training images per class of `synthetic` (a fifth as many test).", ge=5)


@dataclass(frozen=True)
class ScenarioConfig:
    """How a data set becomes a sequence of tasks."""

    class_order: Literal["consecutive", "random"] = option(
        "consecutive", "Classes in their own order, or shuffled by `order_seed`."
    )
    order_seed: int = option(0, "Seed of the random class order.", ge=0)
    per_class: int = option(0, "Training images of each class to use, held-out ones included; 0: all.", ge=0)
    held_out: float = option(0.1, "Share of each task's training images held out for validation.", gt=0, lt=0.9)


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
        "Standardise input channels by mean and deviation of the first task's training images; false: scale to [0, 1].",
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
    random_translate: int = option(
        0, "Augmentation: move each training image by up to this many pixels each way.", ge=0
    )
    random_affine: float = option(
        0.0, "Augmentation: turn, stretch and shear each training image by up to about this share.", ge=0, lt=1
    )
    flip: bool = option(False, "Augmentation: mirror training images left to right, half of the time.")
    selection: Literal["objective", "accuracy", "last"] = option(
        "objective",
        "Which epoch's weights a task keeps, judged on its held-out data: least objective, best accuracy, or the last.",
    )


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
    tensorboard: bool = option(False, "Also write records for TensorBoard, to `tensorboard/` in the run folder.")
    channels_last: bool = option(True, "Store images and filters channels-last; measured faster on CPU.")


@dataclass(frozen=True)
class Experiment:
    """Everything that decides what a run computes."""

    method: str = option("ccgn", "Learning method; `lockgate list methods` shows all; or package.module:Class.")
    dataset: str = option("digits", "Data set; `lockgate list datasets` shows all; or package.module:function.")
    backbone: str = option("simple_cnn", "Network; `lockgate list backbones` shows all; or package.module:Class.")
    tasks: int = option(5, "Number of tasks the classes are split into.", ge=1)
    epochs: int = option(5, "Epochs per task.", ge=1)
    seed: int = option(0, "Seed of everything random in the run.", ge=0)
    devices: int = option(1, "Data-parallel ranks.", ge=1)
    data_dir: str | None = option(None, "Folder that holds the data sets (else LOCKGATE_DATA, else they are fetched).")
    data: DataConfig = field(default_factory=DataConfig)
    scenario: ScenarioConfig = field(default_factory=ScenarioConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
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


def build(cls: type[C], values: Mapping[str, Any]) -> C:
    """An instance of config class ``cls`` from nested plain values, or ``ConfigError`` listing every problem."""
    problems: list[str] = []
    instance = gather(cls, values, "", problems)
    if problems:
        raise ConfigError(problems)
    return instance


def gather(cls: type[C], values: Mapping[str, Any], prefix: str, problems: list[str]) -> C:
    """Like ``build``, but appends to ``problems``, so that a caller can go on looking; bad fields keep defaults."""
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(typing.cast(Any, cls))}
    arguments: dict[str, Any] = {}
    for key, value in values.items():
        if key not in fields:
            problems.append(f"Unknown key '{prefix}{key}'.{near_matches(str(key), list(fields))}")
            continue
        if dataclasses.is_dataclass(hints[key]):
            if isinstance(value, Mapping):
                arguments[key] = gather(typing.cast(type[Any], hints[key]), value, f"{prefix}{key}.", problems)
            else:
                problems.append(f"'{prefix}{key}' must be a group of keys. Got {value!r} instead.")
            continue
        converted, problem = _convert(value, hints[key])
        problem = problem or _out_of_bounds(converted, fields[key].metadata.get("bounds", {}))
        if problem:
            problems.append(f"'{prefix}{key}' must be {problem}. Got {value!r} instead.")
        else:
            arguments[key] = converted
    return cls(**arguments)


def _convert(value: Any, hint: Any) -> tuple[Any, str | None]:
    """``value`` as the type ``hint``, and None or what it should have been."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return value, None if value in args else "one of " + ", ".join(repr(a) for a in args)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None, None
        return _convert(value, next(a for a in args if a is not type(None)))
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            return None, f"a list of {args[0].__name__}"
        if args[-1] is not Ellipsis and len(value) != len(args):
            return None, f"a list of {len(args)} {args[0].__name__}"
        items = [_convert(item, args[0]) for item in value]
        return tuple(item for item, _ in items), next((f"a list of {args[0].__name__}" for _, p in items if p), None)
    if origin is dict:
        return (dict(value), None) if isinstance(value, Mapping) else (None, "a group of keys")
    if hint is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value), None  # YAML 1.1 reads 5e-4 as a string
        except (ValueError, OverflowError):
            return None, "a number"
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value, None
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    return None, names.get(hint, str(hint))


_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "ge": (operator.ge, "at least"),
    "gt": (operator.gt, "greater than"),
    "le": (operator.le, "at most"),
    "lt": (operator.lt, "less than"),
}


def _out_of_bounds(value: Any, bounds: Mapping[str, float]) -> str | None:
    if value is None or isinstance(value, (str, dict)):
        return None
    items = value if isinstance(value, tuple) else (value,)
    if all(_BOUNDS[name][0](item, bound) for item in items for name, bound in bounds.items()):
        return None
    return " and ".join(f"{_BOUNDS[name][1]} {bound:g}" for name, bound in bounds.items())


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the values of ``over`` in their place, group by group."""
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = merge(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return merged


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping a YAML file holds."""
    import yaml

    try:
        values = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError([f"Cannot read {path}: {error}"]) from error
    if not isinstance(values, dict):
        raise ConfigError([f"{path} must hold 'key: value' lines. Got {type(values).__name__} instead."])
    return values
