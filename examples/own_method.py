"""A method of one's own: DER++ (Buzzega et al., Dark Experience for General Continual Learning, NeurIPS 2020).

    loss = CE(current batch)  +  alpha * MSE(logits, logits kept)  +  beta * CE(logits, labels kept)    (Eq. 6)

In the folder of this file: lockgate run --method own_method:DERpp --dataset digits --options.buffer 100
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from lockgate.config import option
from lockgate.methods.single_head import SingleHead


@dataclass(frozen=True)
class DERppOptions:
    """Options of DER++."""

    buffer: int = option(200, "Images kept in all, equally many of each class.", ge=1)
    alpha: float = option(0.3, "Weight of the distance to the logits that were kept.", ge=0)
    beta: float = option(0.5, "Weight of the cross-entropy on the images that were kept.", ge=0)


class DERpp(SingleHead):
    """Keeps images with what the network said of them, and holds it to both labels and logits."""

    Options = DERppOptions

    def __init__(self, context):
        super().__init__(context)
        rows = self.options.buffer
        self.register_buffer("kept_x", torch.zeros(rows, *context.image_shape, dtype=torch.uint8))
        self.register_buffer("kept_y", torch.full((rows,), -1))  # class among all seen; -1: an empty row, at the end
        self.register_buffer("kept_width", torch.zeros(rows, dtype=torch.int64))  # classes there were
        self.register_buffer("kept_logits", torch.zeros(rows, 0))  # (rows, classes seen)

    def add_task(self, classes):
        super().add_task(classes)
        self.kept_logits = F.pad(self.kept_logits, (0, classes))

    def loss(self, batch):
        losses = super().loss(batch)
        rows = int((self.kept_y >= 0).sum())
        if rows:
            one, two = torch.randint(rows, (2, len(batch.y)), device=batch.y.device)
            logits = self.all_logits(torch.cat([self.kept_x[one], self.kept_x[two]])).split(len(one))
            known = torch.arange(logits[0].shape[1], device=batch.y.device) < self.kept_width[one, None]
            losses["logits"] = self.options.alpha * (logits[0] - self.kept_logits[one])[known].square().mean()
            losses["replay"] = self.options.beta * F.cross_entropy(logits[1], self.kept_y[two])
        return losses

    @torch.no_grad()
    def end_task(self, task):
        self.eval()
        x, y = (part.to(self.kept_y.device) for part in (task.train.x, self.labels(task.train)))
        new = {"kept_x": x, "kept_y": y, "kept_logits": torch.cat([self.all_logits(part) for part in x.split(512)])}
        new["kept_width"] = torch.full_like(y, self.starts[-1])
        every = {name: torch.cat([getattr(self, name), value]) for name, value in new.items()}
        each = self.options.buffer // self.starts[-1]
        keep = torch.cat([torch.nonzero(every["kept_y"] == c).flatten()[:each] for c in range(self.starts[-1])])
        for name, value in every.items():  # empty rows at the end
            kept = torch.full_like(getattr(self, name), -1 if name == "kept_y" else 0)
            kept[: len(keep)] = value[keep]
            setattr(self, name, kept)
