"""Records as numbers over time, sent to whoever shows them."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from lockgate.config import Experiment, RuntimeConfig
from lockgate.errors import ConfigError, LockgateError
from lockgate.runs.log import read_records
from lockgate.runs.run import run
from lockgate.training.callbacks import Callback
from lockgate.training.loggers import TensorBoard, Trackio, Wandb, make_loggers, scalars

EPOCH = {"event": "epoch", "task": 1, "epoch": 2, "losses": {"class": 0.5}, "val_accuracy": 0.9, "lr": 0.1}
END: dict[str, Any] = {
    "event": "task",
    "task": 1,
    "task_incremental": [0.5, 1.0],
    "class_incremental": None,
    "capacity": [{"layer": "conv1", "used": 7}],
}


def test_every_number_of_a_record_has_a_name_and_a_step() -> None:
    assert list(scalars(EPOCH, 10)) == [
        ("task/loss class", 0.5, 12),
        ("task/val_accuracy", 0.9, 12),
        ("task/lr", 0.1, 12),
    ]
    assert list(scalars(END, 10)) == [
        ("task_incremental/average", 0.75, 2),
        ("task_incremental/task 1", 0.5, 2),
        ("task_incremental/task 2", 1.0, 2),
        ("filters used/conv1", 7, 2),
    ]


def test_a_run_writes_what_tensorboard_reads(tiny, tmp_path: Path) -> None:
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="TensorBoard is not installed: pip install 'lockgate[tensorboard]'",
    )
    experiment = tiny(runtime=RuntimeConfig(threads=1, loggers=("tensorboard",)), method="ccgn")
    run(experiment, tmp_path / "run")
    found = events.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    found.Reload()
    values = {(name, event.step): event.value for name in found.Tags()["scalars"] for event in found.Scalars(name)}
    records = read_records(tmp_path / "run" / "records.jsonl")
    wanted = {(name, step): value for record in records for name, value, step in scalars(record, experiment.epochs)}
    assert values.keys() == wanted.keys()
    for key, value in wanted.items():
        assert values[key] == pytest.approx(value, rel=1e-6)


class Backend(types.ModuleType):
    """Stands for trackio or wandb: notes what it is told."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.began: list[dict[str, Any]] = []
        self.logged: list[dict[str, float]] = []
        self.axes: dict[str, str] = {}
        self.finished = 0

    def init(self, **settings: Any) -> Backend:
        self.began.append(settings)
        return self

    def log(self, values: dict[str, float]) -> None:
        self.logged.append(values)

    def define_metric(self, name: str, step_metric: str) -> None:
        self.axes[name] = step_metric

    def finish(self) -> None:
        self.finished += 1


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_a_run_goes_to_a_tracker_under_its_own_name(
    tiny, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Backend(name)
    monkeypatch.setitem(sys.modules, name, backend)
    experiment = tiny(runtime=RuntimeConfig(threads=1, loggers=(name,)))
    run(experiment, tmp_path / "my-run")
    (began,) = backend.began
    assert (began["project"], began["name"], began["resume"]) == ("lockgate", "my-run", "allow")
    assert began["config"]["seed"] == experiment.seed
    records = read_records(tmp_path / "my-run" / "records.jsonl")
    assert len(backend.logged) == len(records) == 6  # two tasks of two epochs, and their ends
    assert [values["epoch"] for values in backend.logged if "epoch" in values] == [0, 1, 2, 3]
    assert [values["tasks learnt"] for values in backend.logged if "tasks learnt" in values] == [1, 2]
    assert backend.finished == 1
    if name == "wandb":
        assert began["id"] == "my-run"  # by which wandb knows a run that goes on
        assert backend.axes["*"] == "epoch"
        assert backend.axes["task_incremental/*"] == "tasks learnt"


@pytest.mark.parametrize(("name", "kind"), [("tensorboard", TensorBoard), ("trackio", Trackio), ("wandb", Wandb)])
def test_what_is_not_installed_is_said_with_the_command_before_a_folder_is_made(
    tiny, tmp_path: Path, name: str, kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, kind.module, None)  # as if it were not there
    with pytest.raises(LockgateError, match=rf"{kind.__name__} needs .*pip install 'lockgate\[{name}\]'"):
        run(tiny(runtime=RuntimeConfig(loggers=(name,))), tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Mine(Callback):
    """A logger of one's own."""

    def on_run_start(self, experiment: Experiment) -> None:
        self.seed = experiment.seed


def test_a_logger_of_ones_own_is_found_by_module_and_class() -> None:
    sys.modules["outsider"] = types.ModuleType("outsider")
    sys.modules["outsider"].Mine = Mine  # type: ignore[attr-defined]
    sys.modules["outsider"].thing = 3  # type: ignore[attr-defined]
    assert isinstance(make_loggers(["outsider:Mine"], Path())[0], Mine)
    for name, problem in (
        ("outsider:Missing", "has no 'Missing'"),
        ("nowhere.at_all:Mine", "nowhere"),
        ("outsider:thing", "sub-class of lockgate.Callback"),
        ("tensorbord", "Did you mean 'tensorboard'"),
    ):
        with pytest.raises(ConfigError, match=problem):
            make_loggers([name], Path())


def test_a_logger_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_log.py").write_text("import lockgate\n\nclass Theirs(lockgate.Callback):\n    pass\n")
    info = tmp_path / "their_log-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-log\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lockgate.loggers]\ntheirs = their_log:Theirs\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert type(make_loggers(["theirs"], Path())[0]).__name__ == "Theirs"
