"""What may be chosen: a YAML file of dotted names of settings, each with what it can be.

options.strength: {low: 0.1, high: 1000, log: true}       any number between; whole ones where both ends are whole
options.temperature: [1, 2, 4]                            one of these
optim:                                                    one of these, whose settings belong together
  - {optimiser: sgd, lr: {low: 0.003, high: 0.3, log: true}}
  - {optimiser: adamw, lr: {low: 0.0003, high: 0.01, log: true}}
optim.schedule:                                           nothing: what all methods choose, but not this one
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import lockgate.presets
from lockgate.config import read_yaml
from lockgate.errors import ConfigError

FOLDER = Path(lockgate.presets.__file__).parent / "spaces"
COMMON = "all"
"""The file of what may be chosen of every method."""
RANGE = ("low", "high", "log")
DIGITS = 3
"""Of a number that is drawn."""

Space = Mapping[str, Any]


def read_space(method: str, file: Path | None = None) -> Space:
    """The space in ``file``, else the one that comes with ``method``: that of all methods and its own."""
    files = [file] if file is not None else [FOLDER / f"{COMMON}.yaml", FOLDER / f"{method}.yaml"]
    space: dict[str, Any] = {}
    for path in files:
        if path.is_file() or file is not None:
            space |= read_yaml(path)
    problems = [problem for name, choices in space.items() for problem in _problems(str(name), choices)]
    if problems:
        raise ConfigError(problems)
    return {name: choices for name, choices in space.items() if choices is not None}


def draw(space: Space, seed: int, trial: int) -> dict[str, Any]:
    """Values by dotted name: those of ``trial``, whatever other trials there are; a name's, whatever other names."""
    values: dict[str, Any] = {}
    for name, choices in space.items():
        values |= _draw(name, choices, (seed, trial))
    return values


def _draw(name: str, choices: Any, place: tuple[int, int]) -> dict[str, Any]:
    rng = np.random.default_rng([*place, *name.encode()])
    if isinstance(choices, list):
        one = choices[int(rng.integers(len(choices)))]
        return _draw(name, one, place) if isinstance(one, Mapping) else {name: one}
    if not isinstance(choices, Mapping):
        return {name: choices}
    if "low" in choices:
        return {name: _number(choices, float(rng.random()))}
    group: dict[str, Any] = {}
    for key, inner in choices.items():
        group |= _draw(f"{name}.{key}", inner, place)
    return group


def _number(choices: Mapping[str, Any], share: float) -> float | int:
    """The number that lies at ``share`` (0 to 1) of a range."""
    low, high = float(choices["low"]), float(choices["high"])
    whole = all(isinstance(choices[end], int) for end in ("low", "high"))
    if whole:
        low, high = low - 0.499, high + 0.499  # so that the ends are as likely as others
    if choices.get("log"):
        value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:
        value = low + share * (high - low)
    return round(value) if whole else float(f"{value:.{DIGITS}g}")


def _problems(name: str, choices: Any) -> Iterator[str]:
    if isinstance(choices, list):
        if not choices:
            yield f"'{name}' must have something to choose from. Got an empty list instead."
        for one in choices:
            if isinstance(one, Mapping):
                yield from _problems(name, one)
    elif isinstance(choices, Mapping) and set(choices) & set(RANGE):
        yield from _range_problems(name, choices)
    elif isinstance(choices, Mapping):
        for key, inner in choices.items():
            yield from _problems(f"{name}.{key}", inner)


def _range_problems(name: str, choices: Mapping[str, Any]) -> Iterator[str]:
    try:
        low, high = (float(choices[end]) for end in ("low", "high"))  # YAML 1.1 reads 1e-4 as text
    except (KeyError, TypeError, ValueError):
        low, high = 1.0, 0.0
    wrong = set(choices) - set(RANGE) or not low < high or not math.isfinite(high - low)
    if wrong or (choices.get("log") and low <= 0):
        yield (
            f"'{name}' must be {{low: number, high: larger number, log: true or false}}, above 0 where log is true. "
            f"Got {dict(choices)} instead."
        )
