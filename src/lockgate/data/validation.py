"""What a data set of one's own misses: of the function that reads it, and of what that returns. Imports no torch."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from lockgate.data.arrays import Arrays, Dataset
from lockgate.errors import DataError

WANTED = "a function (data_dir, config) -> lockgate.data.Dataset"


def reader_problems(found: object) -> list[str]:
    """What keeps an object from being a data set's reader."""
    if isinstance(found, Dataset):
        return [f"is a Dataset itself. Wanted {WANTED}: return it from one."]
    if not callable(found):
        return [f"is a {type(found).__name__}. Wanted {WANTED}."]
    try:
        inspect.signature(found).bind(None, None)
    except TypeError:
        return [f"takes {inspect.signature(found)}. Wanted {WANTED}."]
    except ValueError:  # written in C: nothing is known
        return []
    return []


def require_dataset(found: object, name: str, test: bool = True) -> Dataset:
    """``found`` if it is a data set that can be learnt, else ``DataError`` with every problem there is.

    Without ``test``, its test images are not looked at.
    """
    problems = dataset_problems(found, test)
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise DataError(f"The data set {name!r} did not return what can be learnt from:\n{listed}")
    assert isinstance(found, Dataset)
    return found


def dataset_problems(found: object, test: bool = True) -> list[str]:
    """What keeps ``found`` from being a data set: every problem."""
    if not isinstance(found, Dataset):
        return [f"It must return a lockgate.data.Dataset. Got {type(found).__name__} instead."]
    problems = _class_problems(found.classes)
    for split in ("train", "test") if test else ("train",):
        problems += [f"'{split}{problem}" for problem in _split_problems(getattr(found, split), found.classes)]
    if test and not problems and found.train.x.shape[1:] != found.test.x.shape[1:]:
        problems.append(
            f"'train.x' and 'test.x' must hold images of one shape. Got {found.train.x.shape[1:]} and "
            f"{found.test.x.shape[1:]} instead."
        )
    return problems


def _class_problems(classes: Any) -> list[str]:
    if not isinstance(classes, tuple) or not all(isinstance(name, str) for name in classes) or len(classes) < 2:
        return [f"'classes' must be a tuple of two names or more. Got {_short(classes)} instead."]
    twice = sorted({name for name in classes if classes.count(name) > 1})
    return [f"'classes' must name each class once. Got {', '.join(map(repr, twice))} more than once."] if twice else []


def _split_problems(arrays: Any, classes: Any) -> list[str]:
    """Problems of one split; each begins inside the quotes of the field's name."""
    if not isinstance(arrays, Arrays):
        return [f"' must be lockgate.data.Arrays. Got {type(arrays).__name__} instead."]
    x: Any = arrays.x  # whatever the user put there
    y: Any = arrays.y
    problems = []
    if not isinstance(x, np.ndarray) or x.dtype != np.uint8 or x.ndim != 4 or 0 in x.shape:
        problems.append(f".x' must be a numpy array (N, C, H, W) of uint8, 0 to 255. Got {_short(x)} instead.")
    if not isinstance(y, np.ndarray) or y.dtype != np.int64 or y.ndim != 1:
        problems.append(f".y' must be a numpy array (N,) of int64. Got {_short(y)} instead.")
        return problems
    if not problems and len(x) != len(y):
        problems.append(f".y' must have a label for each of {len(x)} images. Got {len(y)} instead.")
    if len(y) and (y.min() < 0 or y.max() >= len(classes)):
        problems.append(f".y' must be labels 0 to {len(classes) - 1}. Got {y.min()} to {y.max()} instead.")
    return problems


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return f"{type(value).__name__} {dtype} {tuple(shape)}" if shape is not None else f"{value!r}"[:80]
