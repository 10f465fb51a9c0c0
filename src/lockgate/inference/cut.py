"""Skipping by image: a stream without the filters that it opens for few images, and the whole one for those few.

A narrow stream still computes the gates of what it lacks. An image for which none of them fires has its exact features:
those filters would have been zero. The others are run again through all filters of the seal.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lockgate.evaluation.macs import layer_macs
from lockgate.inference.compact import compact, filled
from lockgate.inference.reading import Reader, Reading, Weights, cut_weights
from lockgate.methods.ccgn.method import CCGN

RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""A filter that fires for no more than one of these shares of the images may be left out."""
SAMPLE_BATCH = 256
"""Images per pass when gates are looked at."""
AT_ONCE = 32
"""Images that are run through the whole stream at a time: more maps fall out of the processor's caches."""
PAYS = 0.75
"""Two sizes are kept only where they need less than this share of the multiplications of one."""


class CompactStream(nn.Module):
    """One task's stream: small where it is enough, whole where it is not."""

    places: Tensor

    def __init__(self, full: Reader, width: int, narrow: Reader | None = None, places: Tensor | None = None) -> None:
        super().__init__()
        self.full, self.width, self.narrow = full, width, narrow
        self.register_buffer("places", torch.arange(width) if places is None else places)
        self.runs_whole: Callable[[Tensor], bool] = lambda _: False
        """Whether most images of a pass want what the narrow one lacks."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """(B, C, H, W) to features (B, width), and what they add to the scores of a read-out, (B, classes)."""
        # An exported graph runs all images alike.
        if self.narrow is None or torch.compiler.is_compiling() or self.runs_whole(x):
            features, scores, _ = self.full(x)
            return features, scores
        narrow, scores, wanted = self.narrow(x)
        out = x.new_zeros(len(x), self.width).index_copy_(1, self.places, narrow[:, : len(self.places)])
        again = torch.stack(wanted).any(0).nonzero().flatten()
        for part in torch.split(again, AT_ONCE) if len(again) else ():
            features, more, _ = self.full(x.index_select(0, _even(part)))
            out.index_copy_(0, part, features[: len(part)])
            if scores is not None:
                scores.index_copy_(0, part, more[: len(part)])
        return out, scores


def _even(places: Tensor) -> Tensor:
    """``places``, filled up with the first of them to a power of two: for every new number of images torch makes
    kernels, which takes longer than to compute a few images more."""
    size = 1 << (len(places) - 1).bit_length()
    return torch.cat([places, places[:1].expand(size - len(places))])


def sealed(learner: CCGN, task: int) -> list[Tensor]:
    """For each set of channels, those that the stream of ``task`` can open."""
    kept = []
    for group in learner.backbone.channels:
        first = group.writers[0]
        write = first.writes.get(task)
        kept.append(torch.arange(first.gate(task).width, device=first.weight.device) if write is None else write)
    return kept


def make_stream(
    learner: CCGN, task: int, input_scale: Tensor, images: Tensor | None, cost: Cost, weights: Weights | None = None
) -> CompactStream:
    """The stream of ``task``; in two sizes if ``images`` (N, C, H, W) uint8 show that it pays.

    ``weights``: what a read-out reads of it.
    """
    whole = sealed(learner, task)

    def made(keep: list[Tensor]) -> Reader:
        reading = None if weights is None else Reading(cut_weights(weights, learner.backbone, whole, keep))
        return Reader(compact(learner.backbone, task, keep, input_scale), reading)

    full, width = made(whole), filled(len(whole[-1]))
    often = None if images is None else _often(learner, task, whole, images, cost)
    if often is None:
        return CompactStream(full, width)
    return CompactStream(full, width, made(often), torch.searchsorted(whole[-1], often[-1]))


@torch.no_grad()
def _often(learner: CCGN, task: int, whole: list[Tensor], images: Tensor, cost: Cost) -> list[Tensor] | None:
    """The channels a narrow stream should keep, of each set; None if it would not pay."""
    passes = [learner.backbone(learner.input(part), task).gates for part in torch.split(images, SAMPLE_BATCH)]
    gates = dict(zip(learner.gated.values(), (torch.cat(parts) for parts in zip(*passes, strict=True)), strict=True))
    best, least = None, PAYS * cost(whole)
    for rate in RATES:
        keep, again = [], torch.zeros(len(images), dtype=torch.bool, device=images.device)
        for group, kept in zip(learner.backbone.channels, whole, strict=True):
            fires = torch.stack([gates[layer] for layer in group.writers]).amax(0)[:, kept]  # (N, kept)
            rare = fires.mean(0) <= rate
            rare[fires.mean(0).argmax()] = False  # a layer with nothing to compute would cut the stream
            again |= (fires[:, rare] > 0).any(1)
            keep.append(kept[~rare])
        needed = cost(keep) + float(again.float().mean()) * cost(whole)
        if needed < least:
            best, least = keep, needed
    return best


class Cost:
    """Multiplications of a stream, by the channels it keeps; gates, which are never left out, are not counted.

    What a pair of channels costs is a matter of the size of the maps: the first stream, watched once, tells it for all.
    """

    def __init__(self, learner: CCGN, image: Tensor) -> None:
        backbone = learner.backbone
        counts = {count.name: count.dense for count in layer_macs(learner, image, 0)}
        reads = {id(layer): g for g, group in enumerate(backbone.channels) for layer in group.readers}
        writes = {id(layer): g for g, group in enumerate(backbone.channels) for layer in group.writers}
        self.layers = []  # (set read, set written, multiplications for one pair of channels)
        for name, layer in learner.gated.items():
            gate = layer.gate(0)
            pair = counts[name] / (gate.squeeze.in_features * gate.width)
            read = reads.get(id(layer))
            self.layers.append((read, writes[id(layer)], pair * (gate.squeeze.in_features if read is None else 1)))

    def __call__(self, keep: list[Tensor]) -> float:
        """For one image, with these channels of each set."""
        return sum(
            pair * (1 if read is None else filled(len(keep[read]))) * filled(len(keep[write]))
            for read, write, pair in self.layers
        )
