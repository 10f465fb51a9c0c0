"""Checkpoints of format 5, which wrote what is left of a tensor without its zeros as two, are read as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from tests.support import folders

from lockgate.app.audit import audit_run
from lockgate.app.model_dir import ModelFolder
from lockgate.app.trained import open_trained
from lockgate.app.undo import undo
from lockgate.runs.packing import VALUES

OLD = Path(__file__).with_name("written_in_format_5")
"""A model of three tasks, two epochs each, that `lockgate learn` made at commit f6b452c."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD / "model", tmp_path / "model"))


def files(model: Path) -> dict[str, bytes]:
    """What the newest end of a task holds."""
    end = ModelFolder(model).end()
    assert end is not None
    return {file.name: file.read_bytes() for file in end.path.iterdir()}


def test_it_opens_and_its_promises_hold_to_the_bit(model: Path) -> None:
    assert f"|{VALUES}".encode() in files(model)["learner.safetensors"], "zeros were left out as then"
    verdict = audit_run(model)
    assert verdict.ok, verdict.text()
    assert (verdict.tensors, verdict.logits) == (141, 3), "as many as it counted itself, and one task more"


def test_it_learns_on_in_the_new_format_and_goes_back(model: Path, tmp_path: Path) -> None:
    images = torch.randint(256, (8, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    before, answered = files(model), open_trained(model).probabilities(images, 0)
    plants = folders.write(tmp_path / "plants", {"fern": 8, "moss": 8})
    folders.teach(model, plants, folders.UserSettings(epochs=1, batch_size=8))
    learnt = open_trained(model)
    assert len(learnt.tasks) == 4
    assert torch.equal(learnt.probabilities(images, 0)[:, :8], torch.cat([answered, torch.zeros(8, 2)], dim=1))
    assert audit_run(model).ok
    undo(model)
    assert files(model) == before
