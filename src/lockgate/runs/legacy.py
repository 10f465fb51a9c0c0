"""Run folders and models that Lockgate 0.1 wrote: their words in today's.

0.1 called a method's options `patience`, `settle`, `park`, `gan_width` ..., had augmentation in two places, and other
names for some buffers. What it wrote is read as it is, and what it promised is audited as it was promised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

V = TypeVar("V")

_RENAMED = {"settle": "anneal", "park": "prune"}
_GONE = ("look", "offer", "warn_below", "threshold", "patience", "earned", "shift", "warp", "refit")
_BUFFERS = {"parked": "pruned", "deviation": "std"}
_FLAGS = {
    "--options.patience": "--options.sparsity_warmup",
    "--options.settle": "--options.anneal",
    "--options.park": "--options.prune",
    "--options.shift": "--augment.random_translate",
    "--options.warp": "--augment.random_affine",
    "--optim.shift": "--augment.random_translate",
    "--optim.warp": "--augment.random_affine",
    "--optim.flip": "--augment.random_flip",
}
_MOVED = {"looked_at": "pruning.step", "looked_sparse": "pruning.sparse"}


def upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as its file holds it, in today's words; one that is of today comes back as it is."""
    values = {**values, **({"runtime": _runtime(values["runtime"])} if "runtime" in values else {})}
    optim, options = values.get("optim") or {}, values.get("options") or {}
    if not isinstance(optim, Mapping) or not isinstance(options, Mapping):  # somebody's mistake, to be said elsewhere
        return values
    if "augment" in values or not ({"shift", "warp", "flip"} & optim.keys() or set(_GONE) & options.keys()):
        return values
    optim = dict(optim)
    task = {name: optim.pop(name, default) for name, default in (("shift", 0), ("warp", 0.0), ("flip", False))}
    return {**values, "optim": optim, "augment": _augment(task, options), "options": _options(options)}


def _augment(task: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """One group from two: what varied images of the task, and what varied those that were rehearsed."""
    rehearsed = {"shift": options.get("shift", 0), "warp": options.get("warp", 0.0), "flip": False}
    only_rehearsed = any(rehearsed.values()) and not any(task.values())
    chosen = rehearsed if only_rehearsed else task
    return {
        "random_translate": chosen["shift"],
        "random_affine": chosen["warp"],
        "random_flip": chosen["flip"],
        "images": "rehearsed" if only_rehearsed else "all",
    }


def _runtime(group: Any) -> Any:
    """TensorBoard was a switch of its own."""
    if not isinstance(group, Mapping) or "tensorboard" not in group:
        return group
    rest = {name: value for name, value in group.items() if name != "tensorboard"}
    return {**rest, "loggers": ["tensorboard"]} if group["tensorboard"] else rest


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    made = {_RENAMED.get(name, name): value for name, value in options.items() if name not in _GONE}
    if "patience" in options:
        made["sparsity_warmup"] = "loss" if options.get("earned") else options["patience"]
    if "hidden" in options:  # 0.1 had but the paper's way to find the task
        made["readout"] = "mlp"
    gan = {name.removeprefix("gan_"): made.pop(name) for name in list(made) if name.startswith("gan_")}
    return {**made, "gan": gan} if gan else made


def upgraded_command(words: Sequence[str]) -> list[str]:
    """A command of 0.1 with today's flags; one that has no successor stays as it was typed."""
    made, only_rehearsed = list[str](), False
    for word in words:
        flag, equals, value = word.partition("=")
        today = _FLAGS.get(flag, flag.replace("--options.gan_", "--options.gan."))
        made.append(f"{today}{equals}{value}")
        only_rehearsed |= flag in ("--options.shift", "--options.warp")
    return [*made, "--augment.images", "rehearsed"] if only_rehearsed else made


def upgraded_names(tensors: Mapping[str, V]) -> dict[str, V]:
    """Tensors (or their digests) by today's names."""
    return {_name(name): value for name, value in tensors.items()}


def _name(name: str) -> str:
    *path, last = _MOVED.get(name, name).split(".")
    return ".".join([*path, _BUFFERS.get(last, last)])


def upgraded_structure(structure: list[dict[str, Any]], widths: list[int]) -> list[dict[str, Any]]:
    """Entries of a method's structure. ``widths``: of the backbone before any task.

    0.1 noted widths of gated networks, which may grow, and of DGM those of its generator; of others none.
    """
    return [_entry(entry, widths) for entry in structure]


def _entry(entry: dict[str, Any], widths: list[int]) -> dict[str, Any]:
    if not widths and entry.get("widths"):  # a network without sets of channels: the critic of DGM
        return {"classes": entry["classes"], "widths": [], "generator": entry["widths"]}
    return {"widths": widths, **entry}
