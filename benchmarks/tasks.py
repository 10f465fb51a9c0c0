"""A hundred tasks: seconds and peak memory of each, which must not grow with the tasks behind it.

    python benchmarks/tasks.py [--tasks N] [--epochs N]

`ccgn` on synthetic images, two classes a task, as `lockgate run` does it: training, locking, testing, the audit,
records, checkpoints. Memory is the resident set of the process, sampled while it runs.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import threading
from pathlib import Path

from lockgate.app.audit import audit_run
from lockgate.config import DataConfig, Experiment, ModelConfig, OptimConfig, RuntimeConfig
from lockgate.runs.log import read_records
from lockgate.runs.run import run
from timing import resident, table, times

EVERY = 0.02


class Peaks(threading.Thread):
    """Samples the memory of this process, and how long the run's records are: that tells the task."""

    def __init__(self, records: Path) -> None:
        super().__init__(daemon=True)
        self.records = records
        self.samples: list[tuple[int, int]] = []
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(EVERY):
            self.samples.append((self.records.stat().st_size if self.records.exists() else 0, resident("VmRSS")))

    def by_task(self) -> list[int]:
        """The largest sample of each task that has ended."""
        ends, length = [], 0
        for line in self.records.read_bytes().splitlines(keepends=True):
            length += len(line)
            ends += [length] if b'"event": "task"' in line else []
        starts = [0, *ends]
        return [max(m for size, m in self.samples if a <= size < b) for a, b in itertools.pairwise(starts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=2)
    given = parser.parse_args()
    experiment = Experiment(
        method="ccgn",
        dataset="synthetic",
        tasks=given.tasks,
        epochs=given.epochs,
        data=DataConfig(synthetic_classes=2 * given.tasks, synthetic_per_class=200),
        model=ModelConfig(width=50),
        optim=OptimConfig(batch_size=32),
        options={"sparsity_warmup": 0, "gate_lr": 10.0, "prune": 1e-3},
        runtime=RuntimeConfig(threads=1, accelerator="cpu"),
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        peaks = Peaks(out / "records.jsonl")
        peaks.start()
        run(experiment, out)
        peaks.done.set()
        memory = peaks.by_task()
        records = read_records(out / "records.jsonl")
        verdict = audit_run(out)
    whole = [record["seconds"] for record in records if record["event"] == "task"]
    training = [0.0] * given.tasks
    for record in records:
        if record["event"] == "epoch":
            training[record["task"]] += record["seconds"]
    shown = [t for t in (1, 2, 5, 10, 20, 50, 100) if t <= given.tasks]
    rows = []
    for t in shown:
        cells: list[object] = [t]
        for seconds in (training, whole):
            middle = statistics.median(seconds[max(0, t - 3) : t + 2])
            cells += [f"{middle:.2f}", times(middle / statistics.median(seconds[1:4]))]
        rows.append([*cells, f"{memory[t - 1] / 2**20:.0f}", times(memory[t - 1] / memory[1])])
    head = [
        "task",
        "training, s",
        "of task 2",
        "with tests and audit of all tasks, s",
        "of task 2",
        "peak MiB",
        "of task 2",
    ]
    table("Cost of a task (goal of training: 1.3x of task 2; medians with the tasks beside it)", head, rows)
    print(f"\n{verdict.text()}")


if __name__ == "__main__":
    main()
