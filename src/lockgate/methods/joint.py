"""Joint training: all tasks at once, one head each. The upper bound of the task-incremental setting (Section 4.2)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lockgate.methods.base import Method
from lockgate.types import Batch


class Joint(Method):
    """Each image is classified by the head of its own task. Batches mix tasks."""

    joint = True

    def class_loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of each image under its own task's head."""
        # One pass for the whole batch, all heads in the graph (DDP wants every parameter used in every step), and each
        # image's classes of other tasks shut out of its softmax.
        features = self.backbone(self.input(batch.x), 0).features
        logits = [head(features) for head in self.heads]  # each (B, classes)
        mine = [batch.task == t for t in range(len(logits))]
        offsets = torch.tensor([0, *(part.shape[1] for part in logits)], device=features.device).cumsum(0)
        masked = [part.masked_fill(~own[:, None], float("-inf")) for part, own in zip(logits, mine, strict=True)]
        return F.cross_entropy(torch.cat(masked, dim=1), batch.y + offsets[batch.task])

    def add_task(self, classes: int) -> None:
        """A head for one more task; all heads learn together."""
        super().add_task(classes)
        self.heads.requires_grad_(True)
