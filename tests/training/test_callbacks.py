"""Callbacks hear everything, once, and change nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support import tiny

import lockgate
from lockgate.config import Experiment
from lockgate.errors import CallbackError
from lockgate.runs.log import read_records

Bits = Callable[[Path], bytes]


class Meddler(lockgate.Callback):
    """Does what a callback can do wrong: draws, seeds, sets, and changes what it is given."""

    def _meddle(self, given: Any) -> None:
        torch.rand(3)
        torch.manual_seed(1)
        np.random.seed(2)  # noqa: NPY002
        random.seed(3)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(torch.get_num_threads() + 1)
        options = given.options if isinstance(given, Experiment) else given
        options.clear()

    def on_run_start(self, experiment: Experiment) -> None:
        self._meddle(experiment)

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        record["losses"].clear()
        self._meddle(record)

    def on_task_end(self, record: dict[str, Any]) -> None:
        record["task_incremental"].append(2.0)
        self._meddle(record)

    def on_run_end(self, summary: dict[str, Any]) -> None:
        self._meddle(summary)


def records(out: Path) -> list[dict[str, Any]]:
    read = read_records(out / "records.jsonl")
    return [{k: v for k, v in record.items() if k not in ("seconds", "test_seconds")} for record in read]


@pytest.mark.parametrize("method", ["finetune", "ccgn-episodic", "ccgn-generative"])
def test_weights_records_and_summary_are_bit_equal_with_and_without(
    tmp_path: Path, last_bits: Bits, method: str
) -> None:
    experiment = tiny.experiment(method)
    alone = lockgate.run(experiment, tmp_path / "alone", quiet=True)
    heard = lockgate.run(experiment, tmp_path / "heard", callbacks=[Meddler()], quiet=True)
    assert last_bits(tmp_path / "alone") == last_bits(tmp_path / "heard")
    assert records(tmp_path / "alone") == records(tmp_path / "heard")
    for key in ("task_incremental", "class_incremental", "capacity", "gates", "audit"):
        assert heard.summary[key] == alone.summary[key]
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()


class Listener(lockgate.Callback):
    """Keeps what it hears; may fail."""

    def __init__(self, fails: str = "") -> None:
        self.heard: list[tuple[str, Any]] = []
        self.fails = fails

    def _hear(self, hook: str, what: Any) -> None:
        self.heard.append((hook, what))
        if hook == self.fails:
            raise ValueError("no room in the notebook")

    def on_run_start(self, experiment: Experiment) -> None:
        self._hear("on_run_start", experiment)

    def on_epoch_end(self, record: dict[str, Any]) -> None:
        self._hear("on_epoch_end", record)

    def on_task_end(self, record: dict[str, Any]) -> None:
        self._hear("on_task_end", record)

    def on_run_end(self, summary: dict[str, Any]) -> None:
        self._hear("on_run_end", summary)


def test_a_callback_hears_each_record_as_it_is_written(tmp_path: Path) -> None:
    listener = Listener()
    result = lockgate.run(tiny.experiment(), tmp_path / "run", callbacks=[listener], quiet=True)
    task = ["on_epoch_end", "on_epoch_end", "on_task_end"]
    assert [hook for hook, _ in listener.heard] == ["on_run_start", *task, *task, "on_run_end"]
    assert listener.heard[0][1] == result.experiment
    assert [what for _, what in listener.heard[1:-1]] == read_records(tmp_path / "run" / "records.jsonl")
    assert listener.heard[-1][1] == json.loads((tmp_path / "run" / "summary.json").read_text())


@pytest.mark.parametrize("hook", ["on_run_start", "on_epoch_end", "on_task_end", "on_run_end"])
def test_a_failing_callback_is_named_and_the_run_goes_on_without_it_to_the_same_bits(
    tmp_path: Path, last_bits: Bits, hook: str
) -> None:
    experiment, out = tiny.experiment(), tmp_path / "run"
    lockgate.run(experiment, tmp_path / "whole", quiet=True)
    with pytest.raises(CallbackError, match=rf"Listener failed in {hook}: ValueError: no room.*lockgate resume {out}"):
        lockgate.run(experiment, out, callbacks=[Listener(hook)], quiet=True)
    assert lockgate.resume(out, quiet=True).finished
    assert last_bits(out) == last_bits(tmp_path / "whole")
    assert records(out) == records(tmp_path / "whole")
