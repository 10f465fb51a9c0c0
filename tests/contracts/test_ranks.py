"""Two data-parallel ranks hold the same parameters, and compute what one rank computes."""

from __future__ import annotations

import functools

import pytest
import torch
from safetensors.torch import load_file
from tests.support import tiny
from tests.support.distributed_worker import work_all

from lockgate.errors import TrainingError
from lockgate.methods import METHODS
from lockgate.runs import checkpoint
from lockgate.runs.build import build_scenario
from lockgate.runs.directory import RunFolder
from lockgate.runs.run import resume, run
from lockgate.training.device import make_fabric

FIVE = {"tasks": 5, "epochs": 3, "data": {"synthetic_classes": 10, "synthetic_per_class": 20}}
GROWING = {"grow": 0.5, "open_bias": 0.5}
CASES = [(method, "simple_cnn", {}) for method in METHODS]
CASES += [("ccgn", "resnet18", {}), ("ccgn-episodic", "resnet18", {})]
CASES += [(method, "tests.support.networks:Concatenated", {}) for method in ("ccgn", "ccgn-episodic")]
CASES += [
    ("ccgn-episodic", "simple_cnn", {"options": tiny.ANNEALING}),
    ("ccgn", "resnet18", {"options": tiny.ANNEALING}),
]
CASES += [("ccgn", "simple_cnn", FIVE), ("ccgn", "simple_cnn", {**FIVE, "options": GROWING})]


def two_ranks(experiments, folder):
    """Whole runs on one start of two ranks, to which it takes longer than to a tiny run; results and folders of each.

    Of each run a copy is left as a kill inside the second epoch of its second task would have left it.
    """
    runs = []
    for index, experiment in enumerate(experiments):
        made = RunFolder(folder / str(index))
        made.create(experiment, "test")
        runs.append((experiment, build_scenario(experiment), made, folder / f"{index}-kept"))
    results = make_fabric(experiments[0]).launch(functools.partial(work_all, cases=runs))
    assert len(results) == len(experiments)
    return [(*result, made.path, kept) for result, (*_, made, kept) in zip(results, runs, strict=True)]


def test_two_ranks_train_hold_equal_parameters_and_keep_the_answers_to_past_tasks(tmp_path):
    experiments = [
        tiny.experiment(method, backbone, **{"devices": 2, "epochs": 2, **changes})
        for method, backbone, changes in CASES
    ]
    for experiment, (summary, differing, *_) in zip(experiments, two_ranks(experiments, tmp_path), strict=True):
        assert not differing, (experiment.method, differing)
        assert len(summary["task_incremental"]["matrix"][-1]) == experiment.tasks
        assert (summary["audit"] is not None) == (experiment.method in tiny.AUDITED)
        if experiment.method in tiny.AUDITED:
            assert summary["audit"]["ok"], experiment
            assert summary["audit"]["logits"] == experiment.tasks


def test_two_ranks_killed_inside_an_epoch_go_on_to_the_same_bits(tmp_path):
    """Each rank has statistics of its own; in a checkpoint there are only those of the first."""
    changes = {
        "devices": 2,
        "epochs": 2,
        "optim": {"batch_size": 4},
        "data": {"synthetic_classes": 4, "synthetic_per_class": 60},  # more than 20 steps an epoch
        "runtime": {"checkpoint_seconds": 0.0},
    }
    experiments = [
        tiny.experiment("ccgn-episodic", "simple_cnn", **changes),
        tiny.experiment("ccgn", "resnet18", **changes, options=tiny.ANNEALING),
    ]
    for *_, whole, kept in two_ranks(experiments, tmp_path):
        assert checkpoint.found(kept / "checkpoints")[-1].manifest()["meta"]["fit"]["step"] == 20
        resume(kept)
        ends = [checkpoint.newest_end(out / "checkpoints").path / "learner.safetensors" for out in (whole, kept)]
        assert ends[0].read_bytes() == ends[1].read_bytes()


def test_what_stops_a_rank_is_the_error_that_one_process_would_raise(tmp_path):
    experiment = tiny.experiment("finetune", devices=2, optim={"lr": 1e30, "clip": 0.0})
    with pytest.raises(TrainingError, match=r"class loss is not finite at task 0.*Lower `optim\.lr`"):
        run(experiment, tmp_path / "run")
    assert not list((tmp_path / "run").glob(".error*"))


@pytest.mark.parametrize("method", ["finetune", "slda", "slda-ridge", "slda-bilinear"])
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
    assert method == "finetune" or one["statistics.counts"].sum() == 4 * 20, "held-out images as well"
