"""Tensors on disk without their zeros: which entries are there, a bit each, and their values.

    name|2x3|float32    4 bytes: how long what follows is
                        a bit an entry: is it there? deflated where that is shorter
                        the values that are there (of ``bool`` none: each is True)

As layers widen, what a past task can never open is zero: weights of channels that came later, rows of gates that are
sealed. Written whole, each task would add more of it than the one before. Such channels lie in rows and columns, so the
bits repeat themselves, and deflated they are as good as nothing. Of a tensor that is all zeros only the name is left.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from lockgate.errors import CheckpointError
from lockgate.types import State

SAVES = 128
"""Bytes that leaving zeros out has to save: to put a tensor together again takes time."""
LENGTH = 4
"""Bytes that say how long the bits are."""
LEVEL, RAW = 9, -15
"""Of deflate: no header, for most are a few bytes."""
KINDS = {"float32": torch.float32, "bool": torch.bool}
THERE, VALUES = "there", "values"
"""How format 5 named bits and values: they were two tensors."""


def packed(state: Mapping[str, Tensor]) -> State:
    """``state`` with every tensor that is worth it as bytes, of a name that says its shape and kind."""
    made: State = {}
    for name, value in state.items():
        kind = str(value.dtype).removeprefix("torch.")
        small = _without_zeros(value) if kind in KINDS and _size(value) > SAVES else None
        if small is None:
            made[name] = value
        else:
            made[f"{name}|{'x'.join(map(str, value.shape))}|{kind}"] = small
    return made


def unpacked(tensors: Mapping[str, Tensor]) -> State:
    """What ``packed`` was given, today or when it wrote format 5."""
    made: State = {}
    for key, value in tensors.items():
        name, *how = key.rsplit("|", 2)
        if how[1:] == [VALUES]:
            made[name] = _put(_shape(how[0]), tensors[f"{name}|{how[0]}|{THERE}"].numpy(), value)
        elif how[1:] and how[1] in KINDS:
            made[name] = _whole(key, _shape(how[0]), KINDS[how[1]], value)
        elif how[1:] != [THERE]:
            made[key] = value
    return made


def _without_zeros(value: Tensor) -> Tensor | None:
    """Bytes that stand for ``value``; None: it is better written whole. To the bit: -0.0 is there."""
    flat = value.detach().cpu().contiguous().flatten()
    there = flat if flat.dtype == torch.bool else flat.view(torch.int32) != 0
    if not there.any():
        return torch.empty(0, dtype=torch.uint8)
    values = b"" if flat.dtype == torch.bool else flat[there].numpy().tobytes()
    if len(values) + SAVES > _size(value):
        return None
    bits = np.packbits(there.numpy()).tobytes()
    squeezed = _deflated(bits)
    shorter = squeezed if len(squeezed) < len(bits) else bits
    small = len(shorter).to_bytes(LENGTH, "little") + shorter + values
    return torch.frombuffer(bytearray(small), dtype=torch.uint8) if len(small) + SAVES <= _size(value) else None


def _whole(key: str, shape: list[int], dtype: torch.dtype, small: Tensor) -> Tensor:
    """The tensor that ``small`` stands for."""
    if not len(small):
        return torch.zeros(shape, dtype=dtype)
    data, size = small.numpy().tobytes(), -(-math.prod(shape) // 8)
    end = LENGTH + int.from_bytes(data[:LENGTH], "little")
    bits = data[LENGTH:end]
    if len(bits) != size:
        try:
            bits = zlib.decompressobj(RAW).decompress(bits, size)
        except zlib.error as error:
            raise CheckpointError(f"The tensor {key} cannot be read: {error}.") from error
    there = np.frombuffer(bits, dtype=np.uint8)
    if dtype == torch.bool:
        return torch.from_numpy(np.unpackbits(there, count=math.prod(shape)).astype(bool)).reshape(shape)
    return _put(shape, there, torch.frombuffer(bytearray(data[end:]), dtype=dtype))


def _put(shape: list[int], there: np.ndarray, values: Tensor) -> Tensor:
    """``values`` at the entries of which ``there`` has a bit, and zeros."""
    count = math.prod(shape)
    whole = torch.zeros(count, dtype=values.dtype)
    whole[torch.from_numpy(np.unpackbits(there, count=count)).bool()] = values
    return whole.reshape(shape)


def _deflated(data: bytes) -> bytes:
    made = zlib.compressobj(LEVEL, zlib.DEFLATED, RAW)
    return made.compress(data) + made.flush()


def _shape(text: str) -> list[int]:
    return [int(size) for size in text.split("x")] if text else []


def _size(value: Tensor) -> int:
    return value.numel() * value.element_size()
