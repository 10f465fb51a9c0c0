"""A whole run: same seed, same bits; nothing of the user's touched; a summary with the documented keys."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support import tiny

from lockgate.config import DataConfig, Experiment, ScenarioConfig
from lockgate.errors import ConfigError, TrainingError
from lockgate.evaluation import accuracy, macs
from lockgate.runs.build import build_learner, validated
from lockgate.runs.loading import load
from lockgate.runs.run import run
from lockgate.runs.summary import environment
from lockgate.training.device import tune_allocator

Tiny = Callable[..., Experiment]
Bits = Callable[[Path], bytes]


@pytest.mark.parametrize("method", ["finetune", "joint", "ccgn"])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(
    tiny: Tiny, tmp_path: Path, last_bits: Bits, method: str
) -> None:
    torch.manual_seed(1)
    run(tiny(method=method, seed=3), tmp_path / "one")
    torch.manual_seed(2)  # the user's own seed must not matter
    run(tiny(method=method, seed=3), tmp_path / "same")
    run(tiny(method=method, seed=4), tmp_path / "other")
    assert last_bits(tmp_path / "one") == last_bits(tmp_path / "same")
    assert last_bits(tmp_path / "one") != last_bits(tmp_path / "other")


@pytest.mark.parametrize("diverges", [False, True])
def test_a_run_leaves_the_users_random_numbers_alone_even_when_it_fails(
    tiny: Tiny, tmp_path: Path, diverges: bool
) -> None:
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002  the user's global generator is the point
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    outcome = pytest.raises(TrainingError, match="not finite") if diverges else contextlib.nullcontext()
    with outcome:
        run(tiny(optim={"lr": 1e30 if diverges else 1e-3, "clip": 0.0}), tmp_path / "run")
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_loading_leaves_the_users_random_numbers_alone(finished: Path) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    load(finished)
    assert torch.equal(before, torch.get_rng_state())


def test_the_first_weights_are_decided_by_the_seed_alone(tiny: Tiny) -> None:
    before = torch.get_rng_state()
    one, same, other = (build_learner(validated(tiny(seed=seed)), (3, 16, 16)).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(value, same[name]) for name, value in one.items())
    assert not torch.equal(one["backbone.conv1.weight"], other["backbone.conv1.weight"])
    assert torch.equal(before, torch.get_rng_state())


DOCUMENTED = {"method", "dataset", "seed", "tasks", "seconds", "task_incremental", "class_incremental"}


@pytest.mark.parametrize("method", ["finetune", "joint", "ccgn"])
def test_the_summary_has_its_documented_keys_and_is_what_is_on_disk(tiny: Tiny, tmp_path: Path, method: str) -> None:
    summary = run(tiny(method=method, seed=5), tmp_path / "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    assert set(summary) >= DOCUMENTED
    named = summary["method"], summary["dataset"], summary["seed"], summary["tasks"]
    assert named == (method, "synthetic", 5, 2)
    records = [json.loads(line) for line in (tmp_path / "run" / "records.jsonl").read_text().splitlines()]
    seconds = {event: [r["seconds"] for r in records if r["event"] == event] for event in ("epoch", "task")}
    assert summary["seconds"] == pytest.approx(sum(seconds["task"]))
    assert summary["seconds"] > sum(seconds["epoch"]), "a task takes its epochs, and its end"
    rows = [2] if method == "joint" else [1, 2]
    for key in ("task_incremental", "class_incremental"):
        if key == "class_incremental" and method == "ccgn":
            assert summary[key] is None, "ccgn without a memory needs the task"
            continue
        matrix: list[list[float]] = summary[key]["matrix"]
        assert [len(row) for row in matrix] == rows
        assert summary[key]["average"] == pytest.approx(sum(matrix[-1]) / 2)
    assert (summary["capacity"] is None) == (summary["audit"] is None) == (method != "ccgn")


def test_the_matrix_is_the_accuracy_counted_image_by_image(finished: Path) -> None:
    learner, scenario, _ = load(finished)
    learner.eval()
    summary = json.loads((finished / "summary.json").read_text())
    logits = [
        [torch.cat([learner.predict(x[None], t)[0] for t in (0, 1)]) for x in task.test.x] for task in scenario.tasks
    ]
    for t, task in enumerate(scenario.tasks):
        own = [int(row[2 * t : 2 * t + 2].argmax()) for row in logits[t]]
        among_all = [int(row.argmax()) - 2 * t for row in logits[t]]
        for key, answers in (("task_incremental", own), ("class_incremental", among_all)):
            right = sum(a == y for a, y in zip(answers, task.test.y.tolist(), strict=True))
            assert summary[key]["matrix"][-1][t] == right / len(task.test)


def test_one_record_an_epoch_and_one_a_task_in_the_order_of_events(finished: Path) -> None:
    lines = [json.loads(line) for line in (finished / "records.jsonl").read_text().splitlines()]
    events = [(line["event"], line["task"], line.get("epoch")) for line in lines]
    one = [("epoch", 0, 0), ("epoch", 0, 1), ("task", 0, None)]
    assert events == one + [(event, 1, epoch) for event, _, epoch in one]


def test_class_names_in_the_summary_follow_the_class_order(tiny: Tiny, tmp_path: Path) -> None:
    summary = run(tiny(scenario=ScenarioConfig(class_order="random", order_seed=2)), tmp_path / "run")
    _, scenario, _ = load(tmp_path / "run")
    assert summary["task_names"] == [[f"class {c}" for c in task.classes] for task in scenario.tasks]
    assert sorted(name for names in summary["task_names"] for name in names) == [f"class {c}" for c in range(4)]


def test_a_bad_experiment_or_bad_tasks_make_no_folder(tiny: Tiny, tmp_path: Path) -> None:
    for changes in ({"method": "nope"}, {"tasks": 3}):
        with pytest.raises(ConfigError):
            run(tiny(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_checkpoints_after_every_step_change_nothing_that_is_learnt(
    tiny: Tiny, tmp_path: Path, finished: Path, last_bits: Bits
) -> None:
    experiment = tiny()
    often = replace(experiment, runtime=replace(experiment.runtime, checkpoint_seconds=0.0))
    run(often, tmp_path / "often")
    assert last_bits(tmp_path / "often") == last_bits(finished)


@pytest.mark.parametrize("seal", [True, False])
def test_past_tasks_are_tested_again_only_where_their_answers_may_have_moved(
    tiny: Tiny, tmp_path: Path, seal: bool
) -> None:
    data = DataConfig(synthetic_classes=6, synthetic_per_class=20)
    options = {"sparsity_warmup": 0, "open_bias": 0.0, "seal": seal}
    out = tmp_path / "run"
    summary = run(tiny(method="ccgn", tasks=3, data=data, options=options), out)
    ends = [r for r in map(json.loads, (out / "records.jsonl").read_text().splitlines()) if r["event"] == "task"]
    assert [end["audit"]["logits"] for end in ends] == ([1, 1, 3] if seal else [1, 2, 3])
    learner, scenario, _ = load(out)
    assert summary["task_incremental"]["matrix"][-1] == accuracy.task_incremental(learner, scenario.tasks)
    counted = macs.stage_macs(learner, scenario.tasks)
    assert counted is not None
    assert summary["macs"]["by_task"] == counted["by_task"]
    assert ends[-1]["macs"]["mean"] == counted["mean"]


def test_the_run_says_once_that_it_tuned_the_allocator(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = tiny()
    run(experiment, tmp_path / "tuned")
    assert capsys.readouterr().err.count("allocator tuned") == int(tune_allocator())
    monkeypatch.setenv("LOCKGATE_TUNE_ALLOCATOR", "0")
    run(experiment, tmp_path / "by the environment")
    monkeypatch.delenv("LOCKGATE_TUNE_ALLOCATOR")
    run(replace(experiment, runtime=replace(experiment.runtime, tune_allocator=False)), tmp_path / "left alone")
    assert "allocator" not in capsys.readouterr().err


def test_a_run_notes_what_it_began_with(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may commit while it trains: what git says is asked for once, before."""
    known, answers = subprocess.run, iter(["of the beginning", "of the end"])

    def git(command: list[str], **options: Any) -> Any:
        if "describe" in command:
            return subprocess.CompletedProcess(command, 0, next(answers))
        return subprocess.CompletedProcess(command, 0) if command[0] == "git" else known(command, **options)

    monkeypatch.setattr(subprocess, "run", git)
    assert run(tiny(epochs=1), tmp_path / "run")["environment"]["commit"] == "of the beginning"
    assert environment()["commit"] == "of the end"


def test_a_run_notes_the_commit_of_a_checkout() -> None:
    found = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"], capture_output=True, text=True
    )
    if found.returncode:
        pytest.skip("this is no checkout")
    noted = environment()["commit"]
    assert noted is not None
    assert found.stdout.startswith(noted.removesuffix("-dirty"))


@pytest.mark.parametrize(("method", "what"), [("dgm", "task 1/2  "), ("ccgn-generative", "task 1/2  generator  ")])
def test_what_is_trained_in_fp32_all_the_same_is_said(method, what, tmp_path, capsys):
    run(tiny.experiment(method, epochs=1, runtime={"precision": "bf16-mixed"}), tmp_path / "run")
    assert f"{what}trained in fp32, not in bf16-mixed" in capsys.readouterr().err
    run(tiny.experiment(method, epochs=1), tmp_path / "full")
    assert "trained in fp32" not in capsys.readouterr().err
