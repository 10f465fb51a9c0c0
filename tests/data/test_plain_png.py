"""Plain PNG files are read as Pillow reads them, and everything else is left to Pillow."""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from lockgate.data.images import decode_image, read_image
from lockgate.data.plain_png import MODES, plain_png
from lockgate.data.preprocessing import Preprocessing
from lockgate.errors import DataError

SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Numbers a pixel, by kind of colour."""
HOW = Preprocessing(5), Preprocessing(3, greyscale=True), Preprocessing(4, resize="crop", background=7)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(
    colours: int, depth: int = 8, filter_: int = 0, interlaced: int = 0, extra: bytes = b"", seed: int = 0
) -> tuple[bytes, np.ndarray]:
    """A file of 5x4 pixels whose rows are all written by one filter, and its bytes of pixels, row by row."""
    bits = SAMPLES[colours] * depth
    row, step = -(-5 * bits // 8), max(1, bits // 8)
    raw = np.random.default_rng(seed).integers(0, 256, (4, row)).astype(np.uint8)
    lines = b""
    for y in range(4):
        left = np.concatenate([np.zeros(step, np.uint8), raw[y]])[:row].astype(int)
        above = raw[y - 1].astype(int) if y else np.zeros(row, int)
        corner = np.concatenate([np.zeros(step, int), above])[:row]
        guess = left + above - corner
        apart = [abs(guess - left), abs(guess - above), abs(guess - corner)]
        paeth = np.where((apart[0] <= apart[1]) & (apart[0] <= apart[2]), left, 0)
        paeth = np.where(
            (apart[0] > apart[1]) | (apart[0] > apart[2]), np.where(apart[1] <= apart[2], above, corner), paeth
        )
        taken = [np.zeros(row, int), left, above, (left + above) // 2, paeth][filter_]
        lines += bytes([filter_]) + ((raw[y] - taken) % 256).astype(np.uint8).tobytes()
    head = struct.pack(">IIBBBBB", 5, 4, depth, colours, 0, 0, interlaced)
    table = chunk(b"PLTE", bytes(range(256)) * 3) if colours == 3 else b""
    body = chunk(b"IHDR", head) + table + extra + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body, raw


def by_pillow(data: bytes, how: Preprocessing) -> np.ndarray | None:
    try:
        with Image.open(io.BytesIO(data)) as image:
            return how(image)
    except Exception:
        return None


def by_us(data: bytes, how: Preprocessing) -> np.ndarray | None:
    try:
        return decode_image(data, "it", how)
    except DataError:
        return None


@pytest.mark.parametrize(("colours", "filter_"), itertools.product(MODES, range(5)))
def test_every_kind_of_colour_and_filter_has_the_pixels_of_the_file(colours: int, filter_: int, tmp_path: Path) -> None:
    data, raw = png(colours, filter_=filter_)
    image = plain_png(data)
    assert image is not None
    assert np.asarray(image).tobytes() == raw.tobytes()
    (tmp_path / "a.png").write_bytes(data)
    for how in HOW:
        wanted = by_pillow(data, how)
        assert wanted is not None
        np.testing.assert_array_equal(read_image(tmp_path / "a.png", how), wanted)
        np.testing.assert_array_equal(by_us(data, how), wanted)


@pytest.mark.parametrize(
    ("colours", "depth"), [(0, 1), (0, 2), (0, 4), (0, 16), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8), (4, 16), (6, 16)]
)
def test_other_depths_and_palettes_are_left_to_pillow(colours: int, depth: int) -> None:
    data, _ = png(colours, depth)
    assert plain_png(data) is None


def test_whatever_else_a_file_holds_is_seen_by_pillow(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    turned = chunk(b"eXIf", exif.tobytes()[6:])
    see_through = chunk(b"tRNS", struct.pack(">H", 9))
    for extra in (turned, see_through, chunk(b"tEXt", b"a\0b"), chunk(b"gAMA", struct.pack(">I", 45455))):
        data, _ = png(0, extra=extra)
        assert plain_png(data) is None
        np.testing.assert_array_equal(by_us(data, HOW[0]), by_pillow(data, HOW[0]))
    assert not np.array_equal(by_us(png(0, extra=turned)[0], HOW[0]), by_us(png(0)[0], HOW[0]))
    assert plain_png(png(0, interlaced=1)[0]) is None


@pytest.mark.parametrize("mode", MODES.values())
def test_what_pillow_writes_is_plain_and_the_same(mode: str, tmp_path: Path) -> None:
    shape = (28, 28, len(mode)) if len(mode) > 1 else (28, 28)
    pixels = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    Image.fromarray(pixels, mode).save(tmp_path / "a.png")
    image = plain_png((tmp_path / "a.png").read_bytes())
    assert image is not None
    np.testing.assert_array_equal(np.asarray(image), pixels)
    note = PngImagePlugin.PngInfo()
    note.add_text("who", "me")
    Image.fromarray(pixels, mode).save(tmp_path / "b.png", pnginfo=note)
    assert plain_png((tmp_path / "b.png").read_bytes()) is None


def test_a_damaged_file_is_what_pillow_makes_of_it() -> None:
    whole, _ = png(2, filter_=4)
    damaged = [whole[:end] for end in range(len(whole))] + [whole + b"\0", whole[:40] + whole]
    for place, bit in itertools.product(range(len(whole)), range(8)):
        damaged.append(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
    refused = 0
    for data in damaged:
        wanted, found = by_pillow(data, HOW[0]), by_us(data, HOW[0])
        refused += wanted is None
        assert (found is None) == (wanted is None), data
        assert wanted is None or np.array_equal(found, wanted), data
    assert 0 < refused < len(damaged)


def test_a_size_that_does_not_fit_the_pixels_is_what_pillow_makes_of_it() -> None:
    data, _ = png(0)
    for (width, height), left in {(0, 4): True, (2**12, 2**12): True, (5, 400): False, (5, 2): False}.items():
        head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
        other = data[:8] + chunk(b"IHDR", head) + data[33:]
        assert (plain_png(other) is None) == left
        wanted, found = by_pillow(other, HOW[0]), by_us(other, HOW[0])
        assert (found is None) == (wanted is None)
        assert wanted is None or np.array_equal(found, wanted)
