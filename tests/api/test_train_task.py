"""A loop of one's own: the same bits as a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load as read_tensors
from tests.support import tiny

import lockgate
from lockgate.config import OptimConfig
from lockgate.errors import ConfigError, TrainingError
from lockgate.methods import METHODS
from lockgate.runs.build import build_learner, build_scenario
from lockgate.runs.log import read_records
from lockgate.runs.packing import unpacked
from lockgate.scenario import join


@pytest.mark.parametrize("method", list(METHODS))
def test_each_method_comes_to_the_bits_of_a_run(
    method: str, tmp_path: Path, last_bits: Callable[[Path], bytes]
) -> None:
    experiment = tiny.experiment(method, seed=5)
    lockgate.run(experiment, tmp_path / "run", quiet=True)
    scenario = build_scenario(experiment)
    learner = build_learner(experiment, scenario.image_shape)
    torch.manual_seed(1)  # of no importance
    before = torch.get_rng_state()
    records: list[dict[str, Any]] = []
    for task in (join(scenario.tasks),) if learner.joint else scenario.tasks:
        records += lockgate.train_task(
            learner,
            task,
            epochs=experiment.epochs,
            optim=experiment.optim,
            runtime=experiment.runtime,
            seed=experiment.seed,
        )
    assert torch.equal(before, torch.get_rng_state())
    wanted = unpacked(read_tensors(last_bits(tmp_path / "run")))
    found = learner.state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(value, wanted[name]) for name, value in found.items())
    epochs = [record for record in read_records(tmp_path / "run" / "records.jsonl") if record["event"] != "task"]
    assert [{**r, "seconds": 0} for r in records] == [{**r, "seconds": 0} for r in epochs]


def test_make_method_begins_as_a_run_does() -> None:
    experiment = tiny.experiment("ccgn", "mlp", seed=7)
    one = build_learner(experiment, (3, 16, 16)).state_dict()
    options = experiment.options
    same = lockgate.make_method("ccgn", (3, 16, 16), network="mlp", model={"width": 8}, seed=7, **options).state_dict()
    assert one.keys() == same.keys()
    assert all(torch.equal(value, same[name]) for name, value in one.items())
    with pytest.raises(ConfigError, match=r"options\.sparsty"):
        lockgate.make_method("ccgn", (3, 16, 16), sparsty=1)


def test_optim_is_taken_as_keywords_too_and_checked() -> None:
    learner, scenario = tiny.world("finetune")
    same, _ = tiny.world("finetune")
    lockgate.train_task(learner, scenario.tasks[0], epochs=1, optim={"lr": 0.01, "batch_size": 8})
    lockgate.train_task(same, scenario.tasks[0], epochs=1, optim=OptimConfig(lr=0.01, batch_size=8))
    assert all(torch.equal(a, b) for a, b in zip(learner.parameters(), same.parameters(), strict=True))
    with pytest.raises(ConfigError, match=r"optim\.lrr"):
        lockgate.train_task(learner, scenario.tasks[1], optim={"lrr": 1})


def test_tasks_come_in_their_order() -> None:
    learner, scenario = tiny.world("finetune")
    with pytest.raises(ConfigError, match=r"has learnt 0 tasks\. Got task 1 instead"):
        lockgate.train_task(learner, scenario.tasks[1])
    with pytest.raises(ConfigError, match="Got all tasks joined"):
        lockgate.train_task(learner, join(scenario.tasks))
    joint, _ = tiny.world("joint")
    with pytest.raises(ConfigError, match="all tasks at once"):
        lockgate.train_task(joint, scenario.tasks[0])


def test_a_diverged_task_says_so_and_callbacks_hear_each_epoch() -> None:
    learner, scenario = tiny.world("finetune")
    heard: list[int] = []

    class Counts(lockgate.Callback):
        def on_epoch_end(self, record: dict[str, Any]) -> None:
            heard.append(record["epoch"])

    lockgate.train_task(learner, scenario.tasks[0], epochs=2, callbacks=[Counts()])
    assert heard == [0, 1]
    with pytest.raises(TrainingError, match=r"not finite.*optim\.lr"):
        lockgate.train_task(learner, scenario.tasks[1], epochs=2, optim={"lr": 1e30, "clip": 0.0, "optimiser": "sgd"})
