"""Two data-parallel ranks hold the same parameters, and compute what one rank computes."""

from __future__ import annotations

import functools

import pytest
import torch
from safetensors.torch import load_file
from tests.support import tiny
from tests.support.distributed_worker import work_all, work_and_copy

from lockgate.errors import TrainingError
from lockgate.methods import METHODS
from lockgate.runs import checkpoint
from lockgate.runs.build import build_scenario
from lockgate.runs.directory import RunFolder
from lockgate.runs.run import resume, run
from lockgate.training.device import make_fabric

CASES = [(method, "simple_cnn", {}) for method in METHODS]
CASES += [("ccgn", "resnet18", {}), ("ccgn-episodic", "resnet18", {})]
CASES += [(method, "tests.support.networks:Concatenated", {}) for method in ("ccgn", "ccgn-episodic")]
CASES += [("ccgn-episodic", "simple_cnn", tiny.ANNEALING), ("ccgn", "resnet18", tiny.ANNEALING)]


PART = 7
"""Cases that one start of two ranks runs: to start them takes longer than a tiny run."""


@pytest.mark.parametrize("first", range(0, len(CASES), PART))
def test_two_ranks_train_two_tasks_and_hold_equal_parameters(first, tmp_path):
    cases = CASES[first : first + PART]
    runs = []
    for index, (method, backbone, options) in enumerate(cases):
        experiment = tiny.experiment(method, backbone, devices=2, epochs=2, options=options)
        folder = RunFolder(tmp_path / str(index))
        folder.create(experiment, "test")
        runs.append((experiment, build_scenario(experiment), folder))
    results = make_fabric(runs[0][0]).launch(functools.partial(work_all, cases=runs))
    assert len(results) == len(cases)
    for (method, *_), (summary, differing) in zip(cases, results, strict=True):
        assert not differing, (method, differing)
        assert len(summary["task_incremental"]["matrix"][-1]) == 2
        assert (summary["audit"] is not None) == (method in tiny.AUDITED)
        assert method not in tiny.AUDITED or summary["audit"]["ok"]


@pytest.mark.parametrize(
    ("method", "backbone", "options"), [("ccgn-episodic", "simple_cnn", {}), ("ccgn", "resnet18", tiny.ANNEALING)]
)
def test_two_ranks_killed_inside_an_epoch_go_on_to_the_same_bits(method, backbone, options, tmp_path):
    """Each rank has statistics of its own; in a checkpoint there are only those of the first."""
    experiment = tiny.experiment(
        method,
        backbone,
        devices=2,
        epochs=2,
        options=options,
        optim={"batch_size": 4},
        data={"synthetic_classes": 4, "synthetic_per_class": 60},  # more than 20 steps an epoch
        runtime={"checkpoint_seconds": 0.0},
    )
    whole, kept = RunFolder(tmp_path / "whole"), tmp_path / "kept"
    whole.create(experiment, "test")
    work = functools.partial(
        work_and_copy, experiment=experiment, scenario=build_scenario(experiment), folder=whole, kept=kept
    )
    make_fabric(experiment).launch(work)
    assert checkpoint.found(kept / "checkpoints")[-1].manifest()["meta"]["fit"]["step"] == 20
    resume(kept)
    bits = [(checkpoint.newest_end(out / "checkpoints").path / "learner.safetensors") for out in (whole.path, kept)]
    assert bits[0].read_bytes() == bits[1].read_bytes()


def test_what_stops_a_rank_is_the_error_that_one_process_would_raise(tmp_path):
    experiment = tiny.experiment("finetune", devices=2, optim={"lr": 1e30, "clip": 0.0})
    with pytest.raises(TrainingError, match=r"class loss is not finite at task 0.*Lower `optim\.lr`"):
        run(experiment, tmp_path / "run")
    assert not list((tmp_path / "run").glob(".error*"))


@pytest.mark.parametrize("method", ["finetune", "slda"])
def test_two_ranks_compute_what_one_rank_computes(method, tmp_path):
    """Without BatchNorm or noise, the mean of two half batches' gradients is the whole batch's gradient.

    In closed form, the sum of two halves' statistics is the whole task's.
    """
    states = []
    for devices in (1, 2):
        out = tmp_path / str(devices)
        run(tiny.experiment(method, "simple_cnn", devices=devices, optim={"lr": 0.01}), out)
        states.append(load_file(checkpoint.found(out / "checkpoints")[-1].path / "learner.safetensors"))
    one, two = states
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=1e-5)
    assert method == "finetune" or one["statistics.counts"].sum() == 36 * 2


@pytest.mark.parametrize("options", [{}, {"grow": 0.5, "open_bias": 0.5}], ids=["fixed", "growing"])
def test_past_answers_stay_bit_equal_on_two_ranks_over_five_tasks(options, tmp_path):
    data = {"synthetic_classes": 10, "synthetic_per_class": 20}
    experiment = tiny.experiment("ccgn", tasks=5, devices=2, data=data, epochs=3, options=options)
    summary = run(experiment, tmp_path / "run")
    assert summary["audit"]["ok"]
    assert summary["audit"]["logits"] == 5
