"""A checkpoint is there whole or not at all, says when it is damaged, and gives back what was put in."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lockgate.errors import CheckpointError
from lockgate.runs import checkpoint
from lockgate.runs.checkpoint import Checkpoint

META = {"stage": 1, "records": 17, "seconds": 0.25, "structure": [{"classes": 2}], "text": "ü"}
STATE = {
    "float": torch.tensor([[0.1, -0.0, float("inf"), 1e-45]]),
    "transposed": torch.arange(6.0).reshape(2, 3).t(),
    "scalar": torch.tensor(7),
    "mask": torch.tensor([True, False]),
    "bytes": torch.arange(256).to(torch.uint8),
    "double": torch.tensor([torch.pi], dtype=torch.float64),
    "none": torch.empty(0, 3),
}


def trained(steps: int) -> tuple[nn.Linear, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    groups = [{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.3}]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.01)
    for _ in range(steps):
        step(model, optimiser)
    return model, optimiser


def step(model: nn.Linear, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    model(torch.ones(4, 3)).square().sum().backward()
    optimiser.step()


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    made = checkpoint.save(tmp_path / "new" / "checkpoints", "fit", META, {"learner": STATE, "best": {}})
    (point,) = checkpoint.found(tmp_path / "new" / "checkpoints")
    assert point == made
    assert (point.number, point.kind) == (1, "fit")
    assert point.manifest()["meta"] == META
    loaded = point.tensors("learner")
    assert loaded is not None
    assert loaded.keys() == STATE.keys()
    for name, tensor in STATE.items():
        assert loaded[name].dtype == tensor.dtype
        assert loaded[name].shape == tensor.shape
        assert loaded[name].contiguous().numpy().tobytes() == tensor.contiguous().numpy().tobytes()
    assert point.tensors("best") == {}
    assert point.tensors("other") is None
    assert point.optimiser() is None


def test_an_optimiser_goes_on_from_a_checkpoint_as_if_nothing_had_happened(tmp_path: Path) -> None:
    model, optimiser = trained(steps=3)
    point = checkpoint.save(tmp_path, "fit", {}, {"learner": model.state_dict()}, optimiser.state_dict())
    fresh, again = trained(steps=0)
    tensors, state = point.tensors("learner"), point.optimiser()
    assert tensors is not None
    assert state is not None
    fresh.load_state_dict(tensors)
    again.load_state_dict(state)
    step(model, optimiser)
    step(fresh, again)
    assert torch.equal(fresh.weight, model.weight)
    assert torch.equal(fresh.bias, model.bias)


def test_a_leftover_of_a_killed_writer_is_no_checkpoint_and_is_replaced(tmp_path: Path) -> None:
    first = checkpoint.save(tmp_path, "fit", META, {"learner": STATE})
    partial = tmp_path / ".000002-fit.partial"
    shutil.copytree(first.path, partial)
    (partial / "junk").write_text("half of a file")
    assert checkpoint.found(tmp_path) == [first]
    second = checkpoint.save(tmp_path, "fit", META, {"learner": STATE})
    assert not partial.exists()
    assert checkpoint.found(tmp_path) == [first, second]
    assert sorted(p.name for p in second.path.iterdir()) == ["learner.safetensors", "manifest.json"]
    assert second.manifest()["meta"] == META


def test_a_folder_that_is_not_there_holds_no_checkpoints(tmp_path: Path) -> None:
    assert checkpoint.found(tmp_path / "nowhere") == []


@settings(deadline=None, max_examples=12)
@given(st.lists(st.sampled_from(["task", "fit"]), min_size=1, max_size=7))
def test_the_last_two_checkpoints_and_the_last_two_ends_of_a_task_are_kept(kinds: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        for kind in kinds:
            checkpoint.save(Path(name), kind, {}, {"learner": {"x": torch.zeros(1)}})
        written = [(number, kind) for number, kind in enumerate(kinds, start=1)]
        ends = [entry for entry in written if entry[1] == "task"]
        kept = [(c.number, c.kind) for c in checkpoint.found(Path(name))]
        assert kept == sorted(set(written[-2:]) | set(ends[-2:]))


def test_numbers_go_on_after_ten(tmp_path: Path) -> None:
    for _ in range(11):
        checkpoint.save(tmp_path, "fit", {}, {"learner": {}})
    assert [c.number for c in checkpoint.found(tmp_path)] == [10, 11]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    _, optimiser = trained(steps=1)
    folder = tmp_path_factory.mktemp("whole")
    return checkpoint.save(folder, "fit", META, {"learner": STATE, "best": STATE}, optimiser.state_dict())


@contextmanager
def _replaced(file: Path, content: bytes) -> Iterator[None]:
    before = file.read_bytes()
    try:
        file.write_bytes(content)
        yield
    finally:
        file.write_bytes(before)


@settings(deadline=None, max_examples=80)
@given(data=st.data())
@pytest.mark.parametrize("name", ["manifest.json", "learner.safetensors", "best.safetensors", "optimiser.pt"])
def test_no_changed_byte_goes_unnoticed(whole: Checkpoint, name: str, data: st.DataObject) -> None:
    file = whole.path / name
    before = file.read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    changed = bytearray(before)
    changed[place] ^= data.draw(st.integers(1, 255))
    with _replaced(file, bytes(changed)), pytest.raises(CheckpointError, match=name):
        whole.manifest()


@pytest.mark.parametrize("other", [b"\r", b"\t", b" "])
def test_not_even_one_kind_of_white_space_for_another(whole: Checkpoint, other: bytes) -> None:
    file = whole.path / "manifest.json"
    changed = file.read_bytes().replace(b"\n", other, 1)
    with _replaced(file, changed), pytest.raises(CheckpointError, match=r"manifest\.json"):
        whole.manifest()


@pytest.mark.parametrize("length", [0, 1, 50])
@pytest.mark.parametrize("name", ["manifest.json", "learner.safetensors", "optimiser.pt"])
def test_a_truncated_file_is_named(whole: Checkpoint, name: str, length: int) -> None:
    file = whole.path / name
    with _replaced(file, file.read_bytes()[:length]), pytest.raises(CheckpointError, match=name):
        whole.manifest()


def test_a_manifest_as_it_was_written_before_is_read(whole: Checkpoint, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(whole.path, tmp_path / "000001-fit"))
    text = (copy / "manifest.json").read_text()
    (copy / "manifest.json").write_text(json.dumps(json.loads(text), indent=1))
    assert (copy / "manifest.json").read_text() != text
    assert Checkpoint(copy).manifest() == whole.manifest()


@pytest.mark.parametrize("name", ["manifest.json", "learner.safetensors", "optimiser.pt"])
def test_a_missing_file_is_named(whole: Checkpoint, tmp_path: Path, name: str) -> None:
    copy = Checkpoint(Path(shutil.copytree(whole.path, tmp_path / "000001-fit")))
    (copy.path / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        copy.manifest()


def test_a_manifest_of_another_format_is_refused_with_both_numbers(tmp_path: Path, sign: Any) -> None:
    point = checkpoint.save(tmp_path, "fit", META, {"learner": STATE})
    manifest = json.loads((point.path / "manifest.json").read_text())
    manifest["format"] = 99
    (point.path / "manifest.json").write_text(json.dumps(manifest, indent=1))
    sign(point.path)
    with pytest.raises(CheckpointError, match=r"has format 99; .* reads 2, 3, 4, 5 and 6\."):
        point.manifest()


def test_a_number_written_otherwise_is_a_damage_too(tmp_path: Path) -> None:
    """0.1 and 0.10000000000000001 are one number: a flipped bit in a last digit must not pass."""
    point = checkpoint.save(tmp_path, "fit", {**META, "seconds": 0.1}, {"learner": STATE})
    file = point.path / "manifest.json"
    file.write_text(file.read_text().replace('"seconds": 0.1', '"seconds": 0.10000000000000001'))
    with pytest.raises(CheckpointError, match="its own checksum does not fit"):
        point.manifest()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "3",
        "{}",
        '{"self": 1}',
        "[]",
    ],
)
def test_json_that_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    point = checkpoint.save(tmp_path, "fit", META, {"learner": STATE})
    (point.path / "manifest.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"manifest\.json is damaged"):
        point.manifest()
