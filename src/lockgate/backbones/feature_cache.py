"""Features on disk, computed once an image: memory-mapped, checksummed, keyed by weights and image.

    FOLDER/KEY/0.features     records of one length: SHA-256 of the image | BLAKE2 of the features | float32 features

Records are only appended, one file for each rank. What a killed process left of a record is cut off; a record whose
checksum does not fit is computed anew, in its place; on a full disk nothing more is kept. No answer depends on any of
it: a feature that is not there is computed again, to the same bits.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

DIGEST = 32
"""Bytes of each of the two digests."""


class FeatureCache:
    """Rows of ``length`` float32 by the digest of their image, in a file."""

    def __init__(self, file: Path, length: int) -> None:
        self.file, self.length = file, length
        self._record = 2 * DIGEST + 4 * length
        self._places: dict[bytes, int] = {}
        self._full = False
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        self._open()

    def __len__(self) -> int:
        return len(self._places)

    def _open(self) -> None:
        """Cut off what is no whole record, and read which images are there."""
        whole = self.file.stat().st_size // self._record
        os.truncate(self.file, whole * self._record)
        records = self._map(whole)
        self._places = {bytes(records[i, :DIGEST]): i for i in range(whole)}

    def _map(self, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
        if not count:
            return np.empty((0, self._record), np.uint8)
        return np.memmap(self.file, np.uint8, "r", shape=(count, self._record))

    def get(self, image: bytes) -> Tensor | None:
        """The row of an image, (length,); None if it is not there, or damaged."""
        place = self._places.get(image)
        if place is None:
            return None
        try:
            mapped = np.memmap(self.file, np.uint8, "r", offset=place * self._record, shape=(self._record,))
        except (OSError, ValueError):  # gone, or shorter than it was
            return None
        record = mapped.tobytes()
        row = record[2 * DIGEST :]
        if record[:DIGEST] != image or record[DIGEST : 2 * DIGEST] != _checksum(row):
            return None
        return torch.from_numpy(np.frombuffer(row, np.float32).copy())

    def put(self, image: bytes, row: Tensor) -> None:
        """Keep the row of an image; where the disk is full, go on without."""
        if self._full:
            return
        values = row.detach().cpu().contiguous().numpy().astype(np.float32, copy=False).tobytes()
        place = self._places.get(image, len(self._places))
        try:
            with self.file.open("r+b", buffering=0) as handle:
                handle.seek(place * self._record)
                written = handle.write(image + _checksum(values) + values)
                if written != self._record:
                    raise OSError("the disk is full")
        except OSError as error:
            self._full = True
            logging.getLogger("lockgate").warning(
                "features are not kept in %s any more (%s); they are computed anew", self.file, error
            )
            return
        self._places[image] = place


def image_digest(image: Tensor) -> bytes:
    """SHA-256 of one image's type, shape and bits."""
    plain = image.detach().cpu().contiguous()
    header = f"{plain.dtype} {tuple(plain.shape)} ".encode()
    return hashlib.sha256(header + plain.numpy().tobytes()).digest()


def _checksum(row: bytes) -> bytes:
    return hashlib.blake2b(row, digest_size=DIGEST).digest()
