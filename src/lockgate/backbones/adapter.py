"""A plain ``nn.Module`` as a backbone, for methods that need nothing of a network but its features.

What needs the layers themselves, to gate or to mask them, refuses it: see ``Method.check_backbone``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lockgate.backbones.base import Backbone, Stream
from lockgate.backbones.preprocessing import Preprocessing
from lockgate.errors import ConfigError
from lockgate.importing import user_code
from lockgate.training.phase import evaluating


class ModuleBackbone(Backbone):
    """Any module from float images (B, C, H, W) to features (B, F), or to (B, F, h, w), which are averaged over h, w.

    One stream for all tasks. The module is asked once, for a blank image, how wide its features are.
    """

    def __init__(self, module: nn.Module, image_shape: tuple[int, int, int], name: str = "") -> None:
        super().__init__()
        self.module = module
        name = name or type(module).__name__
        with torch.no_grad(), evaluating(module), user_code(f"Showing {image_shape} images to backbone {name!r}"):
            out = module(torch.zeros(2, *image_shape))
        if not isinstance(out, Tensor) or out.dim() not in (2, 4) or len(out) != 2 or not out.is_floating_point():
            got = f"{out.dtype} {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
            raise ConfigError(
                [
                    f"backbone {name!r} must map images (B, C, H, W) to one float tensor, features (B, F) or "
                    f"(B, F, h, w). Got {got} for a batch of 2 images {image_shape} instead."
                ]
            )
        self._features = out.shape[1]
        self.preprocessing = preprocessing_of(module)

    def add_task(self) -> None:
        """Nothing of the module belongs to a task."""

    def forward(self, x: Tensor, task: int) -> Stream:
        """(B, C, H, W) to features (B, F); one stream for all tasks."""
        out: Tensor = self.module(in_usual_order(x))
        return Stream(out.mean((2, 3)) if out.dim() == 4 else out, ())

    def _apply(self, fn: Any, recurse: bool = True) -> ModuleBackbone:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        keep_usual_order(self.module)
        return self


def preprocessing_of(module: nn.Module) -> Preprocessing | None:
    """What a network says of the images it wants, in its attribute ``preprocessing``."""
    said = getattr(module, "preprocessing", None)
    return said if isinstance(said, Preprocessing) else None


def keep_usual_order(module: nn.Module) -> None:
    """Never channels-last: a module of another make may well call `x.view`, which wants images as they usually lie."""
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data = in_usual_order(tensor.data)


def in_usual_order(x: Tensor) -> Tensor:
    """The same values with the strides of a new tensor; ``contiguous`` leaves those of a single channel as they are."""
    usual = torch.empty(x.shape, device="meta").stride()
    return x if x.stride() == usual else x.clone(memory_format=torch.contiguous_format)
