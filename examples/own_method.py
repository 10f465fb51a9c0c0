"""A method of one's own: DER++ (Buzzega et al., Dark Experience for General Continual Learning, NeurIPS 2020):
    loss = CE(current batch)  +  alpha * MSE(logits, logits kept)  +  beta * CE(logits, labels kept)
The paper keeps a reservoir as training goes; here a task's images and logits are kept, class by class, when it ends.
In the folder of this file: lockgate run --method own_method:DERpp --dataset digits --options.buffer 100
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from lockgate.config import option
from lockgate.methods.single_head import SingleHead


@dataclass(frozen=True)
class DERppOptions:
    buffer: int = option(200, "Images kept in all, equally many of each class.", ge=1)
    alpha: float = option(0.3, "Weight of the distance to the logits that were kept.", ge=0)
    beta: float = option(0.5, "Weight of the cross-entropy on the images that were kept.", ge=0)


class DERpp(SingleHead):
    """Keeps images with what the network said of them, and holds it to both labels and logits."""

    Options = DERppOptions

    def __init__(self, context):
        super().__init__(context)
        rows = context.options.buffer
        self.register_buffer("kept_x", torch.zeros(rows, *context.image_shape, dtype=torch.uint8))
        self.register_buffer("kept_y", torch.full((rows,), -1))  # class among all seen; -1: an empty row, at the end
        self.register_buffer("kept_width", torch.zeros(rows, dtype=torch.int64))  # classes there were
        self.register_buffer("kept_logits", torch.zeros(rows, 0))  # (rows, classes seen)

    def add_task(self, classes):
        super().add_task(classes)
        self.kept_logits = F.pad(self.kept_logits, (0, classes))

    def loss(self, batch):
        losses = super().loss(batch)
        if rows := int((self.kept_y >= 0).sum()):
            one, two = torch.randint(rows, (2, len(batch.y)), device=batch.y.device)
            logits = self.all_logits(torch.cat([self.kept_x[one], self.kept_x[two]])).split(len(one))
            known = torch.arange(self.starts[-1], device=batch.y.device) < self.kept_width[one, None]
            losses["logits"] = self.options.alpha * (logits[0] - self.kept_logits[one])[known].square().mean()
            losses["replay"] = self.options.beta * F.cross_entropy(logits[1], self.kept_y[two])
        return losses

    @torch.no_grad()
    def end_task(self, task):
        x, y = task.train.x.to(self.kept_x.device), self.labels(task.train).to(self.kept_x.device)
        logits = torch.cat([self.eval().all_logits(part) for part in x.split(512)])
        classes, labels = self.starts[-1], torch.cat([self.kept_y, y])
        rows = [torch.nonzero(labels == c).flatten()[: self.options.buffer // classes] for c in range(classes)]
        for name, new in (("x", x), ("y", y), ("width", torch.full_like(y, classes)), ("logits", logits)):
            chosen = torch.cat([getattr(self, f"kept_{name}"), new])[torch.cat(rows)]
            getattr(self, f"kept_{name}")[: len(chosen)] = chosen
        self.kept_y[len(chosen) :] = -1
