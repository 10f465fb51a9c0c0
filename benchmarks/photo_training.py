"""What training adds on photos: streams of a pretrained network; beside them a copy of the whole network fine-tuned for
each task (which cannot answer without it), one network fine-tuned in sequence, one from scratch.

    python benchmarks/photo_training.py DATA [--sets trashnet6] [--rows streams scratch] [--orders 0 1 2] [--held-out]

DATA is as for ``photos.py``. With ``--held-out`` test images are not read: half of 30 % of the training images, held
out, are tested on, to choose settings; ``slda-ridge`` is then the row to compare with. A line of JSON for
each run, appended to ``--out``. One thread; hours, for all of it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import lockgate
from photos import TASKS

STREAMS = {"options": {"inference": "joint", "targets": "class", "rehearsal": 8, "buffer": 500}, "epochs": 8}
LITE0 = {"backbone": "efficientnet_lite0", "optim": {"batch_size": 16, "lr": 0.001, "selection": "last"}}
ROWS: dict[str, dict[str, Any]] = {
    "slda-ridge": {"method": "slda-ridge", **LITE0, "augment": {"random_flip": True}},
    "streams": {
        "method": "ccgn-episodic",
        **LITE0,
        **STREAMS,
        "model": {"private": 0.25, "private_depth": 0.25},
        "runtime": {"feature_cache": "runs/photos/prefix"},
    },
    "copies": {
        "method": "ccgn",
        **LITE0,
        "augment": {"random_flip": True},
        "epochs": 8,
        "model": {"private": 1.0, "private_depth": 1.0},
    },
    "sequence": {"method": "finetune", **LITE0, "augment": {"random_flip": True}, "epochs": 4},
    "scratch": {"preset": "short", "method": "ccgn-episodic", "backbone": "simple_cnn", "data": {"image_size": 32}},
}


def measure(data: Path, name: str, row: str, order: int, held_out: bool, over: dict[str, Any]) -> dict[str, Any]:
    """Accuracy after the last task, without and with the task, and CPU seconds of all that was done for it."""
    scenario: dict[str, Any] = {"class_order": "random", "order_seed": order}
    if held_out:
        scenario |= {"held_out": 0.3, "evaluate": "held_out"}
    described = {
        "dataset": "folder",
        "data_dir": str(data / name),
        "tasks": TASKS[name],
        "seed": order,
        "scenario": scenario,
        "data": {"image_size": 160, "resize": "crop"},
        **ROWS[row],
    }
    described["runtime"] = {"threads": 1, "accelerator": "cpu", **ROWS[row].get("runtime", {})}
    described |= over
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        summary = lockgate.run(described, Path(folder) / "run", quiet=True).summary
    found = summary["class_incremental"]
    return {
        "set": name,
        "row": row,
        "order": order,
        "held out": held_out,
        **over,
        "without": found and found["average"],
        "given": summary["task_incremental"]["average"],
        "cpu seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--orders", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--held-out", action="store_true", help="to choose settings: test images are not read")
    parser.add_argument("--over", type=json.loads, default={}, help="JSON, in the place of a row's own groups")
    parser.add_argument("--out", type=Path, default=Path("runs/photos/training.jsonl"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for name in given.sets:
        for order in given.orders:
            for row in given.rows:
                line = json.dumps(measure(given.data, name, row, order, given.held_out, given.over))
                print(line, flush=True)
                with given.out.open("a") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
