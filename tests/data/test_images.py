from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lockgate.data.images import class_folders, read_image, read_split
from lockgate.data.preprocessing import Preprocessing
from lockgate.errors import DataError


def png_header(width: int, height: int) -> bytes:
    """A PNG that promises so many pixels and holds none."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    header = struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return b"\x89PNG\r\n\x1a\n" + header + struct.pack(">I", 99) + b"IDAT"


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def test_shrinking_is_the_mean_of_blocks(tmp_path):
    pixels = noise(12, 8, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    wanted = pixels.reshape(4, 3, 4, 2, 3).astype(float).mean((1, 3)).transpose(2, 0, 1)
    assert np.abs(read_image(tmp_path / "a.png", Preprocessing(4)) - wanted).max() <= 1  # Pillow rounds after each axis


def test_same_size_is_unchanged(tmp_path):
    Image.fromarray(noise(8, 8, 3)).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", Preprocessing(8)), noise(8, 8, 3).transpose(2, 0, 1))


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "CMYK"])
@pytest.mark.parametrize(("greyscale", "channels"), [(True, 1), (False, 3)])
def test_every_usual_mode(tmp_path, mode, greyscale, channels):
    Image.fromarray(noise(9, 7, 3)).convert(mode).save(tmp_path / "a.tiff")
    assert read_image(tmp_path / "a.tiff", Preprocessing(5, greyscale=greyscale)).shape == (channels, 5, 5)


@pytest.mark.parametrize("ending", ["png", "jpg", "JPEG", "bmp", "gif", "webp", "ppm"])
def test_every_usual_type(tmp_path, ending):
    Image.fromarray(noise(9, 7, 3)).save(tmp_path / f"a.{ending}")
    assert read_image(tmp_path / f"a.{ending}", Preprocessing(4)).shape == (3, 4, 4)


def test_sixteen_bits_are_refused_rather_than_clipped(tmp_path):
    Image.fromarray(noise(4, 4).astype(np.uint16) * 256).save(tmp_path / "deep.png")
    with pytest.raises(DataError, match=r"deep.png has pixels of mode I.*8 bits a channel"):
        read_image(tmp_path / "deep.png", Preprocessing(4))


@pytest.mark.parametrize(("width", "height"), [(10_000, 9_000), (60_000, 60_000)])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_decompression_bomb(tmp_path, width, height):
    (tmp_path / "bomb.png").write_bytes(png_header(width, height))
    with pytest.raises(DataError, match=r"bomb.png .*Shrink it"):
        read_image(tmp_path / "bomb.png", Preprocessing(4))


def test_truncated_image(tmp_path):
    Image.fromarray(noise(50, 50, 3)).save(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:1500])
    with pytest.raises(DataError, match=r"Cannot read the image .*a.jpg: .*truncated.* Repair it, or remove it"):
        read_image(tmp_path / "a.jpg", Preprocessing(4))


def test_broken_link(tmp_path):
    (tmp_path / "a.png").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"a.png: .*No such file"):
        read_image(tmp_path / "a.png", Preprocessing(4))


def split(folder: Path, counts: dict[str, int]) -> Path:
    for level, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir()
        for i in range(count):
            Image.new("L", (5, 5), 100 * level + i).save(folder / name / f"{i:03}.png")
    return folder


def test_split_is_ordered_by_class_then_name(tmp_path):
    folder = split(tmp_path, {"b": 3, "a": 2})
    data = read_split(folder, ["b", "a"], Preprocessing(5, greyscale=True))
    assert data.x[:, 0, 0, 0].tolist() == [0, 1, 2, 100, 101]
    assert data.y.tolist() == [0, 0, 0, 1, 1]


def test_hidden_files_and_litter_are_passed_over(tmp_path):
    folder = split(tmp_path, {"a": 2})
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (folder / "a" / name).write_text("x")
    (folder / ".cache").mkdir()
    (folder / "notes.txt").write_text("x")
    assert class_folders(folder) == ["a"]
    assert len(read_split(folder, ["a"], Preprocessing(5)).x) == 2


def test_empty_class(tmp_path):
    folder = split(tmp_path, {"a": 2, "bare": 0})
    with pytest.raises(DataError, match=r"class folder .*bare is empty"):
        read_split(folder, ["a", "bare"], Preprocessing(5))


def test_folder_inside_a_class(tmp_path):
    folder = split(tmp_path, {"a": 2})
    (folder / "a" / "more").mkdir()
    with pytest.raises(DataError, match=r"a/more is a folder inside a class folder"):
        read_split(folder, ["a"], Preprocessing(5))


def test_first_bad_file_is_named_whatever_the_threads_do(tmp_path):
    folder = split(tmp_path, {"a": 60})
    for i in (20, 40):
        (folder / "a" / f"{i:03}.png").write_text("text")
    for _ in range(5):
        with pytest.raises(DataError, match=r"020.png"):
            read_split(folder, ["a"], Preprocessing(5))
