"""Images that do not fit into memory are decoded once, and are the same bytes wherever they lie."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.support import tiny

from lockgate.config import DataConfig
from lockgate.data import cache
from lockgate.data import folder as dataset
from lockgate.data.images import read_files
from lockgate.data.preprocessing import Preprocessing
from lockgate.errors import DataError
from lockgate.methods import METHODS
from lockgate.runs.build import build_scenario
from lockgate.runs.run import resume, run
from lockgate.scenario.rows import MappedExamples
from lockgate.testing.observing import counted_steps, last_state

HOW = Preprocessing(5)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return write(tmp_path / "some", 7)


def write(folder: Path, count: int, seed: int = 0) -> list[Path]:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for i in range(count):
        Image.fromarray(rng.integers(0, 256, (8, 6, 3)).astype(np.uint8)).save(folder / f"{i}.png")
    return sorted(folder.iterdir())


def test_a_mapped_split_has_the_bytes_of_one_in_memory(files, place):
    mapped = read_files(files, HOW, in_memory=0)
    assert cache.is_mapped(mapped)
    np.testing.assert_array_equal(mapped, read_files(files, HOW))
    assert not cache.is_mapped(read_files(files, HOW)), "what fits is read into memory"
    assert [f.suffix for f in place.iterdir()] == [".u8"]


def test_it_is_decoded_once(files, monkeypatch):
    read_files(files, HOW, in_memory=0)
    monkeypatch.setattr(Image, "open", lambda *_: pytest.fail("decoded again"))
    assert len(read_files(files, HOW, in_memory=0)) == 7


@pytest.mark.parametrize("change", ["content", "preprocessing", "order"])
def test_whatever_decides_the_bytes_makes_another_file(files, place, change):
    read_files(files, HOW, in_memory=0)
    how = Preprocessing(5, background=0) if change == "preprocessing" else HOW
    if change == "content":
        Image.new("RGB", (8, 6)).save(files[2])
        os.utime(files[2], ns=(1, 1))
    if change == "order":
        files.reverse()
    np.testing.assert_array_equal(read_files(files, how, in_memory=0), read_files(files, how))
    assert len(list(place.iterdir())) == 2


@pytest.mark.parametrize("damage", ["a bit", "its end", "all"])
def test_a_damaged_file_is_named_and_made_anew(files, place, capsys, damage):
    read_files(files, HOW, in_memory=0)
    (file,) = place.iterdir()
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes({"a bit": bytes(content), "its end": bytes(content[:-9]), "all": b""}[damage])
    np.testing.assert_array_equal(read_files(files, HOW, in_memory=0), read_files(files, HOW))
    assert f"The image cache {file} is damaged: it is made anew." in capsys.readouterr().err
    read_files(files, HOW, in_memory=0)
    assert capsys.readouterr().err == ""


def test_bad_images_are_named_and_leave_nothing(files, place):
    files[1].write_text("text")
    files[4].write_text("text")
    with pytest.raises(DataError, match=r"1\.png.*\n.*4\.png"):
        read_files(files, HOW, in_memory=0)
    assert list(place.iterdir()) == []


def test_a_full_disk_is_told_with_a_remedy_and_leaves_nothing(files, place, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"No space left on device\. Free some room there, set LOCKGATE_CACHE"):
        read_files(files, HOW, in_memory=0)
    assert list(place.iterdir()) == []


def photos(tmp_path: Path) -> Path:
    for seed, split in enumerate(("train", "test")):
        for label, name in enumerate("abcd"):
            write(tmp_path / "photos" / split / name, 12 - 6 * seed, 10 * seed + label)
    return tmp_path / "photos"


def experiment(folder: Path, in_memory: int, method: str = "ccgn-episodic", **over):
    data = {"image_size": 8, "in_memory": in_memory}
    return tiny.experiment(method, dataset="folder", data_dir=str(folder), data=data, **over)


def test_tasks_of_a_mapped_folder_fetch_what_is_asked_for(tmp_path):
    folder = photos(tmp_path)
    mapped, read = (build_scenario(experiment(folder, size)) for size in (0, 4096))
    assert mapped.digest == read.digest, "a run can be resumed wherever its images lie"
    for one, other in zip(mapped.tasks, read.tasks, strict=True):
        for part in ("train", "val", "test"):
            a, b = getattr(one, part), getattr(other, part)
            assert isinstance(a, MappedExamples)
            assert torch.equal(a.x, b.x)
            assert torch.equal(a.y, b.y)
            assert torch.equal(a.batch(torch.tensor([1, 0])).x, b.x[[1, 0]])
            assert a.image_shape == b.image_shape
            assert torch.equal(torch.cat(list(a.parts(3))), b.x)


def test_a_rank_is_sent_the_name_of_the_file_and_not_its_content(tmp_path):
    part = build_scenario(experiment(photos(tmp_path), 0)).tasks[0].train
    sent = pickle.dumps(part)
    assert len(sent) < part.x.numel() / 2
    assert torch.equal(pickle.loads(sent).x, part.x)


@pytest.mark.parametrize("method", ["ccgn-episodic", "icarl"])
def test_a_run_on_a_mapped_folder_ends_with_the_same_bits(tmp_path, method):
    folder = photos(tmp_path)
    summaries = [run(experiment(folder, size, method), tmp_path / str(size)) for size in (0, 4096)]
    states = [last_state(tmp_path / str(size)) for size in (0, 4096)]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    assert summaries[0]["class_incremental"] == summaries[1]["class_incremental"]


def test_a_stopped_run_resumes_to_the_same_bits_though_its_cache_was_damaged(tmp_path, place, capsys):
    folder, often = photos(tmp_path), {"checkpoint_seconds": 0.0}
    run(experiment(folder, 0, runtime=often), tmp_path / "whole")
    with counted_steps(METHODS["ccgn-episodic"], stop_after=3), pytest.raises(KeyboardInterrupt):
        run(experiment(folder, 0, runtime=often), tmp_path / "stopped")
    for file in place.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    resume(tmp_path / "stopped")
    assert "damaged" in capsys.readouterr().err
    whole, stopped = last_state(tmp_path / "whole"), last_state(tmp_path / "stopped")
    assert all(torch.equal(value, stopped[name]) for name, value in whole.items())


def test_the_sizes_of_a_folder_are_known_without_a_cache(tmp_path, place):
    dataset.size(photos(tmp_path), DataConfig(in_memory=0))
    assert not place.exists()
