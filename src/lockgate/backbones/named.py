"""Networks of other packages by name: ``timm:NAME`` and ``transformers:NAME``, where those import.

timm:resnet18                     as timm makes it; with --model.weights pretrained, from its hub or cache
transformers:resnet               a kind of network, with random weights
transformers:path/of/a/folder     what ``save_pretrained`` left there (safetensors), with its preprocessing
transformers:owner/name           of the hub, or of its cache
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from lockgate.backbones.preprocessing import IMAGENET, Preprocessing
from lockgate.backbones.weights import HUB, UNTRAINED
from lockgate.config import ModelConfig
from lockgate.errors import ConfigError, UnknownNameError
from lockgate.importing import near_matches, user_code


def named(scheme: str, name: str) -> Callable[..., nn.Module]:
    """What makes the network ``name`` of a package; ``UnknownNameError`` where the package does not import."""
    package = _import(scheme)
    make = {"timm": _timm, "transformers": _transformers}[scheme]

    def factory(image_shape: tuple[int, int, int], config: ModelConfig) -> nn.Module:
        return make(package, name, image_shape[0], config)

    return factory


BRING = {"timm": "timm", "transformers": "'lockgate[transformers]'"}
"""timm is no extra: it brings torchvision, which has to fit the torch that is there."""


def _import(scheme: str) -> Any:
    try:
        if scheme == "timm":
            import timm

            return timm
        import transformers

        transformers.logging.set_verbosity_error()
        return transformers
    except (ImportError, RuntimeError, AttributeError) as error:  # timm fails where torchvision does
        raise UnknownNameError(
            f"Networks of {scheme} need that package, which does not import here ({error}). "
            f"Bring it with: pip install {BRING[scheme]}"
        ) from None


def _timm(package: Any, name: str, channels: int, config: ModelConfig) -> nn.Module:
    known = package.list_models()
    if name.partition(".")[0] not in known:
        raise UnknownNameError(f"timm has no network {name!r}.{near_matches(name, known)}")
    with user_code(f"Making the network 'timm:{name}'"):
        network: nn.Module = package.create_model(name, in_chans=channels, pretrained=config.weights == HUB)
    data = package.data.resolve_data_config({}, model=network)
    network.preprocessing = replace(  # type: ignore[assignment]
        IMAGENET, size=data["input_size"][-1], mean=tuple(data["mean"]), std=tuple(data["std"])
    )
    return network


def _transformers(package: Any, name: str, channels: int, config: ModelConfig) -> nn.Module:
    auto = package.AutoModelForImageClassification
    with user_code(f"Making the network 'transformers:{name}'"):
        if config.weights == UNTRAINED and Path(name).is_dir():
            made = auto.from_config(package.AutoConfig.from_pretrained(name), trust_remote_code=False)
        elif name in package.CONFIG_MAPPING:
            made = auto.from_config(package.AutoConfig.for_model(name, num_channels=channels), trust_remote_code=False)
        else:
            made = auto.from_pretrained(name, use_safetensors=True, trust_remote_code=False)
    network: nn.Module = made
    found = _image_processor(Path(name))
    if found is not None:
        network.preprocessing = found  # type: ignore[assignment]
    return network


def _image_processor(folder: Path) -> Preprocessing | None:
    """What the folder says of images; transformers' own reader would need torchvision."""
    file = folder / "preprocessor_config.json"
    if not file.is_file():
        return None
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        size = told.get("crop_size", told.get("size", IMAGENET.size))
        side = size if isinstance(size, int) else next(iter(size.values()))
        mean, std = told.get("image_mean", IMAGENET.mean), told.get("image_std", IMAGENET.std)
        return replace(IMAGENET, size=int(side), mean=tuple(map(float, mean)), std=tuple(map(float, std)))
    except (ValueError, TypeError, StopIteration, AttributeError) as error:
        raise ConfigError(
            [f"{file} says nothing about images that can be read ({error}). Mend or remove it."]
        ) from error
