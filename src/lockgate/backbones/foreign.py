"""Any network as a backbone with a stream per task: ``gate(module, example)``.

    given                  becomes                                           of a task's own
    convolution, linear    the same with private rows (``layers/slots.py``)  some filters, from copies; a gate if asked
    norm                   the same with a copy per task                     scale, shift and statistics
    last linear map        what reaches it are the features                  a head
    all the rest           frozen, in evaluation mode for ever               nothing

All that was given is locked from the beginning, so no interface widens, and residual sums, concatenations, grouped and
shuffled channels need no analysis. Streams share constants only: exactness needs neither zeros nor a seal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lockgate.backbones.adapter import in_usual_order, keep_usual_order, preprocessing_of
from lockgate.backbones.base import Backbone, Stream
from lockgate.backbones.efficientnet_lite0 import EfficientNetLite0
from lockgate.backbones.foreign_look import look, tensor_of, unshare, watched
from lockgate.backbones.foreign_prefix import PrefixCache, find_prefix
from lockgate.backbones.foreign_refuse import refusals
from lockgate.backbones.foreign_swap import swap
from lockgate.backbones.preprocessing import Preprocessing
from lockgate.config import ModelConfig
from lockgate.errors import ConfigError
from lockgate.importing import user_code
from lockgate.layers.passes import Pass, running
from lockgate.layers.per_task import task_modules
from lockgate.layers.slots import SlotMap, SlotNorm

OURS = (EfficientNetLite0,)
"""What a test has found keepable need not be tried whenever a model is opened."""


class ForeignBackbone(Backbone):
    """A network that somebody else wrote, changed in place. See the top of this file."""

    given = True

    def __init__(
        self,
        module: nn.Module,
        example: Tensor,
        config: ModelConfig,
        *,
        head: str | None = None,
        preprocessing: Preprocessing | None = None,
        name: str = "",
    ) -> None:
        super().__init__()
        self.name = name or type(module).__name__
        self.preprocessing = preprocessing or preprocessing_of(module)
        self.module = module.eval()
        example = in_usual_order(example)
        with torch.random.fork_rng(devices=[]), torch.no_grad(), user_code(f"Showing images to {self.name!r}"):
            module(example)  # lazy layers know their shapes now
            if type(module) not in OURS:
                _require_keepable(module, example, self.name)
            unshare(module)
            module.requires_grad_(False)
            self.found = look(module, example, head, self.name)
            self.slots = swap(module, self.found, config)
            gated = [slot for slot in self.slots if isinstance(slot, SlotMap) and slot.gated]
            self.layers = {slot.name: slot for slot in gated}
            self.sources = [None] * len(gated)
            self._features = self._run(example, None)[0].features.shape[1]
        self._example = example
        self.cache: PrefixCache | None = None

    def add_task(self) -> None:
        """Private rows, norms and gates for one more task."""
        for slot in self.slots:
            slot.add_task()

    def forward(self, x: Tensor, task: int) -> Stream:
        """(B, C, H, W) to features (B, F), through the stream of ``task``."""
        replay = None
        if self.cache is not None and self.training and not torch.is_autocast_enabled(x.device.type):
            replay = self.cache.outputs(in_usual_order(x))
        return self._run(x, task, replay=replay)[0]

    def keep_prefix(self, folder: Path) -> bool:
        """From now on, while it learns, compute what lies before the first part of a task's own once an image.

        Features are kept in ``folder``. False where nothing lies there, or the network cannot be taken apart.
        """
        if self.cache is not None:
            return True
        with torch.random.fork_rng(devices=[]):
            own, example = [*(slot.name for slot in self.slots), self.found.head], self.example
            prefix = find_prefix(self.module, own, example, self._as_given)
        if prefix is not None:
            self.cache = PrefixCache(prefix, folder, self.constants(), self._as_given)
        return prefix is not None

    def _as_given(self, x: Tensor, replay: dict[str, Tensor] | None) -> tuple[Tensor, dict[str, Tensor]]:
        with running(None, replay) as at:
            return self._features_of(x, at), at.outputs

    def read(self, x: Tensor, task: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Features of a stream, and the outputs of its blocks from the first part of its own on.

        With the first stream also those of the whole network as it was given: what all streams share is read once.
        """
        stream, maps = self._run(x, task, self.found.blocks_from(slot.name for slot in self.slots))
        if task == 0:
            maps = {**{f"trunk.{name}": value for name, value in self.read_given(x)[1].items()}, **maps}
        return stream.features, {**maps, "features": stream.features}

    def read_given(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Features of the network as it was given, and the outputs of its blocks."""
        stream, maps = self._run(x, None, self.found.blocks)
        return stream.features, {**maps, "features": stream.features}

    @property
    def depth(self) -> int:
        """Its blocks and its features."""
        return len(self.found.blocks) + 1

    def _features_of(self, x: Tensor, at: Pass) -> Tensor:
        return features_of(self.module, x, at, self.name)

    @property
    def example(self) -> Tensor:
        """Two images to try it with, (2, C, H, W) float."""
        return self._example.to(_device(self))

    def _run(
        self, x: Tensor, task: int | None, read: list[str] | None = None, replay: dict[str, Tensor] | None = None
    ) -> tuple[Stream, dict[str, Tensor]]:
        """The stream of ``task`` (None: the network as it was given), and the outputs of the modules ``read``."""
        with running(task, replay) as at, watched(self.module, read or []) as calls:
            features = self._features_of(x, at)
        maps = {call.name: call.out if call.out.dim() == 4 else _pooled(call.out) for call in calls}
        return Stream(features, tuple(at.gates[name] for name in self.layers if name in at.gates)), maps

    def norms(self, task: int) -> list[nn.Module]:
        """Every norm of a task's stream."""
        return [slot.own[task] for slot in self.slots if isinstance(slot, SlotNorm)]

    def constants(self) -> dict[str, Tensor]:
        """All that was given."""
        own = tuple(f"{name}." for name, _ in task_modules(self))
        return {name: value for name, value in self.state_dict().items() if not name.startswith(own or ("\0",))}

    def open_features(self, task: int) -> Tensor:
        """All of them."""
        return torch.arange(self.features, device=_device(self))

    def train(self, mode: bool = True) -> ForeignBackbone:
        """What belongs to the newest task trains; all that was given stays as in evaluation, dropout included."""
        super().train(False)
        self.training = mode
        for slot in self.slots:
            slot.train(mode)
        return self

    def _apply(self, fn: Any, recurse: bool = True) -> ForeignBackbone:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        keep_usual_order(self.module)
        return self


def features_of(module: nn.Module, x: Tensor, at: Pass, name: str) -> Tensor:
    """Features (B, F) of a pass under way."""
    out = module(in_usual_order(x))
    return _pooled(tensor_of(out, name) if at.features is None else at.features)


def gate(
    module: nn.Module,
    example: Tensor,
    *,
    private: float = ModelConfig.private,
    depth: float = ModelConfig.private_depth,
    gates: bool = ModelConfig.gates,
    head: str | None = None,
    preprocessing: Preprocessing | None = None,
) -> Backbone:
    """Any network as a backbone whose past streams never change; ``module`` itself is changed.

    ``example``: images (B, C, H, W) float, at least two, of the size to come. Of each layer a task has its ``private``
    share of the filters, in the last ``depth`` (a share too) of the layers; before those, all is frozen. ``gates``:
    gate the layers as in the paper, opening late. ``head``: the name of the linear map to leave out, "" for none; by
    default the last one, if the network's output is its. Give the result as ``network=`` to ``lockgate.run``.
    """
    config = ModelConfig(private=private, private_depth=depth, gates=gates)
    shares = {"private": private, "depth": depth}
    wrong = [f"{key!r} must be from 0 to 1. Got {value}" for key, value in shares.items() if not 0 <= value <= 1]
    if example.dim() != 4 or len(example) < 2 or not example.is_floating_point():
        wrong.append(f"'example' must be float images (B, C, H, W), two at least. Got {tuple(example.shape)}")
    if wrong:
        raise ConfigError(wrong)
    return ForeignBackbone(module, example, config, head=head, preprocessing=preprocessing)


def adapt(module: nn.Module, image_shape: tuple[int, int, int], config: ModelConfig, name: str) -> Backbone:
    """As ``gate``, for a factory's network and images of this shape."""
    example = torch.rand(2, *image_shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return ForeignBackbone(module, example, config, name=name)


def _require_keepable(module: nn.Module, example: Tensor, name: str) -> None:
    problems = refusals(module, example, name)
    if problems:
        raise ConfigError([f"network {name!r} cannot keep past answers: {problem}" for problem in problems])


def _device(module: nn.Module) -> torch.device:
    tensor = next((t for t in (*module.parameters(), *module.buffers())), None)
    return torch.device("cpu") if tensor is None else tensor.device


def _pooled(h: Tensor) -> Tensor:
    """(B, F), (B, F, H, W) or (B, T, F) to (B, F)."""
    if h.dim() == 2:
        return h
    if h.dim() == 3:
        return h.mean(1)
    return h.flatten(2).mean(2)
