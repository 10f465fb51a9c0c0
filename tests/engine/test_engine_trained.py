"""A run as something that answers: the newest learner with the names of its tasks and classes."""

from __future__ import annotations

from pathlib import Path

import torch

from lockgate.engine.trained import open_trained


def test_names_are_in_the_order_of_predictions(finished: Path) -> None:
    trained = open_trained(finished)
    assert len(trained.tasks) == len(trained.classes) == 2
    assert trained.tasks[0] == " ".join(trained.classes[0])
    images = torch.zeros(1, *trained.learner.image_shape, dtype=torch.uint8)
    assert trained.learner.predict(images, None).shape == (1, len(trained.class_names))
    assert [trained.learner.predict(images, t).shape[1] for t in range(2)] == [len(names) for names in trained.classes]
    assert not trained.learner.training
