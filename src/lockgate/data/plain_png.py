"""PNG files that hold an image and nothing else, as sets of small images do: header, one block of pixels, end.

Pillow's own decoder makes their pixels, so they are the same bit for bit; what is spared is to look for what such a
file cannot hold (palettes, profiles, texts, the EXIF tag that turns a picture), which for a small image takes longer
than its pixels do. Whatever is unusual or damaged is not read here: Pillow reads it, or says what is wrong.
"""

from __future__ import annotations

import struct
import threading
import zlib

from PIL import Image

HEAD = struct.Struct(">16sII5BII4s")
"""Signature and the beginning of the first chunk; width, height, depth, colours, compression, filters, interlacing, and
their checksum; then length and name of the second chunk."""
BEGIN = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
END = b"\0\0\0\0IEND\xaeB`\x82"
MODES = {0: "L", 2: "RGB", 4: "LA", 6: "RGBA"}
"""What Pillow calls the kinds of colour that need no palette, of 8 bits."""
MOST_PIXELS = 2**20
_IMAGES = threading.local()


def plain_png(data: bytes) -> Image.Image | None:
    """The image in the bytes of such a file, upright; None: they are something else.

    It is good until this thread asks for the next one of its size: to make an image takes as long as to decode it.
    """
    if not (data.startswith(BEGIN) and data.endswith(END) and len(data) >= HEAD.size):
        return None
    _, width, height, depth, colours, compression, filters, interlaced, check, length, name = HEAD.unpack_from(data)
    whole = name == b"IDAT" and HEAD.size + length + 4 + len(END) == len(data)  # 4: a checksum, which nobody looks at
    usual = depth == 8 and colours in MODES and not (compression or filters or interlaced)
    if not (whole and usual and 0 < width * height <= MOST_PIXELS and zlib.crc32(data[12:29]) == check):
        return None
    mode, pixels = MODES[colours], data[HEAD.size : HEAD.size + length]
    try:
        image = _own(mode, width, height)
        image.frombytes(pixels, "zip", mode, 0)
    except ValueError:  # too few pixels, or broken ones
        return None
    return image


def _own(mode: str, width: int, height: int) -> Image.Image:
    """An image of this thread's, with any pixels."""
    last: Image.Image | None = getattr(_IMAGES, "last", None)
    if last is None or last.mode != mode or last.size != (width, height):
        last = _IMAGES.last = Image.new(mode, (width, height))
    return last
