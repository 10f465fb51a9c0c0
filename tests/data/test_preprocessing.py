"""A picture is looked at as a person sees it: upright, on a background, in its proportions if so wanted."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from lockgate.config import DataConfig
from lockgate.data.images import decode_image, read_image
from lockgate.data.preprocessing import ORIENTATION, Preprocessing

NOISE = np.random.default_rng(0).integers(0, 256, (6, 6, 3)).astype(np.uint8)
SQUARE = Preprocessing(6)


def turned(pixels: np.ndarray, orientation: int, kind: str) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, exif=exif, **({"lossless": True} if kind == "WEBP" else {}))
    return file.getvalue()


# Where each orientation of the standard puts the first row and column of what is stored: (rows, columns) as seen.
SEEN = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: a.transpose(1, 0, 2)[:, ::-1],
    7: lambda a: a.transpose(1, 0, 2)[::-1, ::-1],
    8: lambda a: a.transpose(1, 0, 2)[::-1],
}


@pytest.mark.parametrize("orientation", SEEN)
@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_a_picture_is_turned_as_its_camera_was_held(orientation, kind):
    found = decode_image(turned(NOISE, orientation, kind), "a picture", SQUARE)
    np.testing.assert_array_equal(found.transpose(1, 2, 0), SEEN[orientation](NOISE))


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_jpeg_and_tiff_are_turned_once(tmp_path, kind):
    wide = np.zeros((4, 8, 3), np.uint8)
    wide[:, :4] = 255  # white on the left, as stored; at the top, as seen
    (tmp_path / "a").write_bytes(turned(wide, 6, kind))
    found = read_image(tmp_path / "a", Preprocessing(2))
    assert found[0].tolist() == [[255, 255], [0, 0]]


def test_a_broken_orientation_does_not_hide_the_picture():
    found = decode_image(turned(NOISE, 77, "PNG"), "a picture", SQUARE)
    np.testing.assert_array_equal(found.transpose(1, 2, 0), NOISE)
    file = io.BytesIO()
    Image.fromarray(NOISE).save(file, "WEBP", lossless=True, exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert decode_image(file.getvalue(), "a picture", SQUARE).shape == (3, 6, 6)


def transparent(mode: str) -> Image.Image:
    """Red on the left, nothing on the right: black there, if transparency were dropped."""
    picture = Image.new("RGBA", (4, 2), (0, 0, 0, 0))
    picture.paste((255, 0, 0, 255), (0, 0, 2, 2))
    if mode != "PA":
        return picture.convert(mode)
    palette = picture.convert("RGB").convert("P").convert("PA")  # from RGBA at once, older Pillows lose transparency
    palette.putalpha(picture.getchannel("A"))
    return palette


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
@pytest.mark.parametrize(("background", "seen"), [(255, 255), (0, 0), (128, 128)])
def test_transparency_lies_on_the_background(mode, background, seen):
    found = Preprocessing(2, background=background)(transparent(mode))
    assert found[:, :, 1].tolist() == [[seen, seen]] * 3
    assert (found[0, 0, 0] > 200) == (mode != "LA"), "what is not transparent stays"


def test_half_transparent_pixels_are_mixed_before_they_are_resized():
    picture = Image.new("RGBA", (2, 2), (0, 0, 0, 0))
    picture.putpixel((0, 0), (0, 0, 0, 255))
    assert int(Preprocessing(1)(picture)[0, 0, 0]) == pytest.approx(255 * 3 / 4, abs=1)


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_a_palette_with_a_transparent_colour_lies_on_white(kind):
    picture = Image.new("P", (2, 1), 0)
    picture.putpalette([0, 0, 0, 10, 20, 30])
    picture.putpixel((1, 0), 1)
    file = io.BytesIO()
    picture.save(file, kind, transparency=0)
    found = decode_image(file.getvalue(), "a picture", Preprocessing(2))
    assert found[:, 0].T.tolist() == [[255, 255, 255], [10, 20, 30]]


def test_crop_is_the_middle_square_and_stretch_is_all_of_it():
    wide = Image.new("RGB", (12, 4), (255, 0, 0))
    wide.paste((0, 255, 0), (4, 0, 8, 4))
    crop, stretch = (Preprocessing(4, resize=kind)(wide) for kind in ("crop", "stretch"))
    assert (crop[1] == 255).all()
    assert (crop[0] == 0).all()
    assert stretch[0, 0].tolist() == [255, 85, 85, 255]  # thirds: 3 pixels of 12 in each of 4


@pytest.mark.parametrize("shape", [(300, 400), (401, 299), (3000, 2000)])
@pytest.mark.parametrize("size", [160, 224, 288])
def test_crop_of_a_photo_is_what_pillow_fits(shape, size):
    """An independent way: ``ImageOps.fit``. A JPEG that is decoded at a fraction of its size differs by little."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    smooth = np.stack([rows * 200 // shape[0], columns * 200 // shape[1], (rows + columns) % 200], -1).astype(np.uint8)
    smooth[..., 2] = 90
    file = io.BytesIO()
    Image.fromarray(smooth).save(file, "JPEG", quality=95)
    found = decode_image(file.getvalue(), "a photo", Preprocessing(size, resize="crop"))
    wanted = ImageOps.fit(Image.open(file), (size, size), Image.Resampling.BICUBIC)
    assert found.shape == (3, size, size)
    assert np.abs(found.transpose(1, 2, 0).astype(int) - np.asarray(wanted, int)).max() <= 3


def test_an_arrangement_is_what_the_configuration_says():
    how = Preprocessing.of(DataConfig(image_size=224, greyscale=True, resize="crop", background=7))
    assert how == Preprocessing(224, greyscale=True, resize="crop", background=7)
    assert how.shape == (1, 224, 224)
