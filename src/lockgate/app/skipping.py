"""A folder of images of which some cannot be read: they are named and left out, if they are few."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lockgate.data.arrays import Arrays
from lockgate.data.images import image_files, read_files, try_image
from lockgate.data.preprocessing import Preprocessing
from lockgate.data.task_images import FolderImages
from lockgate.errors import DataError

MOST = 0.1
"""Share of bad images up to which they are left out."""


class SkippingImages(FolderImages):
    """``folder/<class>/<images>`` without those that cannot be read; more than the share ``most`` are refused."""

    def __init__(self, folder: Path, most: float = MOST) -> None:
        super().__init__(folder)
        self.most = most
        self.skipped: tuple[str, ...] = ()
        """Why each image that was left out could not be read; known after ``read``."""

    def read(self, how: Preprocessing) -> Arrays:
        """All images that can be read."""
        try:
            return super().read(how)
        except DataError:  # only now is it worth looking at each of them alone
            return self._read_good(how)

    def _read_good(self, how: Preprocessing) -> Arrays:
        files = [(file, label) for label, name in enumerate(self.classes) for file in image_files(self.folder / name)]
        bad: dict[Path, str] = {}
        for file, _ in files:
            found = try_image(file, how)
            if isinstance(found, DataError):
                bad[file] = str(found)
        if len(bad) > self.most * len(files):
            raise DataError(
                f"{len(bad)} of {len(files)} images in {self.folder} cannot be read; wanted at most "
                f"{self.most:.0%} to leave out. The first: {next(iter(bad.values()))} Mend them, or allow more "
                "(--most-bad)."
            )
        self.skipped = tuple(bad.values())
        good = [(file, label) for file, label in files if file not in bad]
        x = read_files([file for file, _ in good], how, str(self.folder))
        return Arrays(x, np.array([label for _, label in good], np.int64))
