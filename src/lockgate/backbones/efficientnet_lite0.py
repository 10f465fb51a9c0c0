"""EfficientNet-Lite0 (Tan and Le 2019; the Lite form, 2020): inverted residuals with ReLU6, no squeeze-and-excitation.

The names of its parts are those of published weights; ``[pretrained]`` brings them (ImageNet, 75.1 %, Apache-2.0).

    block:  x - 1x1 expand - BN - ReLU6 - depthwise, stride - BN - ReLU6 - 1x1 project - BN (+ x, where shapes agree)
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lockgate.backbones.preprocessing import Preprocessing

PREPROCESSING = Preprocessing(224, (127 / 255,) * 3, (128 / 255,) * 3, resize="crop")
STEM, LAST, CLASSES = 32, 1280, 1000
BLOCKS = (  # repeats, kernel, stride of the first, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class SameConv2d(nn.Conv2d):
    """A convolution padded as TensorFlow does: the output has ceil(side / stride) places, odd padding goes behind."""

    def forward(self, input: Tensor) -> Tensor:
        """Convolve (B, C, H, W)."""
        around: list[int] = []
        for side, kernel, stride in zip(reversed(input.shape[2:]), self.kernel_size, self.stride, strict=True):
            missing = max(0, (-(-side // stride) - 1) * stride + kernel - side)
            around += [missing // 2, missing - missing // 2]
        return super().forward(F.pad(input, around) if any(around) else input)


def _norm(channels: int) -> nn.BatchNorm2d:
    # Statistics follow at torch's rate, not at the 0.01 of training from scratch: fine-tuning has a hundred steps.
    return nn.BatchNorm2d(channels, eps=1e-3)


class InvertedResidual(nn.Module):
    """See the top of this file."""

    def __init__(self, c_in: int, c_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = c_in * expansion
        self.expands = expansion > 1
        if self.expands:
            self._expand_conv = SameConv2d(c_in, wide, 1, bias=False)
            self._bn0 = _norm(wide)
        self._depthwise_conv = SameConv2d(wide, wide, kernel, stride, groups=wide, bias=False)
        self._bn1 = _norm(wide)
        self._project_conv = SameConv2d(wide, c_out, 1, bias=False)
        self._bn2 = _norm(c_out)
        self.act = nn.ReLU6()  # a layer, so that it is seen whose channels a convolution by channel filters
        self.residual = stride == 1 and c_in == c_out

    def forward(self, x: Tensor) -> Tensor:
        """(B, c_in, H, W) to (B, c_out, H', W')."""
        h = self.act(self._bn0(self._expand_conv(x))) if self.expands else x
        h = self.act(self._bn1(self._depthwise_conv(h)))
        h = cast(Tensor, self._bn2(self._project_conv(h)))
        return h + x if self.residual else h


class EfficientNetLite0(nn.Module):
    """Images standardised by ``preprocessing`` to the logits of 1000 classes."""

    preprocessing = PREPROCESSING

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = SameConv2d(channels, STEM, 3, 2, bias=False), _norm(STEM)
        self._blocks = nn.ModuleList()
        c_in = STEM
        for repeats, kernel, stride, expansion, c_out in BLOCKS:
            for number in range(repeats):
                self._blocks.append(InvertedResidual(c_in, c_out, kernel, 1 if number else stride, expansion))
                c_in = c_out
        self._conv_head, self._bn1 = SameConv2d(c_in, LAST, 1, bias=False), _norm(LAST)
        self._fc = nn.Linear(LAST, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) to (B, 1000)."""
        x = x.contiguous(memory_format=torch.channels_last)  # convolutions by channel take half the time
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = F.relu6(self._bn1(self._conv_head(x))).mean((2, 3))
        logits: Tensor = self._fc(x)
        return logits
