"""Two data-parallel ranks hold the same parameters, and compute what one rank computes."""

from __future__ import annotations

import functools

import pytest
import torch
from ranks_worker import work
from safetensors.torch import load_file

import tiny
from lockgate.engine import checkpoint
from lockgate.engine.device import make_fabric
from lockgate.engine.folder import RunFolder
from lockgate.engine.run import run
from lockgate.engine.setup import build_scenario
from lockgate.methods import METHODS

CASES = [(method, "simple_cnn", {}) for method in METHODS]
CASES += [("ccgn", "resnet18", {}), ("ccgn-episodic", "resnet18", {})]
CASES += [("ccgn-episodic", "simple_cnn", tiny.SETTLING), ("ccgn", "resnet18", tiny.SETTLING)]


@pytest.mark.parametrize(("method", "backbone", "options"), CASES)
def test_two_ranks_train_two_tasks_and_hold_equal_parameters(method, backbone, options, tmp_path):
    experiment = tiny.experiment(method, backbone, devices=2, epochs=2, options=options)
    folder = RunFolder(tmp_path / "run")
    folder.create(experiment, "test")
    summary, differing = make_fabric(experiment).launch(
        functools.partial(work, experiment=experiment, scenario=build_scenario(experiment), folder=folder)
    )
    assert not differing
    assert len(summary["task_incremental"]["matrix"][-1]) == 2
    assert summary["audit"] is None or summary["audit"]["ok"]


def test_two_ranks_compute_what_one_rank_computes(tmp_path):
    """Without BatchNorm or noise, the mean of two half batches' gradients is the whole batch's gradient."""
    states = []
    for devices in (1, 2):
        out = tmp_path / str(devices)
        run(tiny.experiment("finetune", "simple_cnn", devices=devices, optim={"lr": 0.01}), out)
        states.append(load_file(checkpoint.found(out / "checkpoints")[-1].path / "learner.safetensors"))
    one, two = states
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"grow": 0.5, "open_bias": 0.5}], ids=["fixed", "growing"])
def test_past_answers_stay_bit_equal_on_two_ranks_over_five_tasks(options, tmp_path):
    data = {"synthetic_classes": 10, "synthetic_per_class": 20}
    experiment = tiny.experiment("ccgn", tasks=5, devices=2, data=data, epochs=3, options=options)
    summary = run(experiment, tmp_path / "run")
    assert summary["audit"]["ok"]
    assert summary["audit"]["logits"] == 5
