"""A network of one's own: any nn.Module, which ccgn gives a stream per task; or a Backbone, gated as in the paper.

In the folder of this file: lockgate run --method ccgn --network own_network:Net --dataset digits
                            lockgate run --method ccgn --backbone own_network:Gateable --dataset digits
"""

import torch.nn.functional as F
from torch import nn

from lockgate.backbones.base import Backbone, Channels, as_stream


class Net(nn.Module):
    """Any module from images (B, C, H, W) to features (B, F); it takes ``image_shape``, or nothing."""

    def __init__(self, image_shape, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(image_shape[0], width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.last = nn.Linear(width * 16, 64)

    def forward(self, x):
        return self.last(self.body(x).view(len(x), -1)).relu()


class Gateable(Backbone):
    """Two convolutions made by the method's own layer factory: plain, gated or masked, as it needs them."""

    def __init__(self, image_shape, layer_factory, config):
        super().__init__()
        width = config.width or 32
        self.conv1 = layer_factory.conv(image_shape[0], width, 3, padding=1)
        self.conv2 = layer_factory.conv(width, width, 3, stride=2, padding=1)
        self.add_layer("conv1", self.conv1, None)  # reads the image
        self.add_layer("conv2", self.conv2, 0)  # reads what layer 0 writes
        self.channels = [Channels([self.conv1], [self.conv2], []), Channels([self.conv2], [], [])]

    def forward(self, x, task):
        x, gate1 = self.conv1(x, task, F.relu)
        x, gate2 = self.conv2(x, task, F.relu)
        return as_stream(self.conv2, x.mean((2, 3)), task, [gate1, gate2])


if __name__ == "__main__":
    import lockgate

    print(lockgate.run({"method": "lwf", "epochs": 2}, network=Net, quiet=True))
