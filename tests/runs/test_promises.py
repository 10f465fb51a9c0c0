"""What an audit goes by must itself be whole: the records of all tasks, the data, the device."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.support import tiny

from lockgate.app.audit import audit_run
from lockgate.errors import CheckpointError, ExactnessError
from lockgate.runs.checkpoint import newest_end
from lockgate.runs.loading import load
from lockgate.runs.run import resume, run
from lockgate.training.device import require_promised

Tree = Callable[[Path], dict[str, str]]


@pytest.fixture(scope="module")
def _gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gated") / "run"
    run(tiny.experiment("ccgn"), out)
    return out


@pytest.fixture
def gated(_gated: Path, tmp_path: Path) -> Path:
    """A finished run of two tasks that promises its answers."""
    return Path(shutil.copytree(_gated, tmp_path / "gated"))


def without_a_promise(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if '"event": "task", "task": 0' not in line)


def with_another_digit(text: str) -> str:
    return text.replace('"lr": 0.0', '"lr": 0.1', 1)


@pytest.mark.parametrize("change", [without_a_promise, with_another_digit, lambda _: ""])
def test_an_audit_refuses_records_that_are_not_those_of_the_checkpoint(
    gated: Path, tree: Tree, change: Callable[[str], str]
) -> None:
    assert audit_run(gated).ok
    file = gated / "records.jsonl"
    changed = change(file.read_text())
    assert changed != file.read_text()
    file.write_text(changed)
    before = tree(gated)
    for use in (audit_run, resume):
        with pytest.raises(CheckpointError, match=r"records\.jsonl .* when the checkpoint was written.*Restore it"):
            use(gated)
    assert tree(gated) == before


def test_a_run_of_a_version_that_noted_no_digests_can_still_be_audited(
    gated: Path, sign: Callable[[Path], None]
) -> None:
    edit_meta(newest_end(gated / "checkpoints").path, sign, lambda meta: (meta.pop("records_sha256"), meta.pop("data")))
    assert audit_run(gated).ok


def edit_meta(point: Path, sign: Callable[[Path], None], edit: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((point / "manifest.json").read_text())
    edit(manifest["meta"])
    (point / "manifest.json").write_text(json.dumps(manifest))
    sign(point)


def test_answers_promised_on_a_device_that_is_not_here_are_not_called_broken(
    gated: Path, sign: Callable[[Path], None]
) -> None:
    absent = "mps" if torch.cuda.is_available() else "cuda"
    file = gated / "records.jsonl"
    assert '"device": "cpu"' in file.read_text()
    file.write_text(file.read_text().replace('"device": "cpu"', f'"device": "{absent}"'))
    edit_meta(
        newest_end(gated / "checkpoints").path,
        sign,
        lambda meta: (meta.pop("records_sha256"), meta.update(records=file.stat().st_size)),
    )
    with pytest.raises(ExactnessError, match=f"promised its answers on '{absent}', which is not here"):
        audit_run(gated)
    with pytest.raises(ExactnessError, match=f"computes on 'cpu'.*Go on where there is '{absent}'"):
        resume(gated)


def test_a_device_binds_only_those_who_promised() -> None:
    ends = [{"device": "cuda", "promise": {"task": 0}}]
    require_promised(ends, torch.device("cuda"), "it")
    require_promised([{"device": "cuda", "promise": None}], torch.device("cpu"), "it")
    require_promised([], torch.device("cuda"), "it")
    require_promised([{"promise": {"task": 0}}], torch.device("cpu"), "of an earlier version")
    with pytest.raises(ExactnessError):
        require_promised(ends, torch.device("cpu"), "it")


def write_folder(root: Path) -> None:
    rng = np.random.default_rng(0)
    for part, count in (("train", 12), ("test", 4)):
        for label in "abcd":
            place = root / part / label
            place.mkdir(parents=True)
            for i in range(count):
                Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(place / f"{i}.png")


def test_a_run_does_not_go_on_with_other_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tree: Tree) -> None:
    write_folder(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    run(tiny.experiment("ccgn", dataset="folder", data_dir="photos", data={"image_size": 8}), out)
    monkeypatch.chdir("/")  # a relative path is not looked for elsewhere
    assert audit_run(out).ok
    (tmp_path / "photos" / "train" / "a").rename(tmp_path / "photos" / "train" / "z")
    (tmp_path / "photos" / "test" / "a").rename(tmp_path / "photos" / "test" / "z")
    before = tree(out)
    for use in (resume, load, audit_run):
        with pytest.raises(CheckpointError, match=r"photos are not those that the run began with.*Put them back"):
            use(out)
    assert tree(out) == before
