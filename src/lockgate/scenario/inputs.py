"""Images and labels as people have them in Python (arrays, lists, tensors, torch data sets), as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from lockgate.errors import DataError

Images = npt.ArrayLike | Tensor
"""(N, H, W), (N, H, W, C) or (N, C, H, W); bytes, or floats in [0, 1]."""
Labels = npt.ArrayLike | Tensor


def labelled(images: Images | Dataset[Any], labels: Labels | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Images and their labels; a ``Dataset`` holds both."""
    if isinstance(images, Dataset):
        if labels is not None:
            raise DataError("A Dataset holds its own labels; leave `labels` out.")
        pairs = _pairs(images)
        return as_array([as_array(x) for x, _ in pairs]), _labels([y for _, y in pairs])
    if labels is None:
        raise DataError(
            "Images were given without labels: a classifier requires y to be passed, but the target y is None. Give a "
            "label for each image."
        )
    return as_array(images), _labels(labels)


def as_array(values: Any) -> npt.NDArray[Any]:
    """Values in one array."""
    if issparse(values):
        raise DataError("Sparse input is not supported: images are dense. Turn it into an array with `.toarray()`.")
    try:
        return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except ValueError as error:
        raise DataError(
            f"Images or labels differ in shape ({error}); wanted one array. Bring them to one size."
        ) from error


def _pairs(images: Dataset[Any]) -> list[Any]:
    # One that can only be run through has no length.
    pairs = list(images) if isinstance(images, IterableDataset) else [images[i] for i in range(len(images))]  # type: ignore[arg-type]
    if not pairs:
        raise DataError("The Dataset is empty; wanted pairs of an image and its label.")
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise DataError(f"The Dataset holds a {type(pair).__name__}; wanted pairs of an image and its label.")
    return pairs


def _labels(labels: Any) -> npt.NDArray[Any]:
    if not isinstance(labels, (list, tuple)):
        return as_array(labels)
    plain = [_plain(label) for label in labels]
    if len({type(label) for label in plain}) <= 1:
        return as_array(plain)
    mixed = np.empty(len(plain), dtype=object)  # NumPy alone would turn ["a", 1] into ["a", "1"]
    mixed[:] = plain
    return mixed


def _plain(label: Any) -> Any:
    single = isinstance(label, np.generic) or (isinstance(label, Tensor) and label.numel() == 1)
    return label.item() if single else label
