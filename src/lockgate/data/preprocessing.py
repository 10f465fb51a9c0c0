"""How a picture of any kind becomes the square of pixels that a network looks at. One record, for files and arrays.

    turned as its EXIF orientation says  ->  transparency laid on a background  ->  grey or colour  ->  resized

stretch   the whole picture to a square by Pillow's BOX filter (the mean of the pixels under each new one), as in
          downsampled ImageNet (Chrabaszcz et al., 2017); its proportions change, nothing is cut off
crop      the shorter side to the size (bicubic), then the middle of the longer one: what networks trained on ImageNet
          are used to; proportions stay, edges are cut off

A backbone whose weights were trained elsewhere prescribes what it wants (``Backbone.preprocessing``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from lockgate.config import DataConfig

Pixels = npt.NDArray[np.uint8]  # (C, H, W)
Resize = Literal["stretch", "crop"]

WHITE = 255
ORIENTATION = 0x0112
"""The EXIF tag that says how the camera was held."""
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What puts a picture of each orientation upright."""
TRANSPARENT = {"RGBA", "LA", "PA", "RGBa", "La"}  # modes of Pillow


@dataclass(frozen=True)
class Preprocessing:
    """What is done to every picture. Where ``mean`` and ``std`` are given they belong to a network's weights."""

    size: int
    """Side of the square, in pixels."""
    mean: tuple[float, ...] = ()
    """By channel, of pixels in [0, 1]; empty: the first task's."""
    std: tuple[float, ...] = ()
    greyscale: bool = False
    resize: Resize = "stretch"
    background: int = WHITE
    """Grey level, 0 to 255, on which transparent pixels lie."""

    @staticmethod
    def of(config: DataConfig) -> Preprocessing:
        """As a configuration describes it."""
        return Preprocessing(
            config.image_size, greyscale=config.greyscale, resize=config.resize, background=config.background
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of what comes out."""
        return (1 if self.greyscale else 3), self.size, self.size

    def in_words(self) -> str:
        """For whoever has to do the same without Lockgate; of a picture that is upright and opaque."""
        side, mode = self.size, "L" if self.greyscale else "RGB"
        if self.resize == "stretch":
            return (
                f"the whole image to {side}x{side}, each new pixel the mean of those under it (Pillow: "
                f"Image.convert('{mode}').resize(({side}, {side}), Image.Resampling.BOX)); nothing is cropped"
            )
        return (
            f"the square in the middle of the image, as large as its shorter side, to {side}x{side}, bicubic (Pillow: "
            f"Image.convert('{mode}').resize(({side}, {side}), Image.Resampling.BICUBIC, box=(left, top, right, "
            "bottom) of that square))"
        )

    def __call__(self, image: Image.Image) -> Pixels:
        """The picture as (C, size, size)."""
        if self.resize == "crop":
            # JPEG decodes to a half, a quarter or an eighth many times faster; never below twice what is wanted.
            image.draft(None, (2 * self.size, 2 * self.size))
        return self.of_upright(upright(image))

    def of_upright(self, image: Image.Image) -> Pixels:
        """The same, of a picture that is upright."""
        image, mode = opaque(image, self.background), "L" if self.greyscale else "RGB"
        image = image if image.mode == mode else image.convert(mode)
        image = _cropped(image, self.size) if self.resize == "crop" else _stretched(image, self.size)
        pixels = np.frombuffer(image.tobytes(), np.uint8)  # as `asarray` has it, which asks more questions
        if self.greyscale:
            return pixels.reshape(self.shape)
        return pixels.reshape(self.size, self.size, 3).transpose(2, 0, 1)


def upright(image: Image.Image) -> Image.Image:
    """The picture turned as its EXIF orientation says."""
    image.load()  # some formats turn themselves when they are decoded, and drop the tag
    try:
        turn = TURNS.get(image.getexif().get(ORIENTATION, 1))
    except Exception:  # a broken tag is no reason to refuse a picture that can be seen
        return image
    return image if turn is None else image.transpose(turn)


def opaque(image: Image.Image, background: int) -> Image.Image:
    """The picture on a grey ``background`` where it is transparent."""
    if image.mode not in TRANSPARENT and "transparency" not in image.info:
        return image
    picture = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", picture.size, (background,) * 3 + (255,)), picture)


def _stretched(image: Image.Image, size: int) -> Image.Image:
    return image if image.size == (size, size) else image.resize((size, size), Image.Resampling.BOX)


def _cropped(image: Image.Image, size: int) -> Image.Image:
    """Of the whole picture, the middle square, resized in one step."""
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return image.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
