"""A run as something that answers: the newest learner with the names of its tasks and classes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from tests.support import folders

from lockgate.app.trained import open_trained
from lockgate.config import DataConfig, Experiment, ModelConfig, OptimConfig
from lockgate.data.preprocessing import Preprocessing
from lockgate.errors import DataError
from lockgate.runs.run import run
from lockgate.training.phase import EVAL_BATCH


def test_names_are_in_the_order_of_predictions(finished: Path) -> None:
    trained = open_trained(finished)
    assert len(trained.tasks) == len(trained.classes) == 2
    assert trained.tasks[0] == " ".join(trained.classes[0])
    images = torch.zeros(1, *trained.learner.image_shape, dtype=torch.uint8)
    assert trained.learner.predict(images, None).shape == (1, len(trained.class_names))
    assert [trained.learner.predict(images, t).shape[1] for t in range(2)] == [len(names) for names in trained.classes]
    assert not trained.learner.training


def test_like_images_are_asked_together_and_answers_stay_in_order(finished: Path) -> None:
    trained = open_trained(finished)
    generator = torch.Generator().manual_seed(0)
    count = 2 * EVAL_BATCH + 9
    light = torch.rand(count, 1, 1, 1, generator=generator)
    x = (torch.rand(count, *trained.learner.image_shape, generator=generator) * light * 255).byte()
    asked: list[torch.Tensor] = []
    assert trained.compiled is not None
    wanted = torch.cat([trained.compiled.predict(part, 0).softmax(1) for part in x.split(EVAL_BATCH)])
    predict = trained.compiled.predict
    trained.compiled.predict = lambda part, task: (asked.append(part), predict(part, task))[1]  # type: ignore[method-assign]
    torch.testing.assert_close(trained.probabilities(x, 0, "compiled")[:, : wanted.shape[1]], wanted)
    bright = [part.float().mean((1, 2, 3)) for part in asked]
    assert [len(part) for part in asked] == [EVAL_BATCH, EVAL_BATCH, 9]
    assert bright[0].max() <= bright[1].min() <= bright[1].max() <= bright[2].min()


def test_a_run_answers_where_its_data_are_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for seed, split in enumerate(("train", "test")):
        folders.write(data / split, dict.fromkeys("abcd", 10), seed)
    experiment = Experiment(
        method="ccgn-episodic",
        dataset="folder",
        tasks=2,
        epochs=1,
        data_dir=str(data),
        data=DataConfig(image_size=8, greyscale=True, resize="crop", background=9),
        model=ModelConfig(width=8),
        optim=OptimConfig(batch_size=8),
    )
    run(experiment, tmp_path / "run")
    images = open_trained(tmp_path / "run").tests[0].x
    answers = open_trained(tmp_path / "run").ask(images)
    shutil.rmtree(data)
    alone = open_trained(tmp_path / "run")
    assert alone.classes == (("a", "b"), ("c", "d"))
    assert alone.ask(images) == answers
    assert alone.preprocessing == Preprocessing(8, greyscale=True, resize="crop", background=9), (
        "pictures are prepared as those it learnt from"
    )
    with pytest.raises(DataError):
        _ = alone.tests


def test_a_task_can_be_named_by_its_number(finished: Path) -> None:
    trained = open_trained(finished)
    assert [trained.task_id(name) for name in ("0", "1", trained.tasks[1])] == [0, 1, 1]
