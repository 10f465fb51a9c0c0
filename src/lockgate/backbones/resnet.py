"""ResNet-18 in its CIFAR form, gated as in the paper's Figure 3.

    block:  x ---> conv1 - BN - ReLU - gate1 ---> conv2 - BN ---> (+) - ReLU - gate2 --->
             \\---> identity, or 1x1 conv - BN - gate where the block downsamples ---/

Each gate looks at the input of its own convolution. The stem is gated too, otherwise task 1 would freeze all of it.
"""

from __future__ import annotations

from torch import Tensor, nn

from lockgate.backbones.base import Backbone, Channels, Stream, as_stream
from lockgate.config import ModelConfig
from lockgate.layers.plain import LayerFactory

BLOCKS = (2, 2, 2, 2)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, c_in: int, c_out: int, stride: int, layer_factory: LayerFactory) -> None:
        super().__init__()
        self.conv1 = layer_factory.conv(c_in, c_out, 3, stride=stride, padding=1, bias=False)
        self.norm1 = layer_factory.norm(c_out)
        self.conv2 = layer_factory.conv(c_out, c_out, 3, padding=1, bias=False)
        self.norm2 = layer_factory.norm(c_out)
        self.stride = stride
        self.downsamples = stride != 1 or c_in != c_out
        if self.downsamples:
            self.shortcut = layer_factory.conv(c_in, c_out, 1, bias=False)
            self.shortcut_norm = layer_factory.norm(c_out)

    def forward(self, x: Tensor, task: int) -> tuple[Tensor, list[Tensor]]:
        """(B, c_in, H, W) to (B, c_out, H', W') and the gates, in the order conv1, shortcut, conv2."""
        # In place where a tensor is nobody else's: BatchNorm's backward pass needs its input, not its output.
        h, gate1 = self.conv1(x, task, lambda y: self.norm1(y, task).relu_())
        shortcut, gate_s = x, None
        if self.downsamples:
            # Every second pixel, then 1x1 at stride 1: what a strided 1x1 convolution computes. torch 2.13's own, in
            # channels-last on CPU, corrupts the heap in its backward pass.
            pixels = x[:, :, :: self.stride, :: self.stride]
            shortcut, gate_s = self.shortcut(pixels, task, lambda y: self.shortcut_norm(y, task))
        h, gate2 = self.conv2(h, task, lambda y: self.norm2(y, task).add_(shortcut).relu_())
        return h, [gate for gate in (gate1, gate_s, gate2) if gate is not None]


class ResNet(Backbone):
    """``width`` filters in the stem (64), doubled at each stage; ``blocks`` per stage."""

    def __init__(self, image_shape: tuple[int, int, int], layer_factory: LayerFactory, config: ModelConfig) -> None:
        super().__init__()
        width = config.width or 64
        self.stem = layer_factory.conv(image_shape[0], width, 3, padding=1, bias=False)
        self.stem_norm = layer_factory.norm(width)
        last = self.add_layer("stem", self.stem, None)
        stream = Channels([self.stem], [], [self.stem_norm])  # the residual stream of the current stage
        self.blocks = nn.ModuleList()
        c_in = width
        for stage, count in enumerate(config.blocks or BLOCKS):
            for b in range(count):
                c_out = width * 2**stage
                block = BasicBlock(c_in, c_out, 2 if stage and not b else 1, layer_factory)
                self.blocks.append(block)
                stream, last = self._wire(f"stage{stage + 1}.block{b + 1}", block, stream, last)
                c_in = c_out
        self.channels.append(stream)

    def _wire(self, name: str, block: BasicBlock, stream: Channels, source: int) -> tuple[Channels, int]:
        """Note who writes and who reads which channels; the residual stream's writers must widen together."""
        inner = self.add_layer(f"{name}.conv1", block.conv1, source)
        stream.readers.append(block.conv1)
        self.channels.append(Channels([block.conv1], [block.conv2], [block.norm1]))
        if block.downsamples:
            self.add_layer(f"{name}.shortcut", block.shortcut, source)
            stream.readers.append(block.shortcut)
            self.channels.append(stream)
            stream = Channels([block.shortcut], [], [block.shortcut_norm])
        stream.writers.append(block.conv2)
        stream.norms.append(block.norm2)
        return stream, self.add_layer(f"{name}.conv2", block.conv2, inner)

    def forward(self, x: Tensor, task: int) -> Stream:
        """(B, C, H, W) to features (B, 8 width)."""
        x, gate = self.stem(x, task, lambda y: self.stem_norm(y, task).relu_())
        gates = [gate]
        for block in self.blocks:
            x, more = block(x, task)
            gates += more
        return as_stream(next(reversed(self.layers.values())), x.mean((2, 3)), task, gates)
